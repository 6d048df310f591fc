"""The commands of ``legacyproof``, a module per subject; each adds its own with ``add_to(app)``."""
