"""The vendors' interfaces, each through its own SDK, loaded only when it is used."""
