"""Judgement: pure functions from snapshots to changes, to a ledger, to a verdict."""
