"""The parts of the stand-in for a legacy-use server; see :mod:`tests.peers.legacy_use_server`."""
