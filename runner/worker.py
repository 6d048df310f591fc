"""A thread in which things are tried that may hang: each has a deadline, and what misses it is left behind."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable


class Hangs(Exception):
    """Something did not end in time; it goes on in its thread."""


class Worker:
    """A thread that does one thing after the other.

    One thread for all of them: the kernel can end a machine's processes with the very thread that started them. After something
    has hung, the worker is of no more use; make another one.
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[_Task | None] = queue.SimpleQueue()
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            try:
                task.act()
            except BaseException as error:
                task.error = error
            task.done.set()

    def ended(self, act: Callable[[], object], seconds: float) -> BaseException | None:
        """What an action raised; ``None`` if nothing, :class:`Hangs` if it did not end in time."""
        task = _Task(act)
        self._tasks.put(task)
        return task.error if task.done.wait(seconds) else Hangs(f"it did not end within {seconds:g} s")

    def leave(self) -> None:
        """Lets the thread end with what it is doing now; machines that it started are to be discarded before."""
        self._tasks.put(None)


class _Task:
    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.done = threading.Event()
        self.error: BaseException | None = None
