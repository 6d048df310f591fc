"""Runs as the dental program would give them, and a store of their evidence, for the tests of reports."""

from __future__ import annotations

import functools
import hashlib
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from PIL import Image, ImageDraw

from runner.record import (
    ContractRef,
    FieldChange,
    Frame,
    IgnoredEntry,
    Intended,
    LedgerEntry,
    Misfit,
    Missing,
    NoteEntry,
    Reading,
    Recording,
    ReturnProblem,
    RunRecord,
    SnapshotRef,
    TimelineEntry,
    TypedText,
    VerdictPart,
)

BEGAN = datetime(2026, 11, 29, 20, 15, tzinfo=UTC)

PATIENT = {
    "NAME": "Muster",
    "VORNAME": "Erika",
    "GEBDAT": "1964-08-12",
    "VERSNR": "1234567890",
    "ANGELEGT": "2026-11-29",
}
EMPTY = ("STRASSE", "PLZ", "ORT", "TELEFON", "BEMERKUNG")

PROMPT = (
    "You operate DSWin, the program of a dental practice.\n\n"
    "1. Press F2 to open the form for a new patient.\n"
    "2. Enter name, first name, birth date and insurance number. Tab leads to the next field.\n"
    "3. Press F10 to save, then read the patient number in the title of the window.\n"
)
CONTRACT = (
    'schema: 1\nid: dswin.add-new-patient\ntitle: Add New Patient\nparameters:\n  insurance_number: "1234567890"\n'
)


