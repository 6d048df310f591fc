"""The command agent: whatever a program does is a status, and nothing of it is left: no process, no file, no secret."""

from __future__ import annotations

import os
import stat
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, PngImagePlugin

from runner.agents import processes
from runner.agents.base import AgentInfrastructureError, AgentReport, AgentSpecError, AgentTask, PlannedAgent, plan
from runner.agents.command import CommandAgent, doctor, plan_command
from runner.agents.supervision import MAX_DEPTH, checked
from runner.display.handshake import DisplayAddress
from runner.removal import empty
from runner.spellings import BLOT, blot_value
from tests.peers.rfb_server import FakeRfbServer

LONG = 60.0
"""Seconds that no program of these tests should ever need; only a broken one does."""


@pytest.fixture(scope="module")
def display() -> Iterator[DisplayAddress]:
    with FakeRfbServer(password=b"vncpass1", size=(320, 200)) as server:
        yield DisplayAddress("127.0.0.1", server.port, "vncpass1")


class Stage:
    """A folder with programs, and one task."""

    def __init__(self, folder: Path, display: DisplayAddress) -> None:
        self.folder = folder
        self.work = folder / "agent"
        self.work.mkdir()
        self.cancelled = threading.Event()
        self._display = display

    def task(self, seconds: float = LONG, **about: Any) -> AgentTask:
        made = AgentTask(
            contract="a.b", instruction="do it", prompt="do it step by step", parameters={}, response_schema=None,
            display=self._display, timeout=seconds, deadline=time.monotonic() + seconds, folder=self.work,
            windows=tuple, cancelled=self.cancelled,
        )  # fmt: skip
        return replace(made, **about)

    def agent(self, source: str, **about: Any) -> CommandAgent:
        script = self.folder / "program.py"
        script.write_text(textwrap.dedent(source))
        planned = plan_command(f"{sys.executable} -I {script}")[0].agent
        assert isinstance(planned, CommandAgent)
        return replace(planned, **about)

    def run(
        self, source: str, seconds: float = LONG, *, about: dict[str, Any] | None = None, **task: Any
    ) -> AgentReport:
        report = self.agent(source, **(about or {})).run(self.task(seconds, **task))
        assert list(self.work.iterdir()) == [], "its files are removed"
        return report


@pytest.fixture
def stage(tmp_path: Path, display: DisplayAddress) -> Stage:
    return Stage(tmp_path, display)


def alive(word: str) -> list[int]:
    """Processes whose command line holds a word."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
                state = Path(f"/proc/{name}/stat").read_bytes().rpartition(b")")[2].split()[0]
            except OSError:
                continue
            if word.encode() in line and state != b"Z":
                found.append(int(name))
    return found


def wait_for(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.02)


# --- the task ---------------------------------------------------------------------------------------------------------


ECHO = """
    import json, os, sys
    task = json.load(sys.stdin)
    same = task == json.load(open(os.environ["LEGACYPROOF_TASK"]))
    mode = os.stat(os.environ["LEGACYPROOF_TASK"]).st_mode
    print(json.dumps({"status": "success", "returned": {
        "task": task, "same": same, "mode": mode, "cwd": os.getcwd(), "environment": dict(os.environ), "files": os.listdir()}}))
