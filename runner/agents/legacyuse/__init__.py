"""The parts of the ``legacy-use`` agent (:mod:`runner.agents.legacy_use`)."""