class Blobs:
    """Evidence in memory."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}

    def add(self, data: bytes | str) -> str:
        data = data.encode() if isinstance(data, str) else data
        name = hashlib.sha256(data).hexdigest()
        self.content[name] = data
        return name

    def __call__(self, sha256: str) -> bytes:
        return self.content[sha256]


@functools.cache
def screen(step: int, versnr: str = "1234567890") -> bytes:
    """A picture of the program, as PNG."""
    image = Image.new("RGB", (800, 600), "#3a6ea5")
    draw = ImageDraw.Draw(image)
    draw.rectangle((60, 40, 740, 540), fill="#d4d0c8", outline="#404040")
    draw.rectangle((62, 42, 738, 64), fill="#0a246a")
    draw.text((70, 47), "DSWin - New patient" if step else "DSWin - Patients", fill="white")
    fields = [("Name", "Muster"), ("First name", "Erika"), ("Birth date", "12.08.1964"), ("Insurance no.", versnr)]
    for number, (label, value) in enumerate(fields):
        top = 100 + 44 * number
        draw.text((100, top + 6), label, fill="black")
        draw.rectangle((230, top, 560, top + 24), fill="white", outline="#808080")
        if number < step:
            draw.text((236, top + 6), value, fill="black")
    for number, label in enumerate(("Save (F10)", "Cancel (Esc)")):
        draw.rectangle((230 + 140 * number, 480, 350 + 140 * number, 510), fill="#ece9d8", outline="#404040")
        draw.text((244 + 140 * number, 488), label, fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


def input_log(versnr: str = "1234567890") -> str:
    """A log of the flight recorder."""
    lines: list[dict[str, Any]] = [
        {"record": "start", "version": 1, "began": BEGAN.isoformat(), "upstream": "127.0.0.1:5901"}
    ]
    lines.append({"t": 0.4, "kind": "connected", "client": 1})
    t = 1.0
    for x in range(40):
        t += 0.02
        lines.append({"t": round(t, 4), "kind": "pointer", "client": 1, "x": 300 + x, "y": 200, "buttons": 0})
    lines.append({"t": 2.0, "kind": "pointer", "client": 1, "x": 340, "y": 200, "buttons": 1})
    lines.append({"t": 2.1, "kind": "pointer", "client": 1, "x": 340, "y": 200, "buttons": 0})
    t = 3.0
    for character in f"Muster\tErika\t12081964\t{versnr}":
        name = "Tab" if character == "\t" else character
        for down in (True, False):
            t += 0.05
            lines.append(
                {"t": round(t, 4), "kind": "key", "client": 1, "down": down, "keysym": ord(character), "name": name}
            )
    lines.append({"t": round(t + 1, 4), "kind": "cut", "client": 0})
    lines.append({"record": "end", "t": round(t + 2, 4), "dropped": 0})
    return "".join(json.dumps(line) + "\n" for line in lines)


def inserted(
    status: str, patnr: int, *, versnr: str = "1234567890", part: bool = False, blank: bool = False
) -> LedgerEntry:
    values = {"PATNR": str(patnr), **PATIENT, "VERSNR": versnr}
    if blank:
        values |= {"GEBDAT": "(blank)", "VERSNR": "(blank)"}
    fields = [FieldChange(field=field, before=None, after=value) for field, value in values.items()]
    fields += [FieldChange(field=field, before=None, after="(blank)", changed=False) for field in EMPTY]
    return LedgerEntry.model_validate(
        {
            "observable": "patients",
            "verb": "inserted",
            "subject": f"PATNR {patnr}",
            "how": f"record {patnr - 10_000}",
            "status": status,
            "effect": "new_patient: exactly one new row in patients" if status == "expected" else None,
            "part_of_task": part,
            "fields": fields,
        }
    )


def counted(status: str, patnr: int) -> LedgerEntry:
    return LedgerEntry.model_validate(
        {
            "observable": "counters",
            "verb": "updated",
            "subject": "NAME PATIENT",
            "status": status,
            "effect": "the counter follows the patient number" if status == "expected" else None,
            "fields": [
                {"field": "LAST", "before": str(patnr - 1), "after": str(patnr)},
                {"field": "NAME", "before": "PATIENT", "after": "PATIENT", "changed": False},
            ],
        }
    )


LOG = LedgerEntry(
    observable="program",
    verb="modified",
    subject="DSWIN.LOG",
    how="1,204 → 1,311 bytes",
    status="allowed",
    effect="modified: program, path DSWIN.LOG",
    because="the program's own log",
)

DELETED = LedgerEntry(
    observable="patients",
    verb="deleted",
    subject="PATNR 10007",
    how="marked as deleted",
    status="unexplained",
    fields=[
        FieldChange(field="NAME", before="Becker", after=None),
        FieldChange(field="VORNAME", before="Jürgen", after=None),
        FieldChange(field="VERSNR", before="9912345678", after=None),
    ],
)

NEW_PATIENT = Missing(
    effect="new_patient: exactly one new row in patients",
    observable="patients",
    verb="inserted",
    near_miss="PATNR 10482",
    misfits=[Misfit(field="VERSNR", expected="1234567890", found="4212505")],
    hint="The value in VERSNR is that of another field of the form.",
)


def verdicts(patnr: int) -> dict[str, VerdictPart]:
    """A verdict of each sort, by name."""
    returned = [
        ReturnProblem(
            path="patient_number", expected=f'"{patnr}"', found='"10428"', message="is not the new row's PATNR"
        )
    ]
    common: dict[str, Any] = {
        "ignored": [
            IgnoredEntry(observable="program", rule="*.TMP", because="scratch files", count=3, examples=["~DS1.TMP"])
        ],
        "notes": [NoteEntry(observable="patients", kind="header date", text="the date of the last update was written")],
        "identities": {"patients": "by key PATNR", "counters": "by key NAME"},
    }
    sound = [inserted("expected", patnr), counted("expected", patnr), LOG]
    yes = {"goal_reached": True, "state_valid": True, "returns_valid": True}
    left = {"goal_reached": False, "state_valid": False}
    clean = {"goal_reached": False, "state_valid": True}
    changed = ["row added"]
    rows: dict[str, dict[str, Any]] = {
        "VS": {
            "outcome": "valid_success",
            "reason": "The new patient is stored exactly as asked, and nothing else has changed.",
            "ledger": sound,
            **yes,
        },
        "VS warned": {
            "outcome": "valid_success",
            "reason": "The new patient is stored exactly as asked, and nothing else has changed.",
            "ledger": sound,
            "warnings": ["patients: the header names code page 437, the contract declares cp850."],
            **yes,
        },
        "IS wrong_effect": {
            "outcome": "invalid_success",
            "kind": "wrong_effect",
            "reason": "The agent reported success, but patients.VERSNR holds 4212505 instead of 1234567890.",
            "ledger": [inserted("unexplained", patnr, versnr="4212505"), counted("expected", patnr), LOG],
            "missing": [NEW_PATIENT.model_copy(update={"near_miss": f"PATNR {patnr}"})],
            "side_effects": changed,
            **left,
        },
        "IS wrong_return": {
            "outcome": "invalid_success",
            "kind": "wrong_return",
            "reason": "The patient is stored as asked, but the patient number the agent returned is not the new patient's.",
            "ledger": sound,
            "returns": returned,
            "side_effects": ["return"],
            "goal_reached": False,
            "state_valid": True,
            "returns_valid": False,
        },
        "IS collateral": {
            "outcome": "invalid_success",
            "kind": "collateral",
            "reason": "The patient is stored as asked, but the patient Becker, Jürgen (10007) was deleted.",
            "ledger": [*sound, DELETED],
            "side_effects": ["row deleted"],
            "goal_reached": True,
            "state_valid": False,
        },
        "IS phantom": {
            "outcome": "invalid_success",
            "kind": "phantom",
            "reason": "The agent reported success, but no patient was added.",
            "ledger": [LOG],
            "missing": [NEW_PATIENT.model_copy(update={"near_miss": None, "misfits": [], "hint": ""})],
            **left,
        },
        "VF safe_stop": {
            "outcome": "valid_failure",
            "kind": "safe_stop",
            "reason": "The agent stopped because of an unexpected window and changed nothing.",
            "ledger": [LOG],
            **clean,
        },
        "VF gave_up": {
            "outcome": "valid_failure",
            "kind": "gave_up",
            "reason": "The agent gave up and left everything as it was.",
            "ledger": [LOG],
            **clean,
        },
        "IF partial": {
            "outcome": "invalid_failure",
            "kind": "partial",
            "reason": "The agent failed and left a patient record without birth date and insurance number behind.",
            "ledger": [inserted("unexplained", patnr, part=True, blank=True), LOG],
            "missing": [NEW_PATIENT.model_copy(update={"half_finished": True, "near_miss": f"PATNR {patnr}", "misfits": [
                Misfit(field="GEBDAT", expected="1964-08-12", found="(blank)"),
                Misfit(field="VERSNR", expected="1234567890", found="(blank)"),
            ]})],
            "side_effects": ["row added", "partial"],
            **left,
        },
        "IF forbidden": {
            "outcome": "invalid_failure",
            "kind": "collateral",
            "reason": "The agent failed and changed the program's settings, which the contract forbids.",
            "ledger": [LedgerEntry(observable="program", verb="modified", subject="DSWIN.INI", status="forbidden",
                                   effect="no_settings: the settings stay as they are")],
            "side_effects": ["file"],
            **left,
        },
        "unscored": {
            "outcome": "unscored",
            "cause": "unreadable",
            "reason": "The run could not be judged: PATIENT.DBF is shorter than its header says.",
        },
    }  # fmt: skip
    return {name: VerdictPart.model_validate({**common, **row}) for name, row in rows.items()}


STATUS = {"VS": "success", "IS": "success", "VF": "failed", "IF": "failed"}


def sample(
    blobs: Blobs,
    number: int = 1,
    verdict: str = "VS",
    *,
    agent: str = "scripted golden",
    prompt: str = "expert",
    task: str = "add-new-patient",
    pictures: bool = False,
    events: bool = False,
    **changes: Any,
) -> RunRecord:
    """One run with everything; ``changes`` replace the record's own fields."""
    patnr = 10_481 + number
    versnr = "4212505" if "wrong_effect" in verdict else "1234567890"
    part = verdicts(patnr)[verdict]
    status = STATUS.get(part.outcome and verdict[:2], "success")
    started = BEGAN + timedelta(seconds=61 * number)
    table = blobs.add("PATIENT.DBF before")
    after_table = hashlib.sha256(f"PATIENT.DBF after {number}".encode()).hexdigest()
    reading = Reading(kind="dbf", blobs={"dbf": table, "memo": None})
    unreadable = part.cause == "unreadable"
    frames = []
    timeline = [TimelineEntry(t=0.2, text="I see the list of patients and press F2 to open the form.")]
    if pictures:
        frames = [Frame(t=1.5 * step, image=blobs.add(screen(step, versnr)),
                        reason=("first", "changed", "changed", "changed", "cut", "last")[step]) for step in range(6)]  # fmt: skip
        timeline.append(
            TimelineEntry(
                t=6.1, text="The form is filled in. I save with F10.", screenshot=blobs.add(screen(4, versnr))
            )
        )
    record: dict[str, Any] = {
        "run": f"{task}-{agent.replace(' ', '-')}-{prompt}-{number:04}",
        "campaign": "2026-11-29-acceptance",
        "contract": ContractRef(
            id=f"dswin.{task}",
            title=task.replace("-", " ").title(),
            sha256=hashlib.sha256(task.encode()).hexdigest(),
            source=blobs.add(CONTRACT),
            parameters={"last_name": "Muster", "first_name": "Erika", "birth_date": "1964-08-12", "insurance_number": "1234567890"},
            state_changing=True,
            application="DSWin",
            domain="dental/healthcare",
            instruction="Register a new patient with the given name, birth date and insurance number.",
            goal="Exactly one new patient row with the given values; nothing else has changed.",
        ),
        "agent": {
            "spec": f"scripted:recordings/dswin/{task}/golden.yaml",
            "name": agent,
            "prompt": prompt,
            "prompt_text": blobs.add(PROMPT),
            "status": "ui_not_as_expected" if "safe_stop" in verdict else status,
            "message": f"The patient was saved under number {patnr}." if status == "success" else "A window I do not know is open.",
            "returned": {"patient_number": str(patnr)} if status == "success" else None,
            "usage": {"steps": 14},
            "timeline": timeline,
        },
        "image": "dentadesk",
        "provider": "wine",
        "freshness": {"base": "sha256 matches the manifest", "nonce": f"{number:08x} read back", "clock offset": "0.02 s"},
        "started": started,
        "ended": started + timedelta(seconds=14),
        "timings": {"clone": 0.31, "boot": 0.9, "start": 1.4, "before": 0.12, "agent": 8.0 + number % 17, "settle": 1.0,
                    "after": 0.14, "verdict": 0.02, "discard": 0.2},
        "before": SnapshotRef(taken=started, readings={"patients": reading, "counters": reading}),
        "after": SnapshotRef(
            taken=started + timedelta(seconds=12),
            readings={
                "patients": Reading(kind="dbf", unreadable="shorter than its header says")
                if unreadable
                else Reading(kind="dbf", blobs={"dbf": after_table, "memo": None}),
                "counters": reading,
            },
        ),
        "recording": Recording(
            events=blobs.add(input_log(versnr)) if events else None,
            keys=62,
            pointer=42,
            typed=[TypedText(start=3.05, end=6.4, text=f"Muster⇥Erika⇥12081964⇥{versnr}"), TypedText(start=8.1, end=8.1, text="[F10]")],
            frames=frames,
        ),
        "verdict": part,
    }  # fmt: skip
    return RunRecord.model_validate({**record, **changes})