"""


def test_it_gets_its_task(stage: Stage, display: DisplayAddress) -> None:
    report = stage.run(
        ECHO, parameters={"name": "Öztürk", "n": 3, "price": Decimal("12.50"), "yes": True, "list": ["a", "b"]},
        response_schema={"type": "object"}, response_example={"n": "1"},
    )  # fmt: skip
    assert report.status == "success", report.message
    told = report.returned["task"]
    assert told["legacyproof_task"] == 1
    assert (told["contract"], told["instruction"], told["prompt"]) == ("a.b", "do it", "do it step by step")
    assert told["parameters"] == {"name": "Öztürk", "n": 3, "price": "12.50", "yes": True, "list": ["a", "b"]}
    assert (told["response_schema"], told["response_example"]) == ({"type": "object"}, {"n": "1"})
    assert told["display"] == {
        "protocol": "rfb", "host": "127.0.0.1", "port": display.port, "password": display.password,
        "width": 320, "height": 200,
    }  # fmt: skip
    assert display.password in report.hidden
    assert 0 < told["timeout"] <= LONG
    assert told["deadline"].endswith("+00:00")


def test_it_works_in_a_private_folder_with_a_small_environment(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_KEY", "sk-not-for-you")
    saw = stage.run(ECHO).returned
    assert saw["same"]
    assert stat.S_IMODE(saw["mode"]) == 0o600
    assert saw["cwd"] == str(stage.work)
    assert saw["files"] == ["task.json"]
    assert saw["environment"].keys() <= {
        "PATH", "HOME", "LANG", "LC_CTYPE", "LEGACYPROOF_TASK", "LEGACYPROOF_REPORT", "LEGACYPROOF_MARK",
    }  # fmt: skip
    assert stat.S_IMODE(stage.work.stat().st_mode) == 0o700


def test_a_file_describes_it(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_PROVIDER_KEY", "sk-for-you")
    monkeypatch.setenv("ANOTHER", "not named")
    (stage.folder / "it.py").write_text(textwrap.dedent(ECHO))
    described = stage.folder / "mine.yaml"
    described.write_text(
        f"schema: 1\nname: my agent\nprogram: ['{sys.executable}', it.py]\nenvironment: [SOME_PROVIDER_KEY]\n"
        "set: {MODE: fast}\ntime_limit: 20s\nprompt_style: computer-use\n"
    )
    planned = plan(f"command:{described}")
    assert [item.spec for item in planned] == [f"command:{described}"]
    agent = planned[0].agent
    assert isinstance(agent, CommandAgent)
    assert (agent.name, agent.time_limit, agent.prompt_style) == ("my agent", 20.0, "computer-use")
    report = agent.run(stage.task())
    environment = report.returned["environment"]
    assert environment["MODE"] == "fast"
    assert environment["SOME_PROVIDER_KEY"] == "sk-for-you"
    assert "sk-for-you" in report.hidden, "it had it, and it is not kept"
    assert "ANOTHER" not in environment


def test_files_that_it_is_given_are_found_from_where_it_works(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(stage.folder)
    Path("word.txt").write_text("found")
    Path("it.py").write_text(
        "import sys, json; print(json.dumps({'status': 'failed', 'message': open(sys.argv[1]).read()}))"
    )
    report = plan_command(f"{sys.executable} it.py word.txt")[0].agent.run(stage.task())
    assert (report.status, report.message) == ("failed", "found")


def test_a_program_that_is_a_link_is_run_by_the_links_name(stage: Stage) -> None:
    """A virtual environment's interpreter is a link; by its own path it finds its packages."""
    (stage.folder / "tool").symlink_to("/bin/sh")
    agent = plan_command(f"{stage.folder}/tool -c 'echo $0'")[0].agent
    assert isinstance(agent, CommandAgent)
    assert agent.program[0] == str(stage.folder / "tool")


# --- the report -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["success", "failed", "ui_not_as_expected", "timeout", "error"])
def test_every_status_comes_through(stage: Stage, status: str) -> None:
    report = stage.run(f"""
        import json
        print("some noise")
        print(json.dumps({{"status": "{status}", "returned": {{"n": 1}}, "message": "so", "usage": {{"turns": 3}}}}))
    """)
    assert (report.status, report.returned, report.message, report.usage) == (status, {"n": 1}, "so", {"turns": 3})


def test_a_report_over_many_lines(stage: Stage) -> None:
    report = stage.run('import json; print(json.dumps({"status": "failed", "message": "x"}, indent=2))')
    assert (report.status, report.message) == ("failed", "x")


def test_a_report_in_a_file_goes_before_what_is_printed(stage: Stage) -> None:
    report = stage.run("""
        import os
        open(os.environ["LEGACYPROOF_REPORT"], "w").write('{"status": "failed", "message": "in the file"}')
        print('{"status": "success"}')
    """)
    assert (report.status, report.message) == ("failed", "in the file")


