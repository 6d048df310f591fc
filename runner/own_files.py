"""The files that the runner itself puts into a machine; no change of theirs is anybody's doing."""

from __future__ import annotations

import re
from pathlib import PureWindowsPath

FOLDER = "legacyproof"
"""The folder on every drive in which they lie."""
_NAMES = re.compile(
    r"lpprobe\.exe|resident\.exe|nonce\.txt|flushed\.txt|answer-\d{1,4}\.jsonl|put-[0-9a-f]{1,32}\.part"
    r"|runs|runs\\[0-9a-f]{1,64}\.(?:claim|done|new)",
    re.IGNORECASE,
)
"""The probe, what proves freshness and flushing, and what the probe keeps of requests."""


def is_ours(path: PureWindowsPath) -> bool:
    """Whether a path is one of them, or their folder: by exact names, since anybody else may put files beside them."""
    parts = path.parts
    if len(parts) < 2 or not path.drive or parts[1].lower() != FOLDER:
        return False
    return len(parts) == 2 or _NAMES.fullmatch("\\".join(parts[2:])) is not None
