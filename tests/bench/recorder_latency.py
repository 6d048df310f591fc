"""How much later an input event reaches the machine because of the flight recorder.

Both ends are in this process, so the figures include what two more threads of Python cost each other; a real machine's
display is a process of its own. Run as ``python -m tests.bench.recorder_latency``.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from PIL import Image

from runner.display.recorder import FlightRecorder
from runner.display.rfb import DisplayAddress, RfbClient
from tests.peers.rfb_server import FakeRfbServer

SIZE = (1024, 768)
EVENTS = 400


def measure(events: int = EVENTS) -> dict[str, dict[str, float]]:
    """Latencies in milliseconds of pointer and key events, sent one by one, some milliseconds apart.

    Returns:
        For a screen that stands still (``quiet``) and one that changes completely all the time (``busy``, while pictures are
        taken as fast as the recorder does): ``direct_median``, ``direct_p95``, ``recorder_median``, ``recorder_p95``, and the
        differences ``added_median``, ``added_p95``.
    """
    return {"quiet": _measure(events, busy=False), "busy": _measure(events, busy=True)}


def _measure(events: int, *, busy: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, FakeRfbServer(size=SIZE) as server:
        upstream = DisplayAddress("127.0.0.1", server.port)
        recorder = FlightRecorder(upstream, log_path=Path(folder) / "input.jsonl", password="bench")
        over = threading.Event()
        painter = threading.Thread(target=_paint, args=[server, over])
        with recorder, RfbClient.connect(upstream) as direct, RfbClient.connect(recorder.start()) as recorded:
            if busy:
                painter.start()
            latencies: dict[str, list[float]] = {"direct": [], "recorder": []}
            for number in range(events):  # turn by turn, so that both see the same noise
                for name, client in (("direct", direct), ("recorder", recorded)):
                    latencies[name].append(_latency(server, client, number))
                time.sleep(0.003)
            over.set()
            if busy:
                painter.join()
    result: dict[str, float] = {}
    for name, values in latencies.items():
        result[f"{name}_median"] = statistics.median(values)
        result[f"{name}_p95"] = statistics.quantiles(values, n=20)[-1]
    for figure in ("median", "p95"):
        result[f"added_{figure}"] = result[f"recorder_{figure}"] - result[f"direct_{figure}"]
    return {name: round(value, 3) for name, value in result.items()}


def _latency(server: FakeRfbServer, client: RfbClient, number: int) -> float:
    send: Callable[[], None]
    wanted: tuple[object, ...]
    if number % 2:
        send, wanted = lambda: client.move(number, 7), ("pointer", 0, number, 7)
    else:
        send, wanted = lambda: client.key(0x1000000 + number, False), ("key", False, 0x1000000 + number)
    before = len(server.received)
    sent = time.perf_counter()
    send()
    deadline = sent + 10
    while time.perf_counter() < deadline:
        for message in server.received[before:]:
            if message.input == wanted:
                return (message.t - sent) * 1000
        time.sleep(0.0005)
    raise TimeoutError("an event was lost")


def _paint(server: FakeRfbServer, over: threading.Event) -> None:
    width, height = SIZE
    pictures = [Image.frombytes("L", (width // 4, height // 4), os.urandom(width * height // 16)) for _ in range(2)]
    frames = [picture.resize(SIZE).convert("RGB") for picture in pictures]
    number = 0
    while not over.wait(0.1):
        number += 1
        server.draw(frames[number % 2])


if __name__ == "__main__":
    json.dump(measure(), sys.stdout, indent=2)