def test_what_it_needs_is_out(stage: Stage) -> None:
    with pytest.raises(AgentInfrastructureError, match="quota used up"):
        stage.run("""print('{"status": "infrastructure", "message": "quota used up"}')""")
    with pytest.raises(AgentInfrastructureError, match="no route to the provider"):
        stage.run("import sys; print('no route to the provider', file=sys.stderr); sys.exit(75)")


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("raise ValueError('my mistake')", "status 1, and it gave no report"),
        ("raise ValueError('my mistake')", "ValueError: my mistake"),
        ("pass", "status 0, and it gave no report"),
        ("print('done!')", "it is no JSON"),
        ("print('[1]')", "no JSON object"),
        ("print('{}')", "`status`"),
        ("""print('{"status": "great"}')""", "`status` is 'great'"),
        ("""print('{"status": ["success"]}')""", "`status`"),
        ("""print('{"status": "success", "message": 5}')""", "`message` is no text"),
        ("""print('{"status": "success", "usage": []}')""", "`usage` is no object"),
        ("""print('{"status": "success", "timeline": {}}')""", "`timeline` is no list"),
        ("""print('{"status": "success", "timeline": [5]}')""", "an entry of its `timeline`"),
        ("""print('{"status": "success", "returned": NaN}')""", "NaN is no JSON"),
        ("print('[' * 100000)", "it is no JSON"),
        ("import sys; sys.stdout.buffer.write(bytes(range(256)))", "it is no JSON"),
        ("""print('{"status": "success"}'); raise SystemExit(3)""", "reported success, but ended with status 3"),
        ("""print('{"status": "success"}', flush=True); import os; os.kill(os.getpid(), 9)""", "by signal 9"),
        ("import os; os.mkdir(os.environ['LEGACYPROOF_REPORT'])", "no plain file"),
        ("import os; os.mkfifo(os.environ['LEGACYPROOF_REPORT'])", "no plain file"),
        ("import os; os.symlink('/etc/passwd', os.environ['LEGACYPROOF_REPORT'])", "cannot be read"),
        ("import os; open(os.environ['LEGACYPROOF_REPORT'], 'w').truncate(1 << 40)", "more than 8 MiB"),
        ("print('x' * (9 << 20))", "it has more than 8 MiB"),
    ],
)  # fmt: skip
def test_nonsense_is_its_error(stage: Stage, source: str, words: str) -> None:
    report = stage.run(source)
    assert report.status == "error"
    assert words in report.message, report.message


def test_values_that_are_nested_too_deeply_are_its_error(stage: Stage) -> None:
    for depth in (MAX_DEPTH + 1, 900):
        report = stage.run(f"""print('{{"status": "success", "returned": ' + '[' * {depth} + ']' * {depth} + '}}')""")
        report = checked(report)
        assert (report.status, report.returned) == ("error", None)
        assert "nested" in report.message


def test_a_program_that_cannot_be_run_is_not_its_failure(stage: Stage) -> None:
    gone = replace(stage.agent("pass"), program=(str(stage.folder / "gone"),))
    with pytest.raises(AgentInfrastructureError, match="No such file"):
        gone.run(stage.task())
    assert list(stage.work.iterdir()) == []


def test_a_display_that_is_gone_is_not_its_failure(stage: Stage) -> None:
    with pytest.raises(AgentInfrastructureError, match="display"):
        stage.agent("pass").run(stage.task(display=DisplayAddress("127.0.0.1", 1)))


# --- pictures ---------------------------------------------------------------------------------------------------------

PICTURES = """
    import json, os, sys, base64, zlib
    os.mkdir("shots")
    data = base64.b64decode({data!r})
    open("shots/1.png", "wb").write(data)
    {more}
    print(json.dumps({{"status": "failed", "timeline": [{{"t": 1, "text": "saw", "screenshot": {name!r}}}]}}))
"""


def png(text: str = "") -> str:
    import base64

    about = PngImagePlugin.PngInfo()
    about.add_text("Comment", text)
    buffer = BytesIO()
    Image.new("RGB", (4, 3), (10, 200, 30)).save(buffer, "PNG", pnginfo=about)
    return base64.b64encode(buffer.getvalue()).decode()


def test_pictures_are_kept_as_pixels_only(stage: Stage) -> None:
    report = stage.run(PICTURES.format(data=png("sk-secret-in-a-comment"), name="shots/1.png", more=""))
    assert report.status == "failed"
    kept = report.timeline[0].screenshot
    assert kept is not None
    assert b"comment" not in kept.lower()
    with Image.open(BytesIO(kept)) as image:
        assert (image.size, image.getpixel((1, 1)), image.text) == ((4, 3), (10, 200, 30), {})  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "more", "words"),
    [
        ("/etc/passwd", "", "not within"),
        ("../program.py", "", "not within"),
        ("shots/../../program.py", "", "not within"),
        ("shots/2.png", "", "there is no screenshot"),
        ("shots", "", "no plain file"),
        ("link.png", "os.symlink('/etc/passwd', 'link.png')", "cannot be read"),
        ("way/passwd", "os.symlink('/etc', 'way')", "there is no screenshot"),
        ("pipe", "os.mkfifo('pipe')", "no plain file"),
        ("text.png", "open('text.png', 'w').write('text')", "is no PNG or JPEG"),
        ("huge.png", "open('huge.png', 'wb').truncate(1 << 40)", "more than 32 MiB"),
        ("a\0b", "", "not within"),
        (5, "", "no file's name"),
    ],
)  # fmt: skip
def test_no_file_but_a_picture_of_its_own_is_taken(stage: Stage, name: Any, more: str, words: str) -> None:
    report = stage.run(PICTURES.format(data=png(), name=name, more=more))
    assert report.status == "error"
    assert words in report.message, report.message


