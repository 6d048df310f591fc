"""Reads a PDF in a process of its own: the document on standard input, what it holds as JSON on standard output.

Run as a script, never imported by the runner: a document comes from the guest, and one that makes the reader spin or swallow
memory ends this process alone. The limits are set before the first byte is read.
"""

from __future__ import annotations

import json
import sys
from io import BytesIO
from typing import Any

MAX_PAGES = 1_000
MAX_TEXT = 1_000_000
CPU_SECONDS = 20
MEMORY = 1 << 30
TOO_MUCH = 3
"""Exit status: the document needs more than the limits."""
NO_PYPDF = 4
"""Exit status: the library is not installed."""


def _limit() -> None:
    try:
        import resource  # noqa: PLC0415 - not everywhere
    except ImportError:
        return  # the parent's time-out remains
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def read(data: bytes) -> dict[str, Any]:
    """Pages, text and date of a document, or ``{"error": why}``."""
    from pypdf import PdfReader  # noqa: PLC0415 - loading it is the script's business, after the limits

    try:
        reader = PdfReader(BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            return {"error": "it is locked with a password"}
        pages = len(reader.pages)
        texts: list[str] = []
        length = 0
        for number in range(min(pages, MAX_PAGES)):
            texts.append(reader.pages[number].extract_text())
            length += len(texts[-1])
            if length > MAX_TEXT:
                break
        information = reader.metadata
        created = str(information.get("/CreationDate", "")) if information else ""
    except MemoryError:
        raise
    except Exception as error:  # whatever a broken document makes the library stumble over
        return {"error": f"it cannot be read ({type(error).__name__}: {error})"[:300]}
    text = "\n".join(texts)[:MAX_TEXT]
    return {"pages": pages, "text": text, "cut": length > MAX_TEXT or pages > MAX_PAGES, "created": created[:100]}


def main() -> int:
    """Reads, answers, and tells by the exit status what stood in the way."""
    _limit()
    try:
        answer = read(sys.stdin.buffer.read())
    except ImportError:
        return NO_PYPDF
    except MemoryError:
        return TOO_MUCH
    sys.stdout.buffer.write(json.dumps(answer).encode("ascii"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
