"""The screen and input of a machine, and the flight recorder."""
