"""``make bare``: the README's commands on a bare Debian, made for it and removed afterwards.

The bare Debian holds what every Debian holds, make, and the tracked files of this tree; of this computer it gets nothing but the way
to its package archives (see :mod:`tests.bare.handed_in`). ``--short`` is the form for every commit: each target that sets something up,
the demo of one contract, and the test that looks for programs which no package brings.

Needs root, as the demo does for installing packages. Status 0: everything went well.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.bare.root import BareRoot, Failed

SOURCE = Path(__file__).resolve().parents[2]
ONE_HOME = "LEGACYPROOF_HOME=/var/lib/machines LEGACYPROOF_TEST_HOME=/var/lib/machines"
"""So that the virtual machine's image is built once."""
WHOLE = (
    "make demo",
    "make lint",
    "make fuzz CASES=20000",
    f"make bench QUICK=1 {ONE_HOME}",
    f"make test {ONE_HOME}",
)
SHORT = (
    "make demo DEMO=contracts/catalog/legacyworld/dswin/open-dswin.yaml",
    "make .venv/.ready-test",
    "make setup-vm",
    "make setup-test",
    "make test PYTEST_ARGS=tests/test_commands.py",
)


def main() -> None:
    """Does it; one line per command, with its seconds."""
    parser = argparse.ArgumentParser(prog="make bare", description=__doc__)
    parser.add_argument("--short", action="store_true", help="a part of it, in a few minutes")
    parser.add_argument("commands", nargs="*", help="other commands than those, each in quotes")
    given = parser.parse_args()
    if os.geteuid() != 0:
        sys.exit("make bare: making a bare Debian needs root; try `sudo make bare`")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    status = 0
    with tempfile.TemporaryDirectory(prefix="legacyproof-bare-") as folder:
        try:
            begun = time.monotonic()
            root = BareRoot.build(Path(folder), SOURCE)
            _tell("a bare Debian", begun)
            for command in given.commands or (SHORT if given.short else WHOLE):
                begun = time.monotonic()
                root.run(command)
                _tell(command, begun)
        except Failed as error:
            print(f"make bare: {error}", file=sys.stderr)  # noqa: T201
            status = 1
    sys.exit(status)


def _tell(what: str, begun: float) -> None:
    print(f"bare: {what}: {time.monotonic() - begun:.0f} s", flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
