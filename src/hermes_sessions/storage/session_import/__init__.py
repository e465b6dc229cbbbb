"""Import of whole sessions: check, compare, write, attach to parents."""
