"""Prompts: structured steps and how they are rendered."""
