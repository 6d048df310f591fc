"""Checks of a machine provider: fresh, separate, and gone without a trace."""

from __future__ import annotations

import contextlib
import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import PureWindowsPath

from contracts.schema import CopyIn, RunProgram, StartProgram
from runner.conformance import host
from runner.conformance.checks import Collection, NotApplicable, expect, expect_raised
from runner.conformance.clock import MAX_OFFSET, offset, utc_offset
from runner.conformance.props import notepad, seen, system, until
from runner.conformance.scene import FOLDER, REGISTRY_KEY, Scene
from runner.display.errors import DisplayError
from runner.display.rfb import DisplayAuthError, RfbClient
from runner.guests.base import GuestLost, GuestNotFound, Unreadable
from runner.machines.base import MachineError, SetupError

MACHINE = Collection()
_check = MACHINE.check
_SHA256 = re.compile(r"[0-9a-f]{64}")
_ENDED = (GuestLost, Unreadable, MachineError)
_CMD = system("cmd.exe")


# --- preparing -------------------------------------------------------------------------------------------------------


@_check(
    "prepare-repeats",
    proves="Preparing the same image with the same set-up again gives the same checkpoint.",
    means="Runs of one campaign would start from different states, and their outcomes could not be compared.",
    remedy="Compute the checkpoint's digest from what goes into it, and keep the checkpoint under it.",
    seconds=1800,
)
def _prepare_repeats(scene: Scene) -> None:
    expect(scene.checkpoint.digest, "the checkpoint has no digest")
    again = scene.prepare()
    expect(again.digest == scene.checkpoint.digest, f"{scene.checkpoint.digest} at first, then {again.digest}")


@_check(
    "prepare-set-up",
    proves="What a contract's set-up writes is in its clones, and in no clone without it.",
    means="Contracts would begin from a state that is not theirs.",
    remedy="Do set-up steps in a layer of their own, kept under a digest of the steps.",
    slow=True,
    seconds=1800,
)
def _prepare_set_up(scene: Scene) -> None:
    file = FOLDER / "set-up.txt"
    prepared = scene.prepare([CopyIn(text="Größe", encoding="cp850", to=str(file))])
    expect(prepared.digest != scene.checkpoint.digest, "its digest is that of the image without set-up")
    machine = scene.clone("set-up", prepared)
    try:
        expect(machine.guest.read(file, limit=100) == "Größe".encode("cp850"), f"{file} does not hold what was written")
    finally:
        machine.discard()
    expect_raised(GuestNotFound, lambda: scene.guest.read(file, limit=100), "a clone without the set-up has the file")


@_check(
    "prepare-failing-set-up",
    proves="A set-up step that fails is a SetupError, and nothing is left of it.",
    means="A run would be judged although its initial state was never reached.",
    remedy="Raise SetupError when a step's program does not end with 0; discard the machine it was done on.",
    slow=True,
    seconds=1800,
)
def _prepare_failing_set_up(scene: Scene) -> None:
    before = {item.name for item in scene.provider.leftovers()}
    step = RunProgram(run=[_CMD, "/c", "exit 3"])
    expect_raised(SetupError, lambda: scene.prepare([step]), "a step that ends with 3")
    after = [item for item in scene.provider.leftovers() if item.name not in before]
    left = [item.name for item in after if item.runner_pid == os.getpid()]
    expect(not left, f"left behind: {', '.join(left)}")


# --- one machine -----------------------------------------------------------------------------------------------------


@_check(
    "machine-tag",
    proves="A machine bears the tag it was made with, and an id.",
    means="What a killed runner leaves could not be told from what others own, so nothing could be cleaned up.",
    remedy="Keep the tag that clone() is given.",
)
def _machine_tag(scene: Scene) -> None:
    machine = scene.machine
    expect(machine.id, "it has no id")
    expect((machine.tag.campaign, machine.tag.run) == (scene.campaign, "first"), f"its tag is {machine.tag}")


@_check(
    "machine-listed",
    proves="A machine in use is listed with its tag and as alive.",
    means="A machine that a killed runner leaves would stay for ever, or one in use would be removed.",
    remedy="Write the tag where leftovers() finds it before anything else is made; hold a lock while the runner lives.",
)
def _machine_listed(scene: Scene) -> None:
    machine = scene.machine
    listed = scene.leftovers("first")
    expect(listed, f"{machine.id} is not in the list")
    expect(all(item.alive for item in listed), f"{machine.id} is listed as left behind while it is in use")


