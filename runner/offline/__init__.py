"""Reading a machine's disk without its help: disk images, partitions, NTFS, and what changed between two moments.

Everything here only reads, and nothing needs privileges. What comes from a disk is hostile: an agent had the machine in its hands.
So every length, offset and count is checked against what can be there, every walk is bounded, and whatever does not add up is
:class:`~validators.changes.Unreadable`, never a shorter result.
"""
