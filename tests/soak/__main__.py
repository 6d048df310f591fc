"""Many machines, one after the other and several at once, on a loaded host beside a busy PostgreSQL: how many of them fail?

``python -m tests.soak --machines 500 --at-once 4 --load 2 --minutes 60``. Each machine is made, used through its display, read, looked at
and discarded. Whatever goes wrong with one is a machine fault, and so is a picture that is not the usual one. Prints a table,
writes ``soak.json``, and ends with status 1 if a machine failed. Of one that is slow or fails, what each of its processes waits for
goes beside it (``soak-….txt``).
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path, PureWindowsPath

from rich.console import Console
from rich.table import Table

from contracts.schema import StartProgram
from runner.display.rfb import RfbClient
from runner.guests.windows import wait_for_window, windows
from runner.machines.base import Tag
from runner.machines.images import find_image
from runner.machines.wine import WineCheckpoint, WineProvider
from tests.faults.helpers import below
from tests.peers.sql_servers import SqlServer, postgres

TYPED = "Soak 4711"
_BACKGROUND = (37, 111, 149)
"""The desktop's colour: there where no window is."""


@dataclass
class Passed:
    """What became of one machine: seconds of each part, and its fault, if it had one."""

    number: int
    seconds: dict[str, float] = field(default_factory=dict)
    fault: str = ""


