"""Stand-ins for the model vendors' endpoints: what they prove stands in ``base.py`` and in each vendor's module."""