@_check(
    "machine-reap-spares",
    proves="A machine in use cannot be reaped.",
    means="Cleaning up would take machines away from under running campaigns, of other people as well.",
    remedy="Raise MachineError in reap() while the lock of the machine's runner is held.",
)
def _machine_reap_spares(scene: Scene) -> None:
    machine = scene.clone("not-to-be-reaped")
    try:
        for item in scene.leftovers("not-to-be-reaped"):
            expect_raised(MachineError, lambda item=item: scene.provider.reap(item), "reaping it")  # type: ignore[misc]
        machine.ensure_alive()
        machine.guest.probe("version")
    finally:
        machine.discard()


@_check(
    "machine-alive",
    proves="A machine that runs is said to be alive.",
    means="Every run would end unscored.",
    remedy="Let ensure_alive() return when machine and screen are there.",
)
def _machine_alive(scene: Scene) -> None:
    scene.machine.ensure_alive()


@_check(
    "machine-programs",
    proves="Programs that a contract starts are there with their windows.",
    means="The agent would begin before its program is ready, and fail for no fault of its own.",
    remedy="Wait in start(), or in the checkpoint, until each program's window has its title.",
)
def _machine_programs(scene: Scene) -> None:
    if not scene.programs:
        raise NotApplicable("the image has no program with a window")
    scene.machine.start(scene.programs)
    title = scene.image.manifest.programs[scene.programs[0].program].window
    titles = {window.title for window in scene.guest.probe("windows").windows if window.visible}
    expect(title in titles, f"no window {title!r}; there are: {', '.join(sorted(filter(None, titles)))}")


@_check(
    "machine-unknown-program",
    proves="A program that the image does not have is a SetupError.",
    means="A contract's mistake would be counted as a broken machine, and run again and again.",
    remedy="Look programs up in the image's manifest, and name those there are.",
)
def _machine_unknown_program(scene: Scene) -> None:
    program = StartProgram(program="no_such_program")
    expect_raised(SetupError, lambda: scene.machine.start([program]), "starting a program that is not there")


# --- freshness -------------------------------------------------------------------------------------------------------


@_check(
    "fresh-base",
    proves="The proof of freshness names base and layers by their SHA-256.",
    means="A record could not say what its machine was made from.",
    remedy="Record the sealed base's hash when the machine is made.",
)
def _fresh_base(scene: Scene) -> None:
    fresh = scene.machine.freshness
    for value in (fresh.base, *fresh.layers):
        expect(_SHA256.fullmatch(value), f"{value!r} is no SHA-256 in hexadecimal")


@_check(
    "fresh-nonce",
    proves="Nonce and start mark are there, and long enough not to repeat.",
    means="The guest channel could lead to another machine, an older clone for instance, and nobody would notice.",
    remedy="Plant a random text of 128 bits in each clone, read it back through the guest, and record it.",
)
def _fresh_nonce(scene: Scene) -> None:
    fresh = scene.machine.freshness
    expect(len(fresh.nonce) >= 16, f"the nonce is {fresh.nonce!r}")
    expect(fresh.boot, "nothing tells this start from others")


@_check(
    "fresh-clock",
    proves="The recorded clock offset is what a measurement now gives, and small.",
    means="Dates that a program writes would be wrong, and rules such as `date: today` would fail good runs.",
    remedy="Set the clock after a restored memory, measure it through the probe, and refuse machines that are off.",
)
def _fresh_clock(scene: Scene) -> None:
    fresh = scene.machine.freshness
    now = offset(scene.guest)
    expect(abs(fresh.clock_offset) <= MAX_OFFSET, f"the machine was taken with its clock {fresh.clock_offset} s off")
    expect(abs(now - fresh.clock_offset) <= MAX_OFFSET, f"recorded {fresh.clock_offset} s, measured {now:.1f} s")


@_check(
    "fresh-zone",
    proves="The recorded time zone is the guest's own.",
    means="Local times in tables would be taken for other moments.",
    remedy="Take the zone from the probe's answer.",
)
def _fresh_zone(scene: Scene) -> None:
    recorded, measured = scene.machine.freshness.utc_offset, utc_offset(scene.guest)
    expect(recorded == measured, f"recorded {recorded} s from UTC, the guest says {measured} s")


# --- two clones ------------------------------------------------------------------------------------------------------


