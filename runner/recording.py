"""What a run's record keeps of the flight recorder."""

from __future__ import annotations

from pathlib import Path

from runner.display.events import typed_text
from runner.display.recorder import FlightRecorder
from runner.record import Frame, Recording, TypedText
from runner.store import Campaign


def recording_of(recorder: FlightRecorder, log: Path, campaign: Campaign) -> Recording:
    """What was put in, and the film; to be asked once the recorder has stopped.

    No verdict rests on the log of events: where it could not be written or kept, that is told, and what was held in memory counts.

    Args:
        recorder: The recorder.
        log: Its log.
        campaign: Where evidence is kept.

    Raises:
        OSError: A picture could not be kept.
    """
    recorded, fault, events = recorder.recorded(), recorder.log_error or "", None
    try:
        events = campaign.keep(log.read_bytes()) if log.is_file() else None
    except OSError as error:
        fault = fault or f"the input log cannot be kept: {error.strerror or error}"
    return Recording(
        events=events,
        keys=recorded.keys,
        pointer=recorded.pointer,
        typed=[TypedText(start=start, end=end, text=text) for start, end, text in typed_text(recorded.events)],
        frames=[Frame(t=frame.t, image=campaign.keep(frame.png), reason=frame.reason) for frame in recorder.frames()],
        not_kept=dict(recorded.not_kept),
        fault=fault,
    )