@contextmanager
def busy_server() -> Iterator[None]:
    """A PostgreSQL with sessions that write, sort and share memory among several processes."""
    over = threading.Event()

    def work(server: SqlServer, number: int) -> None:
        with server.connect() as session:
            while not over.is_set():
                with suppress(Exception):  # two sessions may lock each other out, which is load as well
                    session.execute(f"UPDATE soak SET text = md5(text) WHERE id % 7 = {number}")
                    session.execute("SELECT count(*), max(a.text) FROM soak a JOIN soak b USING (id)").fetchall()
                    session.commit()

    with postgres() as server:
        server.run("CREATE TABLE soak AS SELECT id, md5(id::text) AS text FROM generate_series(1, 20000) AS id")
        threads = [threading.Thread(target=work, args=(server, number), daemon=True) for number in range(2)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join(30)


@contextmanager
def load(processes: int) -> Iterator[None]:
    """Processes that want a core each."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


def waits(machine_folder: Path) -> str:
    """What each process of the machine in that folder is waiting for, as far as the kernel tells."""
    lines = []
    outermost = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _told(entry / "cmdline").find(str(machine_folder)) >= 0
    ]
    for pid in sorted({*outermost, *(each for one in outermost for each in below(one))}):
        for task in sorted(Path(f"/proc/{pid}/task").glob("*")):
            name = _told(Path(f"/proc/{pid}/cmdline")).replace("\0", " ")[-80:]
            state = _told(task / "stat").rpartition(")")[2].split()[:1]
            lines.append(f"{pid}/{task.name} {state} {_told(task / 'wchan')} {_told(task / 'syscall').strip()} {name}")
    return "\n".join(lines)


def _told(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace")
    return ""


class Soak:
    """Makes machines and keeps what became of them."""

    def __init__(self, checkpoint: WineCheckpoint, *, notes: Path, slow: float) -> None:
        self._checkpoint = checkpoint
        self._notes = notes
        self._slow = slow

    def one(self, number: int) -> Passed:
        """One machine's life."""
        passed = Passed(number)
        tag = Tag("soak", f"m{number}")
        watch = threading.Timer(self._slow, self._note, (tag, "slow"))
        watch.daemon = True
        watch.start()
        begun = time.monotonic()
        try:
            machine = self._checkpoint.clone(tag)
            try:
                passed.seconds |= machine.timings
                watch.cancel()
                machine.start([StartProgram(program="dswin")])
                machine.guest.start([r"C:\windows\notepad.exe"])
                left, top, right, bottom = wait_for_window(machine.guest, "Untitled - Notepad", timeout=60).rect
                with RfbClient.connect(machine.display) as screen:
                    screen.click((left + right) // 2, (top + bottom) // 2)
                    screen.type_text(TYPED)
                    _until(
                        lambda: TYPED in [c.text for w in windows(machine.guest) for c in w.controls],
                        "what was typed did not arrive",
                    )
                    picture = screen.screenshot(timeout=60)
                seen = {colour for _, colour in picture.getcolors(1 << 24) or ()}
                if _BACKGROUND not in seen or len(seen) < 8:
                    raise AssertionError(f"the screen shows {len(seen)} colours")
                machine.guest.read(PureWindowsPath(r"C:\DSWIN\DATA\PATIENT.DBF"), limit=1 << 20)
                machine.ensure_alive()
                titles = {window.title for window in windows(machine.guest)}
                if not {"DSWin - Patientenliste"} <= titles:
                    raise AssertionError(f"a window has gone; there are {sorted(titles)}")
            except Exception:
                self._note(tag, "failed")  # as long as there is something to look at
                raise
            finally:
                machine.discard()
        except Exception as error:
            passed.fault = f"{type(error).__name__}: {error}"[:500]
        finally:
            watch.cancel()
        passed.seconds["whole"] = time.monotonic() - begun
        return passed

    def _note(self, tag: Tag, why: str) -> None:
        for folder in self._checkpoint.prefix.parents[2].glob("machines/wine-*"):
            if f'"{tag.run}"' in _told(folder / "machine.json"):
                (self._notes / f"soak-{tag.run}-{why}.txt").write_text(waits(folder) + "\n")


def _until(holds: object, otherwise: str, seconds: float = 60.0) -> None:
    assert callable(holds)
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise AssertionError(otherwise)
        time.sleep(0.1)


def report(passed: list[Passed], wanted: int) -> Table:
    """The figures as a table."""
    faults = [one for one in passed if one.fault]
    table = Table("part", "median s", "95 % s", "longest s")
    for part in ("clone", "boot", "whole"):
        values = sorted(one.seconds[part] for one in passed if part in one.seconds)
        if values:
            high = values[min(len(values) - 1, int(len(values) * 0.95))]
            table.add_row(part, f"{statistics.median(values):.2f}", f"{high:.2f}", f"{values[-1]:.2f}")
    table.title = f"{len(passed)} of {wanted} machines, {len(faults)} machine faults"
    return table


def main() -> None:
    """Runs it; status 1 when a machine failed."""
    options = argparse.ArgumentParser(prog="python -m tests.soak", description="Machines under load: how many fail?")
    options.add_argument("--machines", type=int, default=500, help="how many are made")
    options.add_argument("--at-once", type=int, default=4, help="how many at a time")
    options.add_argument("--load", type=int, default=2, help="processes beside that want a core each")
    options.add_argument("--minutes", type=float, default=60.0, help="no machine is begun after so many minutes")
    options.add_argument("--slow", type=float, default=20.0, help="seconds after which a clone is noted as slow")
    options.add_argument("--no-server", action="store_true", help="without a database server beside")
    chosen = options.parse_args()
    begun = time.monotonic()
    passed: list[Passed] = []
    with ExitStack() as stack:
        checkpoint = WineProvider().prepare(find_image("dentadesk"), [], [], folder=Path.cwd())
        if not chosen.no_server:
            stack.enter_context(busy_server())
        stack.enter_context(load(chosen.load))
        soak = Soak(checkpoint, notes=Path.cwd(), slow=chosen.slow)

        def unless_late(number: int) -> Passed | None:
            return soak.one(number) if time.monotonic() - begun < chosen.minutes * 60 else None

        with ThreadPoolExecutor(chosen.at_once) as threads:
            for one in threads.map(unless_late, range(chosen.machines)):
                if one is not None:
                    passed.append(one)
                    if one.fault:
                        print(f"machine {one.number}: {one.fault}", file=sys.stderr, flush=True)  # noqa: T201
    Console().print(report(passed, chosen.machines))
    faults = Counter(one.fault for one in passed if one.fault)
    Path("soak.json").write_text(
        json.dumps({"options": vars(chosen), "faults": faults, "machines": [asdict(one) for one in passed]}, indent=1)
    )
    raise SystemExit(1 if faults or not passed else 0)


if __name__ == "__main__":
    main()