@_check(
    "clones-ids",
    proves="Two clones have ids, nonces and start marks of their own.",
    means="Records of two runs could not be told apart.",
    remedy="Draw id and nonce anew for each clone; take the start mark from the start itself.",
)
def _clones_ids(scene: Scene) -> None:
    one, two = scene.machine, scene.second.machine
    expect(one.id != two.id, f"both are called {one.id}")
    expect(one.freshness.nonce != two.freshness.nonce, "both have the same nonce")
    expect(one.freshness.boot != two.freshness.boot, "both have the same start mark")


@_check(
    "clones-displays",
    proves="Two clones have displays of their own; the password of one does not open the other.",
    means="An agent could operate another run's machine.",
    remedy="Give each clone a port and a random password.",
)
def _clones_displays(scene: Scene) -> None:
    one, two = scene.machine.display, scene.second.machine.display
    expect((one.host, one.port) != (two.host, two.port), f"both are at {one}")
    expect(one.password != two.password, "both have the same password")
    crossed = type(one)(two.host, two.port, one.password)
    expect_raised(DisplayAuthError, lambda: RfbClient.connect(crossed).close(), "the other one's password")


@_check(
    "clones-files",
    proves="A file written in one clone is not in the other.",
    means="Side effects of one run would be counted in another.",
    remedy="Give each clone a writable layer of its own.",
)
def _clones_files(scene: Scene) -> None:
    file = scene.folder("clones-files") / "here.txt"
    for writer, other in ((scene.machine, scene.second.machine), (scene.second.machine, scene.machine)):
        writer.guest.write(file.with_name(f"{writer.id}.txt"), b"here")
        there = file.with_name(f"{writer.id}.txt")
        expect_raised(GuestNotFound, lambda o=other, t=there: o.guest.read(t, limit=10), "the other clone has the file")  # type: ignore[misc]


@_check(
    "clones-registry",
    proves="A registry value written in one clone is not in the other.",
    means="Settings of one run would be found by another.",
    remedy="Give each clone hives of its own.",
)
def _clones_registry(scene: Scene) -> None:
    key = rf"{REGISTRY_KEY}\{scene.machine.id}"
    done = scene.guest.run([system("reg.exe"), "add", key, "/v", "Here", "/d", "yes", "/f"], timeout=60)
    expect(done.status == 0, f"reg.exe ended with {done.status}")
    roots = scene.second.machine.guest.probe("registry", key).roots
    expect(roots[0].exists is False, "the other clone has the key")


@_check(
    "clones-windows",
    proves="A window opened in one clone is not on the other's desktop.",
    means="An agent could operate a window of another run.",
    remedy="Give each clone a desktop of its own.",
)
def _clones_windows(scene: Scene) -> None:
    file = scene.folder("clones-windows") / "fenster-hier.txt"
    with notepad(scene.guest, file):
        titles = [window.title for window in scene.second.machine.guest.probe("windows").windows]
        expect(not any(file.stem in title for title in titles), "the other clone lists the window")


@_check(
    "clones-processes",
    proves="A program started in one clone is not among the other's processes.",
    means="A program could be ended, or waited for, in the wrong machine.",
    remedy="Give each clone processes of its own.",
)
def _clones_processes(scene: Scene) -> None:
    other = scene.second.machine.guest

    def editors() -> int:
        return sum(process.name.casefold() == "notepad.exe" for process in other.probe("processes").processes)

    before = editors()
    with notepad(scene.guest, scene.folder("clones-processes") / "prozess-hier.txt"):
        expect(editors() == before, "the other clone lists the process")


@_check(
    "clones-clocks",
    proves="The clocks of two clones agree.",
    means="The order of events in different runs could not be told, and one of the clocks is wrong.",
    remedy="Set the clock of every clone, not only the checkpoint's.",
)
def _clones_clocks(scene: Scene) -> None:
    apart = abs(offset(scene.guest) - offset(scene.second.machine.guest))
    expect(apart <= MAX_OFFSET, f"they are {apart:.1f} s apart")


@_check(
    "clones-at-once",
    proves="Two clones work at the same time, and each answers for itself.",
    means="Parallel runs would get each other's answers.",
    remedy="Share no connection, request number or scratch file between machines.",
)
def _clones_at_once(scene: Scene) -> None:
    machines = (scene.machine, scene.second.machine)

    def talk(number: int) -> list[bytes]:
        guest = machines[number].guest
        file = scene.folder("clones-at-once") / "same-name.txt"
        said = []
        for turn in range(5):
            guest.write(file, f"{number} {turn}".encode())
            said.append(guest.read(file, limit=100))
        return said

    with ThreadPoolExecutor(2) as pool:
        for number, said in enumerate(pool.map(talk, (0, 1))):
            expect(said == [f"{number} {turn}".encode() for turn in range(5)], f"clone {number} read {said}")


