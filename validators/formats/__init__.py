"""Finding one value in a file's content, by format. Pure, no I/O; hostile content gives a reason, never another exception."""
