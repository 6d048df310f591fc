"""Images: manifests and recipes of base machines."""
