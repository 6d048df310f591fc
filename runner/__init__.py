"""The program: machines, guests, display, agents, the life of a run, reports."""