def test_photographs_may_be_jpegs(stage: Stage) -> None:
    import base64

    buffer = BytesIO()
    Image.new("RGB", (4, 3), "red").save(buffer, "JPEG")
    data = base64.b64encode(buffer.getvalue()).decode()
    report = stage.run(PICTURES.format(data=data, name="shots/1.png", more=""))
    assert report.status == "failed", report.message
    assert (report.timeline[0].screenshot or b"").startswith(b"\x89PNG")


# --- its end ----------------------------------------------------------------------------------------------------------


def test_it_is_ended_when_its_time_is_over(stage: Stage) -> None:
    begun = time.monotonic()
    report = stage.run('import time; print(\'{"status": "success"}\', flush=True); time.sleep(600)', seconds=0.7)
    assert (report.status, report.returned) == ("timeout", None)
    assert "still working after 0.7 s" in report.message
    assert time.monotonic() - begun < LONG


def test_its_own_time_may_be_shorter(stage: Stage) -> None:
    report = stage.run("import time; time.sleep(600)", about={"time_limit": 0.5})
    assert report.status == "timeout"
    assert "0.5 s" in report.message


def test_one_that_cleans_up_when_it_is_asked_to_end_is_heard(stage: Stage) -> None:
    report = stage.run(
        """
        import signal, sys, time
        def end(*_):
            print('{"status": "failed", "timeline": [{"t": 1, "text": "got so far"}]}', flush=True)
            sys.exit(0)
        signal.signal(signal.SIGTERM, end)
        time.sleep(600)
        """,
        seconds=1.0,
    )
    assert report.status == "timeout"
    assert [entry.text for entry in report.timeline] == ["got so far"]


def test_one_that_does_not_listen_is_killed(stage: Stage) -> None:
    report = stage.run(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", seconds=0.5
    )
    assert report.status == "timeout"
    assert alive(str(stage.folder / "program.py")) == []


def test_cancelling_ends_it(stage: Stage) -> None:
    threading.Timer(0.5, stage.cancelled.set).start()
    report = stage.run("import time; time.sleep(600)")
    assert (report.status, report.message) == ("timeout", "cancelled.")
    assert alive(str(stage.folder / "program.py")) == []


def test_one_that_writes_without_end_is_ended(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "MAX_WRITTEN", 3 << 20)
    report = stage.run("import os\nwhile True: os.write(1, b'x' * 65536)")
    assert report.status == "error"
    assert "was ended" in report.message


def test_much_output_before_the_report_does_no_harm(stage: Stage) -> None:
    report = stage.run('print(\'x\' * (20 << 20)); print(\'{"status": "failed", "message": "y"}\')')
    assert (report.status, report.message) == ("failed", "y")


FORKS = {
    "a child": "subprocess.Popen(SLEEP)",
    "a child in a session of its own": "subprocess.Popen(SLEEP, start_new_session=True)",
    "a daemon": "subprocess.Popen(['sh', '-c', 'setsid sh -c \"exec sleep $0\" \"$1\" & exit 0', SLEEP[1], SLEEP[1]]).wait()",
    "one without environment": "subprocess.Popen(SLEEP, env={}, start_new_session=True)",
    "one that holds the output": "subprocess.Popen(SLEEP, stdout=sys.stdout, stderr=sys.stderr)",
    "one that ignores signals": (
        "subprocess.Popen(['sh', '-c', 'trap \"\" TERM HUP INT; setsid sleep $0; true', SLEEP[1]], start_new_session=True)"
    ),
    "forked twice": "os.fork() or (os.setsid(), os.fork() or os.execvp('sleep', SLEEP))",
}


@pytest.mark.parametrize("how", FORKS)
def test_nothing_that_it_started_is_left(stage: Stage, how: str) -> None:
    seconds = f"9{os.getpid()}{list(FORKS).index(how)}"
    report = stage.run(f"""
        import os, subprocess, sys, time
        SLEEP = ["sleep", "{seconds}"]
        if os.getpid():
            {FORKS[how]}
        time.sleep(0.3)
        print('{{"status": "failed", "message": "gave up."}}', flush=True)
        os._exit(0)
    """)
    assert alive(seconds) == []
    assert report.status == "failed"
    assert report.message.startswith("gave up. It left ")


