"""The query language: what people type, read tolerantly, in one form for every database."""
