"""What looks after a store: backups, salvage, the doctor, erasure, retention, health."""