def test_what_it_started_ends_when_its_time_is_over(stage: Stage) -> None:
    seconds = f"8{os.getpid()}1"
    report = stage.run(
        f"""
        import subprocess, time
        subprocess.Popen(["sleep", "{seconds}"], start_new_session=True, env={{}})
        time.sleep(600)
        """,
        seconds=1.5,
    )
    assert report.status == "timeout"
    assert alive(seconds) == []


def test_one_that_kills_its_keeper_gets_nowhere(stage: Stage) -> None:
    seconds = f"7{os.getpid()}2"
    report = stage.run(f"""
        import os, subprocess, signal, time
        subprocess.Popen(["sleep", "{seconds}"], start_new_session=True)
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    """)
    assert report.status == "error"
    assert "keeps its processes together" in report.message
    assert alive(seconds) == []
    assert alive(str(stage.folder / "program.py")) == []


def test_when_the_runner_is_killed_the_program_and_its_task_go_too(tmp_path: Path, display: DisplayAddress) -> None:
    import subprocess

    seconds = f"6{os.getpid()}3"
    script = tmp_path / "program.py"
    script.write_text(
        f"import subprocess, time; subprocess.Popen(['sleep', '{seconds}'], start_new_session=True, env={{}}); time.sleep(600)"
    )
    work = tmp_path / "work"
    work.mkdir()
    (work / "task.json").write_text("{}")
    runner = subprocess.Popen(
        [sys.executable, "-c", f"""
import threading, time
from pathlib import Path
from runner.agents.processes import run_kept
work = Path({str(work)!r})
run_kept([{sys.executable!r}, {str(script)!r}], environment={{"PATH": "/usr/bin:/bin"}}, folder=work,
         standard_input=work / "task.json", deadline=time.monotonic() + 100, cancelled=threading.Event())
"""],
        cwd=Path(__file__).parents[2],
    )  # fmt: skip
    try:
        wait_for(lambda: alive(seconds))
    finally:
        runner.kill()
        runner.wait()
    wait_for(lambda: not alive(seconds) and not alive(str(script)))
    wait_for(lambda: not (work / "task.json").exists())


def test_files_that_it_makes_hard_to_remove_are_removed(stage: Stage) -> None:
    outside = stage.folder / "outside"
    outside.mkdir(mode=0o755)
    (outside / "keep").write_text("me")
    stage.run(f"""
        import os
        os.makedirs("a/b/c")
        open("a/b/c/file", "w").close()
        os.symlink({str(outside)!r}, "a/link")
        os.symlink("nowhere", "dangling")
        for path in ("a/b/c", "a/b", "a"):
            os.chmod(path, 0)
        print('{{"status": "failed"}}')
    """)
    assert (outside / "keep").read_text() == "me"


def test_removing_gives_folders_without_rights_their_rights_back(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "file").touch()
    (tmp_path / "a" / "b").chmod(0o500)
    empty(tmp_path)
    assert list(tmp_path.iterdir()) == []


# --- secrets ----------------------------------------------------------------------------------------------------------