# --- a later clone ---------------------------------------------------------------------------------------------------


@_check(
    "later-files",
    proves="After a clone has written over program files, the next one has them as they were.",
    means="A run would begin with what an earlier one left, and be judged for it.",
    remedy="Never let a clone write to the base or to a layer that others use.",
    seconds=300,
)
def _later_files(scene: Scene) -> None:
    before, after = scene.first.birth.files, scene.later.birth.files
    differing = sorted(path for path in before.keys() | after.keys() if before.get(path) != after.get(path))
    expect(not differing, f"different files: {', '.join(differing[:5])}")
    for path in (FOLDER / "spoilt.txt", PureWindowsPath(r"C:\windows\check-new.dll")):
        expect_raised(GuestNotFound, lambda p=path: scene.later.machine.guest.read(p, limit=100), str(path))  # type: ignore[misc]


@_check(
    "later-registry",
    proves="After a clone has written to the registry, the next one has nothing of it.",
    means="Settings that an earlier run changed would still hold.",
    remedy="Keep the hives in the clone's own layer.",
    seconds=300,
)
def _later_registry(scene: Scene) -> None:
    roots = scene.later.machine.guest.probe("registry", REGISTRY_KEY).roots
    expect(roots[0].exists is False, f"{REGISTRY_KEY} is there")


@_check(
    "later-windows",
    proves="The next clone shows the windows that the first one showed at the beginning, and no other.",
    means="A dialog that an earlier run left open would meet the next agent.",
    remedy="Start every clone from the same state, never from one that was used.",
    seconds=300,
)
def _later_windows(scene: Scene) -> None:
    before, after = scene.first.birth.windows, scene.later.birth.windows
    expect(before == after, f"first {sorted(before)}, later {sorted(after)}")


@_check(
    "later-processes",
    proves="The next clone runs no program that the first one did not run at the beginning.",
    means="Programs of earlier runs would go on working in later ones.",
    remedy="Start every clone from the same state, never from one that was used.",
    seconds=300,
)
def _later_processes(scene: Scene) -> None:
    # Services come and go by themselves; only the editor that the first clone left open tells.
    before, after = (clone.birth.processes.count("notepad.exe") for clone in (scene.first, scene.later))
    expect(before == after, f"editors at the beginning: {before} in the first clone, {after} in the later one")


@_check(
    "later-base",
    proves="Whatever its clones did, base and layers are the same by hash, and the checkpoint is still valid.",
    means="The base would decay from run to run.",
    remedy="Seal the base read-only, record its hash, and check it before every clone.",
    seconds=1800,
)
def _later_base(scene: Scene) -> None:
    one, two = scene.machine.freshness, scene.later.machine.freshness
    expect((one.base, one.layers) == (two.base, two.layers), f"{one.base[:12]}… at first, then {two.base[:12]}…")
    again = scene.prepare()
    expect(again.digest == scene.checkpoint.digest, "preparing it again gives another checkpoint")


# --- a machine that breaks -------------------------------------------------------------------------------------------


@_check(
    "dead-noticed",
    proves="A machine that died is noticed.",
    means="A run on a dead machine would be judged as a failure of the agent.",
    remedy="Look in ensure_alive() at what runs the machine and its screen, not at what is remembered of it.",
    seconds=300,
)
def _dead_noticed(scene: Scene) -> None:
    dead = scene.dead

    def noticed() -> bool:
        try:
            dead.machine.ensure_alive()
        except MachineError:
            return True
        return False

    until(noticed, f"ensure_alive() still finds nothing wrong ({dead.how})", 60)


@_check(
    "dead-guest",
    proves="The guest of a machine that died says so in bounded time, and gives no answer.",
    means="An empty answer of a dead machine would be taken for an empty table.",
    remedy="Raise GuestLost when the channel is gone; keep to the time-out of every call.",
    seconds=300,
)
def _dead_guest(scene: Scene) -> None:
    _dead_noticed(scene)
    file = PureWindowsPath(r"C:\windows\win.ini")
    guest = scene.dead.machine.guest
    expect_raised(_ENDED, lambda: guest.probe("windows", timeout=15), "its windows")
    expect_raised(_ENDED, lambda: guest.read(file, limit=1 << 20, timeout=15), f"its {file.name}")


