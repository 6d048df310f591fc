"""Ways into a machine."""
