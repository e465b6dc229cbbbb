"""Recovery of rows from a damaged file; see `file_repair`."""
