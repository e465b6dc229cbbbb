"""The query language: tolerant parsing into one form for every database."""
