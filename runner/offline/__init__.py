"""Reading a machine's disk without its help: disk images, NTFS, and what changed between two states of a disk."""