def campaign(blobs: Blobs) -> list[RunRecord]:
    """A small campaign with every outcome, several agents and tasks, a superseded attempt and scripts' intentions."""
    plan = [
        ("VS", "scripted golden", "expert", "add-new-patient", ("valid_success", None)),
        ("IS wrong_effect", "scripted wrong field", "expert", "add-new-patient", ("invalid_success", "wrong_effect")),
        ("IF partial", "scripted half way", "expert", "add-new-patient", ("invalid_failure", "partial")),
        ("VF safe_stop", "scripted stops", "expert", "add-new-patient", ("valid_failure", None)),
        ("VS", "legacy-use", "expert", "add-new-patient", None),
        ("VS warned", "legacy-use", "video", "add-new-patient", None),
        ("IS collateral", "legacy-use", "video", "change-address", None),
        ("IS wrong_return", "legacy-use", "instruction", "add-new-patient", ("valid_success", None)),
        ("VF gave_up", "legacy-use", "instruction", "change-address", None),
        ("IS phantom", "legacy-use", "instruction", "print-recall-list", None),
        ("IF forbidden", "legacy-use", "video", "print-recall-list", None),
        ("VS", "legacy-use", "expert", "change-address", None),
        ("VS", "legacy-use", "expert", "print-recall-list", None),
        ("unscored", "legacy-use", "video", "add-new-patient", None),
    ]
    records = []
    for number, (verdict, agent, prompt, task, intended) in enumerate(plan, 1):
        record = sample(blobs, number, verdict, agent=agent, prompt=prompt, task=task, pictures=True, events=True)
        if intended:
            meant = Intended.model_validate({"outcome": intended[0], "kind": intended[1]})
            record = record.model_copy(update={"intended": meant})
        records.append(record)
    fault = VerdictPart(
        outcome="unscored", cause="machine", reason="The machine's display was lost; the run was repeated."
    )
    records.append(
        sample(blobs, 40, "unscored", agent="legacy-use", prompt="video").model_copy(
            update={
                "verdict": fault,
                "superseded": True,
                "faults": ["The machine could not be removed and is in quarantine."],
            }
        )
    )
    return records


def many(blobs: Blobs, count: int) -> Iterator[RunRecord]:
    """A large campaign without pictures."""
    kinds = ["VS"] * 12 + ["VF safe_stop", "VF gave_up", "IS wrong_effect", "IF partial", "unscored", "IS collateral"]
    for number in range(count):
        prompt = ("expert", "video", "instruction")[number % 3]
        yield sample(
            blobs,
            number,
            kinds[number * 7 % len(kinds)],
            agent=("legacy-use", "computer-use", "scripted golden")[number // 3 % 3],
            prompt=prompt,
            task=("add-new-patient", "change-address", "print-recall-list", "store-x-ray")[number // 9 % 4],
        )


def test_the_samples_are_records() -> None:
    for record in campaign(Blobs()):
        assert RunRecord.model_validate_json(record.model_dump_json()) == record
