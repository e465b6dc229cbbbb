"""Everything that speaks to a database."""
