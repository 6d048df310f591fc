"""Task contracts: what a run may change, must change and must return."""
