"""Reading disks without the machine: images, NTFS, what changed."""
