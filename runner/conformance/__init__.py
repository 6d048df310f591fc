"""The conformance suite: named checks that prove a machine provider or a guest fit for judging agents by it."""
