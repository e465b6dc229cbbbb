"""Matrix, through matrix-nio: rooms, threads, invitations, encrypted rooms."""
