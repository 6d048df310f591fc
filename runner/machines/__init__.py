"""Makers of machines: fresh, disposable Windows computers."""
