"""``legacyproof doctor``: looks at everything that a run needs, and says what is wrong and what to do."""
