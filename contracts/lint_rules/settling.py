"""Rules about when the state of a run counts as final (CONTRACT.md section 7)."""

from __future__ import annotations

from collections.abc import Iterator

from contracts.lint_rules.base import Hit, Rule, View


def _quiet_too_short(view: View) -> Iterator[Hit]:
    quiet = view.contract.limits.quiet
    if view.measured_quiet is not None and quiet < view.measured_quiet:
        yield Hit(
            ("limits", "quiet"),
            f"good runs were seen to change the state so late that {view.measured_quiet:g} s of quiet are needed, and the contract "
            f"waits for {quiet:g} s",
            f"write `quiet: {view.measured_quiet:g}s`",
        )


RULES = (
    Rule(
        "quiet-too-short", "warning",
        "A `limits.quiet` that is shorter than what `legacyproof calibrate --good` has measured for the contract.",
        "What the program stores later is missed: a true success is called a phantom, a late record goes unnoticed.",
        "Write the quiet time that was measured.",
        _quiet_too_short,
    ),
)  # fmt: skip
