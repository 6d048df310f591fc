"""What changed on an embedded machine outside of what the contract looks at: files and registry, since the agent began."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PureWindowsPath

import pytest
from pydantic import TypeAdapter

from contracts.schema import Observable, StartProgram
from runner.blind_spots.audit import audit_of_machine, begin
from runner.guests.base import Unreadable
from runner.machines import wine
from runner.machines.base import Tag
from runner.machines.images import Image
from runner.machines.wine import WineCheckpoint, WineMachine, WineProvider
from runner.record import BlindSpots

pytestmark = pytest.mark.machine
OBSERVE = TypeAdapter(dict[str, Observable]).validate_python(
    {"program": {"files": r"C:\DSWIN"}, "settings": {"registry": r"HKCU\Software\DSWin"}, "screen": {"windows": {}}}
)


@pytest.fixture
def machine(checkpoint: WineCheckpoint) -> Iterator[WineMachine]:
    made = checkpoint.clone(Tag("tests", "audit"))
    made.start([StartProgram(program="dswin")])
    yield made
    made.discard()


def reg(machine: WineMachine, *words: str) -> None:
    assert machine.guest.run([r"C:\windows\system32\reg.exe", *words], timeout=60).status == 0


def audited(machine: WineMachine) -> BlindSpots:
    found = audit_of_machine(machine, OBSERVE)
    assert found is not None
    return found


def keys(found: BlindSpots) -> list[str]:
    assert found.registry is not None
    assert found.registry.unreadable is None
    groups = [group for group in found.registry.groups if not group.volatile]
    return [f"{group.key}: {example}" for group in groups for example in group.examples]


def test_files_and_keys_that_nothing_observes_are_named_and_observed_ones_counted(machine: WineMachine) -> None:
    reg(machine, "add", r"HKCU\Software\Before", "/v", "x", "/d", "1")
    machine.guest.write(PureWindowsPath(r"C:\before.txt"), b"x")
    begin(machine)
    machine.guest.write(PureWindowsPath(r"C:\DSWIN\new.txt"), b"x")
    machine.guest.write(PureWindowsPath(r"C:\windows\win.ini"), b"other")
    machine.guest.write(PureWindowsPath(r"C:\users\praxis\Documents\Export.csv"), b"a;b")
    reg(machine, "add", r"HKCU\Software\DSWin", "/v", "Left", "/d", "7")
    reg(machine, "add", r"HKLM\Software\Microsoft\Windows\CurrentVersion\Run", "/v", "evil", "/d", "x")
    reg(machine, "delete", r"HKCU\Control Panel\Desktop", "/f")
    found = audited(machine)
    assert found.unreadable is None
    assert [(file.kind, file.path) for file in found.files] == [
        ("created", r"C:\users\praxis\Documents\Export.csv"), ("modified", r"C:\windows\win.ini"),
    ]  # fmt: skip
    assert (found.observed, found.drives, found.compared_with) == (1, ["C"], "the moment when the agent began")
    told = keys(found)
    assert [one for one in told if "Run" in one] == [
        r"HKLM\Software\Microsoft\Windows\CurrentVersion\Run: modified: evil"
    ]
    assert any(one.startswith(r"HKCU\Control Panel\Desktop") and "deleted" in one for one in told)
    assert not any("Before" in one for one in told)
    assert found.registry is not None
    assert found.registry.observed == 1


def test_of_a_machine_on_which_nothing_was_done_nothing_is_told(machine: WineMachine) -> None:
    begin(machine)
    found = audited(machine)
    assert (found.files, found.observed, keys(found)) == ([], 0, [])


def test_a_drive_that_leads_elsewhere_is_told_not_to_be_seen(machine: WineMachine) -> None:
    begin(machine)
    assert machine._sandbox is not None
    machine._sandbox.run(["/bin/ln", "-s", "/tmp", "/prefix/dosdevices/d:"], timeout=20)
    found = audited(machine)
    assert [file.path for file in found.files] == ["(drive letter) D:"]
    assert found.unseen == ["the drive D:, which leads out of the machine's own disk"]


def test_of_a_machine_that_is_a_copy_the_registry_is_told_and_the_files_are_said_not_to_be(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEGACYPROOF_CLONE", "copy")
    machine = WineProvider().prepare(image, [], [], folder=Path.cwd()).clone(Tag("tests", "audited-copy"))
    try:
        begin(machine)
        reg(machine, "add", r"HKCU\Software\Other", "/v", "x", "/d", "1")
        found = audited(machine)
        assert "copies" in str(found.unreadable)
        assert keys(found) == [r"HKCU\Software\Other: created: x"]
    finally:
        machine.discard()


def test_a_registry_that_was_not_written_out_is_unreadable_and_no_empty_list(
    machine: WineMachine, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin(machine)
    machine.settle_to_disk()  # the server has ended before anybody asked it
    found = audited(machine)
    assert found.registry is not None
    assert "not written out" in str(found.registry.unreadable)
    monkeypatch.setattr(wine, "_overlays", lambda: False)


def test_without_a_mark_nothing_is_said_to_be_unchanged(machine: WineMachine) -> None:
    assert "when the agent began" in str(audited(machine).unreadable)


def test_links_that_a_program_puts_in_the_registrys_place_are_not_followed(
    machine: WineMachine, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("host")
    begin(machine)
    assert machine._disk is not None
    upper = machine.folder / "upper"
    with machine.disk_since_mark() as disk:
        assert disk.registry is not None
        machine.settle_to_disk()
        (upper / "user.reg").unlink(missing_ok=True)
        (upper / "user.reg").symlink_to(tmp_path / "secret")
        with pytest.raises(Unreadable):
            disk.registry()
