"""NTFS, read from its own structures: records, run lists, streams, directories.

What is known of the format: the NTFS headers of Linux and ntfs-3g (``layout.h``), Microsoft's [MS-FSCC] for attributes, reparse points
and names, and the measured behaviour of both. The tests compare the reader with The Sleuth Kit and libfsntfs on the same volumes.
The journal is not replayed: a volume is read as it lies on the disk, so it must have been flushed, or left clean
(:mod:`runner.offline.ntfs.journal`).
"""
