"""What imports, copies, backups and repairs share; see docs/decisions/0021-one-pipeline.md."""