@_check(
    "dead-discard",
    proves="A machine that died can be discarded, and nothing is left of it.",
    means="Every crash would leave a machine's disk and memory behind.",
    remedy="Let no step of discard() depend on a machine that answers.",
    seconds=300,
)
def _dead_discard(scene: Scene) -> None:
    _dead_noticed(scene)
    scene.dead.machine.discard()
    left = scene.leftovers("dead")
    expect(not left, f"still listed: {', '.join(item.name for item in left)}")


# --- a machine that is discarded -------------------------------------------------------------------------------------


@_check(
    "discard-list",
    proves="A discarded machine is no longer listed; one in use still is.",
    means="Leftovers would be looked for that are none, or be forgotten.",
    remedy="Remove what leftovers() reads last.",
)
def _discard_list(scene: Scene) -> None:
    expect(scene.departed.listed, "it was not listed while it ran")
    left = scene.leftovers("departed")
    expect(not left, f"still listed: {', '.join(item.name for item in left)}")
    scene.machine.ensure_alive()
    expect(scene.leftovers("first"), "the machine in use is no longer listed")


@_check(
    "discard-folder",
    proves="The folder of a discarded machine is gone.",
    means="Every run would cost disk space for ever.",
    remedy="Remove the folder in discard(); raise MachineError when that fails.",
)
def _discard_folder(scene: Scene) -> None:
    expect(scene.departed.listed, "it was not listed while it ran, so its folder is not known")
    there = [str(item.folder) for item in scene.departed.listed if item.folder.exists()]
    expect(not there, f"still there: {', '.join(there)}")


@_check(
    "discard-processes",
    proves="No process of this host belongs to a discarded machine.",
    means="Every run would cost memory for ever.",
    remedy="End the machine's processes and wait for them in discard().",
)
def _discard_processes(scene: Scene) -> None:
    departed = scene.departed
    if not departed.processes:
        raise NotApplicable("no process of this host bore its id or folder while it ran")
    words = [departed.machine.id, *(str(item.folder) for item in departed.listed)]
    until(lambda: not host.processes_naming(words), "processes with its id or folder still run", 15)


@_check(
    "discard-display",
    proves="Nobody answers to a discarded machine's display address and password.",
    means="An agent that goes on would still operate a machine.",
    remedy="End the display's server with the machine.",
)
def _discard_display(scene: Scene) -> None:
    # The port may be another's by now; its password is not.
    display = scene.departed.display
    expect_raised(DisplayError, lambda: RfbClient.connect(display, timeout=5).close(), "connecting to it")


@_check(
    "discard-guest",
    proves="The guest of a discarded machine gives no answer.",
    means="A reading could come from a machine that is no longer the run's.",
    remedy="Close the guest's channel in discard(), and raise GuestLost afterwards.",
)
def _discard_guest(scene: Scene) -> None:
    machine = scene.departed.machine
    expect_raised(_ENDED, lambda: machine.guest.probe("version", timeout=15), "the probe")
    expect_raised(MachineError, machine.ensure_alive, "ensure_alive()")


@_check(
    "discard-twice",
    proves="Discarding a machine again is no mistake, and does nothing to machines made since.",
    means="Cleaning up after an error would raise another one and hide the first.",
    remedy="Let every step of discard() accept that it was done, and let go of handles and numbers with the first time.",
)
def _discard_twice(scene: Scene) -> None:
    machine = scene.clone("discarded-twice")
    machine.discard()
    # Numbers of handles that it gave back are others' by now: those of these files, which would belong to another machine.
    handles = [os.open(os.devnull, os.O_RDONLY) for _ in range(64)]
    try:
        machine.discard()
        closed = [handle for handle in handles if not _is_open(handle)]
        expect(not closed, f"it closed {len(closed)} files that were opened after it had been discarded")
    finally:
        for handle in handles:
            with contextlib.suppress(OSError):
                os.close(handle)


def _is_open(handle: int) -> bool:
    try:
        os.fstat(handle)
    except OSError:
        return False
    return True


@_check(
    "discard-spares",
    proves="Discarding one machine leaves the others running, with their windows.",
    means="The end of one run would break another.",
    remedy="Remove only what bears the machine's own id.",
)
def _discard_spares(scene: Scene) -> None:
    with notepad(scene.guest, scene.folder("discard-spares") / "bleibt-offen.txt") as window:
        scene.clone("short-lived").discard()
        scene.machine.ensure_alive()
        expect(seen(scene.guest, window), "a window of another machine is gone")
