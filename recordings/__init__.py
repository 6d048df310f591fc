"""Golden scripts, misdeeds and recordings of tasks."""
