"""Several command lines under the same standard streams, each in a process of its own that is forked from this one.

``python -m tests.peers.forked_commands RESULTS COMMANDS``: COMMANDS is a JSON list of argument lists, RESULTS the file that gets the
list of their exit statuses. A fork costs a hundredth of a new interpreter; streams that are closed or damaged when this process starts
are so for each command. Runs are pretended: see :mod:`tests.peers.pretended_runs`.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from runner import campaign, cli
from tests.peers.pretended_runs import Pretended


def main() -> None:
    """Runs the commands one after the other."""
    vars(campaign)["run_once"] = Pretended({})
    statuses = []
    for arguments in json.loads(sys.argv[2]):
        child = os.fork()
        if child == 0:
            sys.argv = ["legacyproof", *arguments]
            cli.main()
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    # Not opened before: it would get the number of a closed stream, and the commands would inherit it.
    Path(sys.argv[1]).write_text(json.dumps(statuses))


if __name__ == "__main__":
    main()