def test_what_it_was_given_by_the_environment_is_kept_out_of_all_it_says(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_KEY", 'sk-"quoted"/and+ß')
    (stage.folder / "it.py").write_text(
        textwrap.dedent("""
        import base64, json, os, sys, urllib.parse
        key = os.environ["PROVIDER_KEY"]
        forms = [key, json.dumps(key), repr(key), urllib.parse.quote(key, safe=""), key.encode().hex(),
                 *(base64.b64encode((" " * n + key + "!").encode()).decode() for n in range(3))]
        print(key, file=sys.stderr)
        print(json.dumps({"status": "failed", "message": "; ".join(forms), "returned": {key: [forms]}, "usage": {key: 1},
                          "timeline": [{"t": 0, "text": form} for form in forms]}))
    """)
    )
    described = stage.folder / "mine.yaml"
    described.write_text(f"schema: 1\nprogram: ['{sys.executable}', it.py]\nenvironment: [PROVIDER_KEY]\n")
    report = plan_command(str(described))[0].agent.run(stage.task())
    from tests.secret_search import leaks_in

    key = os.environ["PROVIDER_KEY"]
    returned = blot_value(report.returned, report.hidden)  # as the runner does before it keeps them
    said = repr((report.message, returned, report.usage, [entry.text for entry in report.timeline])).encode()
    assert report.status == "failed"
    assert leaks_in(said, {"key": key}) == []
    assert BLOT in report.message
    assert key in report.returned, "what is judged is what it has returned"


def test_an_ordinary_word_in_its_environment_may_be_a_right_answer(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NODE_ENV", "test")
    monkeypatch.setenv("PORT", "4000")
    answer = {"test": ["a test", "4000", 4000]}
    (stage.folder / "it.py").write_text(
        f"import json; print(json.dumps({{'status': 'success', 'returned': {answer!r}}}))"
    )
    described = stage.folder / "mine.yaml"
    described.write_text(f"schema: 1\nprogram: ['{sys.executable}', it.py]\nenvironment: [NODE_ENV, PORT]\n")
    report = checked(plan_command(str(described))[0].agent.run(stage.task()))
    assert (report.status, report.returned) == ("success", answer)
    assert {"test", "4000"} <= {*report.hidden}
    assert blot_value(report.returned, report.hidden) == {BLOT: [f"a {BLOT}", BLOT, BLOT]}


def test_a_secret_on_its_command_line_is_not_kept(stage: Stage) -> None:
    (stage.folder / "it.py").write_text("import sys; sys.exit(' '.join(sys.argv))")
    for argument in ("--api-key sk-abcdef", "--api-key=sk-abcdef", "-token sk-abcdef"):
        planned = plan_command(f"{sys.executable} {stage.folder}/it.py {argument} --fast")[0]
        assert "sk-abcdef" not in planned.spec
        assert "--fast" in planned.spec
        assert "sk-abcdef" not in planned.agent.run(stage.task()).message


# --- what cannot be -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("", "say which program"),
        ("  ", "say which program"),
        ("no-such-program --x", "no program 'no-such-program' on the PATH"),
        ("./no-such-program", "no program './no-such-program' in"),
        ("no-such.yaml", "no file no-such.yaml"),
        ("python3 'x", "cannot be split"),
    ],
)
def test_a_program_that_there_is_not(argument: str, words: str) -> None:
    with pytest.raises(AgentSpecError, match=words):
        plan(f"command:{argument}")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema: 1\n", "program"),
        ("schema: 1\nprogram: []\n", "program"),
        ("schema: 1\nprogram: [sh]\ncolour: red\n", "mine.yaml:3:1: "),
        ("schema: 2\nprogram: [sh]\n", "mine.yaml:1:9: "),
        ("schema: 1\nprogram: [sh]\nset: {OPENAI_API_KEY: sk-1}\n", "name it under `environment`"),
        ("schema: 1\nprogram: [sh]\nset: {LEGACYPROOF_TASK: x}\n", "set by the runner"),
        ("schema: 1\nprogram: [sh]\nenvironment: [NO_SUCH_VARIABLE_HERE]\n", "has no NO_SUCH_VARIABLE_HERE"),
        ("schema: 1\nprogram: [sh]\nprompt_style: fancy\n", "mine.yaml:3:15: "),
    ],
)
def test_a_description_that_is_wrong(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(AgentSpecError) as caught:
        plan(f"command:{file}")
    assert words in str(caught.value)
    assert "sk-1" not in str(caught.value)


def test_the_doctor_names_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("schema: 1\nprogram: [no-such-program]\nenvironment: [THIS_IS_SET, THIS_IS_NOT]\n")
    monkeypatch.setenv("THIS_IS_SET", "a secret value")
    found = {(finding.name, finding.ok): finding for finding in doctor(str(file))}
    assert "no-such-program" in found["agent: program", False].message
    assert "THIS_IS_NOT" in found["agent: environment", False].remedy
    assert found["agent: environment", True].message == "THIS_IS_SET is set"
    assert all(finding.ok for finding in doctor("sh"))
    assert [finding.ok for finding in doctor("nothing.yaml")] == [True, False]
    assert all(finding.remedy for finding in [*doctor("nothing.yaml"), *doctor(str(file))] if finding.ok is False)


def test_names_in_tables() -> None:
    def name(planned: list[PlannedAgent]) -> str:
        return planned[0].agent.name

    assert name(plan_command("sh -c true")) == "command sh"
    assert name(plan_command(f"{sys.executable} {__file__} --x")) == "command test_command_agent.py"
    assert name(plan_command("env -i")) == "command env"
