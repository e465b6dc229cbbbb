"""What commands print, as pure functions: no input or output, the clock passed in."""
