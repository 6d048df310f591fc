"""Windows' own functions, asked inside a machine: what they make of INI files and registry values (``windows_functions.c``)."""

from __future__ import annotations

import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path, PureWindowsPath

from runner.guests.base import Guest

_SOURCE = Path(__file__).with_suffix(".c")
_COMPILER = ("x86_64-w64-mingw32-gcc", "-std=c11", "-O2", "-Wall", "-Wextra", "-Werror", "-DUNICODE", "-D_UNICODE",
             "-D_WIN32_WINNT=0x0600", "-municode", "-mconsole", "-static-libgcc")  # fmt: skip
_LARGEST = 64 << 20
_NONE = 0xFFFF_FFFF


class WindowsFunctions:
    """The oracle in one machine; one start of its program answers any number of cases.

    Args:
        guest: The machine's guest.
        folder: Where the program is built.
    """

    def __init__(self, guest: Guest, folder: Path) -> None:
        self._guest = guest
        built = folder / "oracle.exe"
        subprocess.run([*_COMPILER, "-o", built, _SOURCE, "-ladvapi32"], check=True, timeout=120, capture_output=True)
        self._program = PureWindowsPath(r"C:\oracle.exe")
        guest.write(self._program, built.read_bytes())

    def _ask(self, what: str, requests: bytes) -> bytes:
        questions, answers = PureWindowsPath(r"C:\oracle.in"), PureWindowsPath(r"C:\oracle.out")
        self._guest.write(questions, requests)
        done = self._guest.run([str(self._program), what, str(questions), str(answers)], timeout=300)
        assert done.status == 0, done
        return self._guest.read(answers, limit=_LARGEST)

    def ini(self, cases: Sequence[tuple[bytes, Sequence[tuple[str, str]]]]) -> tuple[str, list[list[str | None]]]:
        """What ``GetPrivateProfileStringW`` gives.

        Args:
            cases: A file's bytes and the sections and keys to ask it for.

        Returns:
            The encoding that it takes files without a mark for, and the values for each case, ``None`` where there is none.
        """
        requests = struct.pack("<I", len(cases))
        for data, questions in cases:
            requests += _run(data) + struct.pack("<I", len(questions))
            requests += b"".join(_run(f"{name}\0".encode("utf-16-le")) for pair in questions for name in pair)
        answers = self._ask("ini", requests)
        (page,) = struct.unpack_from("<I", answers)
        values = _runs(answers[4:])
        found = [[next(values) for _ in questions] for _, questions in cases]
        encoding = "utf-8" if page == 65001 else f"cp{page}"
        return encoding, [
            [None if value is None else value.decode("utf-16-le", "surrogatepass") for value in row] for row in found
        ]

    def registry(self, cases: Sequence[tuple[int, bytes]]) -> list[bytes | None]:
        """What ``RegGetValueW`` gives for values of a type, stored with these bytes; ``None`` where it refuses.

        It leaves variables in texts as they are.
        """
        requests = b"".join(struct.pack("<I", kind) + _run(data) for kind, data in cases)
        answers = self._ask("registry", struct.pack("<I", len(cases)) + requests)
        found: list[bytes | None] = []
        while answers:
            status, size = struct.unpack_from("<II", answers)
            found.append(None if status else answers[8 : 8 + size])
            answers = answers[8 + size :]
        assert len(found) == len(cases)
        return found


def _run(data: bytes) -> bytes:
    return struct.pack("<I", len(data)) + data


def _runs(data: bytes) -> Iterator[bytes | None]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<I", data, at)
        at += 4
        if size == _NONE:
            yield None
            continue
        yield data[at : at + size]
        at += size
