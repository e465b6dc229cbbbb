"""The interactive picker: what is listed, how keys move it, how it looks, and the terminal."""
