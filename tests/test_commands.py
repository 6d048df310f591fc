"""Every program and file of the system that code, tests, Makefiles and scripts use comes with a package that the Makefile installs.

A command that only happens to be there, put by hand or by a package that another one merely recommends, works for everybody but
those who start on a bare machine. What a package needs (``Depends``) comes with it; what it recommends does not.

What is looked at:

* in Python, the program of each call that starts one, the first word of every other list that is a program on this machine, each
  script for ``sh -c``, and each path below ``/usr``;
* in shell, which includes what ``make -n`` says it would do, every word that stands where a command stands.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("contracts", "prompts", "recordings", "runner", "tests", "validators", "vm_images")
SCRIPTS = (".ci/run", "vm_images/debian-wine/archives", *(f"vm_images/debian-wine/steps/{n}.sh" for n in ("1-packages", "2-drive", "3-system")))  # fmt: skip
RECIPES = tuple(str(file.parent.relative_to(ROOT)) for file in sorted((ROOT / "vm_images").rglob("Makefile")))
EMBEDDED = ("recipes", "sandbox", "wine", "wine_base", "xserver")
"""The modules of ``runner.machines`` that make embedded machines; a demo needs no others."""
DIRECTORIES = "/usr/sbin:/usr/bin:/sbin:/bin"
"""Where packages put programs: what lies elsewhere was put there by somebody."""
OPTIONAL = {
    "sudo": "for those who are not root",
    "newuidmap": "looked for by those who are not root; a message names its package",
    "ssh": "to a host of the user's own, who has set it up; tests have a stand-in for it",
    "xdg-open": "on a desktop that has it; the runner does without",
}  # fmt: skip
WORDS = {"file", "free", "open", "shutdown", "strip", "time", "w", "write"}
"""Names of programs that stand at the head of lists as words of English."""
_STARTERS = {"run", "Popen", "call", "check_call", "check_output", "which"}
_BASE = ("required", "apt")
"""What every Debian has: by priority or name."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+.-]*")
_QUOTED = re.compile(r"""(?<![^\s;])\#[^\n]*|'[^']*'|"(?P<double>(?:\\.|[^"\\])*)\"""", re.S)
"""A comment, or a quoted text; only what is put into the latter by ``$(…)`` is looked at."""
_PATH = re.compile(r"/usr/[\w./+@-]*\w")


# --- what is used


def in_python(source: str) -> Iterator[str]:
    """Programs and paths that a module uses; see the module's docstring."""
    tree = ast.parse(source)
    texts = {
        target.id: node.value.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    starts = re.search(r"\bsubprocess\b|\bPopen\b|\bwhich\b|import [^\n]*\brun\b", source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _PATH.fullmatch(node.value):
            yield node.value
        elif isinstance(node, ast.Call) and node.args and starts:
            function = ast.unparse(node.func).split(".")
            if function[-1] in _STARTERS and function[0] in {"subprocess", "shutil", "run", "volumes"}:
                yield from _program(node.args[0])
        elif isinstance(node, ast.List | ast.Tuple) and starts:
            yield from (name for name in _program(node) if name not in WORDS and shutil.which(name, path=DIRECTORIES))
            given = [_text(element, texts) for element in node.elts]
            if "-c" in given[1:-1] and given[(at := given.index("-c")) - 1] in ("sh", "bash"):
                yield from in_shell(given[at + 1] or "")


def _program(node: ast.expr) -> Iterator[str]:
    """The command that a list begins with, also behind a prefix that is unpacked into it."""
    elements = node.elts if isinstance(node, ast.List | ast.Tuple) else [node]
    after_prefix = [two for one, two in pairwise(elements) if isinstance(one, ast.Starred)]
    for element in (*elements[:1], *after_prefix):
        text = _text(element, {})
        if text is not None and _NAME.fullmatch(text):
            yield text


def _text(node: ast.expr, texts: dict[str, str]) -> str | None:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return texts.get(node.id) if isinstance(node, ast.Name) else None


def in_shell(script: str) -> Iterator[str]:
    """The words of a script that stand where a command stands, its own functions, built-in commands and variables left out."""
    script = re.sub(r"\\\n", " ", script)
    script = re.sub(r"\$\(\((?:[^()]|\([^()]*\))*\)\)", "0", script)
    script = _QUOTED.sub(lambda found: " ".join(["_", *re.findall(r"\$\([^)]*\)", found["double"] or "")]), script)
    script = re.sub(r"\$\{[^}]*\}", "_", script)
    script = re.sub(r"\d*[<>]+&?\s*\S+", " ", script)
    own = set(re.findall(r"^(\w+)\s*\(\)", script, re.M))
    for part in re.split(r"\$\(|[;|&(){}`\n]|\b(?:if|then|else|elif|do|while|until|exec|time)\b|!\s", script):
        words = part.split()
        while words and re.match(r"\w+=|\$|env$", words[0]):
            del words[0]
        if words and words[0] not in own | built_in() and (_NAME.fullmatch(words[0]) or _PATH.fullmatch(words[0])):
            yield words[0]


@cache
def built_in() -> frozenset[str]:
    """What the shell itself knows."""
    done = subprocess.run(["bash", "-c", "compgen -b -k"], capture_output=True, text=True, check=True, timeout=60)
    return frozenset(done.stdout.split())


def would_do(folder: str) -> str:
    """The commands of all of a Makefile's targets that have names, and of its first, with its variables put in."""
    text = (ROOT / folder / "Makefile").read_text()
    named = [word for line in re.findall(r"^\.PHONY:(.*)$", text, re.M) for word in line.split() if "$" not in word]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "-n", "-B", "--no-print-directory", "-C", str(ROOT / folder), "PYTHON=python3", "JOBS=1"]
    return "".join(
        subprocess.run(
            [*command, *targets], capture_output=True, text=True, check=True, timeout=120, env=environment
        ).stdout
        for targets in ([], named)
    )


def everything_used() -> dict[str, str]:
    """Programs and paths, with one place that uses each."""
    used: dict[str, str] = {}
    for package in PACKAGES:
        for file in sorted({*(ROOT / package).rglob("*.py")} - {Path(__file__).resolve()}):
            for name in in_python(file.read_text()):
                used.setdefault(name, str(file.relative_to(ROOT)))
    for script in SCRIPTS:
        for name in in_shell((ROOT / script).read_text()):
            used.setdefault(name, script)
    for folder in (".", *RECIPES):
        for name in in_shell(would_do(folder)):
            used.setdefault(name, str(Path(folder, "Makefile")))
    return used


# --- what is installed


def in_makefile(lists: str = r"\w+") -> set[str]:
    """The packages that the Makefile installs, or those of some of its lists."""
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    return {word for line in re.findall(rf"^(?:{lists})_PACKAGES :=(.*)$", text, re.M) for word in line.split()}


@cache
def installed() -> dict[str, tuple[set[str], bool]]:
    """Each installed package, and each name that one provides: what it needs, and whether every Debian has it."""
    fields = "${db:Status-Abbrev}|${Package}|${Priority}|${Essential}|${Provides}|${Pre-Depends}, ${Depends}\n".replace(
        "|${Pre", "\t${Pre"
    )
    done = subprocess.run(
        ["dpkg-query", "--show", f"--showformat={fields}"], capture_output=True, text=True, check=True, timeout=60
    )
    found: dict[str, tuple[set[str], bool]] = {}
    for line in done.stdout.splitlines():
        about, _, needs = line.partition("\t")
        status, name, priority, essential, provides = about.split("|", 4)
        if not status.startswith("ii"):
            continue
        # Of alternatives the first is what is installed where none is there yet.
        needed = {re.split(r"[ (:]", each.strip())[0] for each in needs.split(",") if each.strip()}
        found[name] = (needed, priority in _BASE or name in _BASE or essential == "yes")
        for other in (re.split(r"[ (:]", each.strip())[0] for each in provides.split(",") if each.strip()):
            found.setdefault(other, ({name}, False))
    return found


def with_needs(packages: Iterable[str]) -> set[str]:
    """Packages with everything that they need."""
    known = installed()
    found: set[str] = set()
    left = [*packages, *(name for name, (_, base) in known.items() if base)]
    while left:
        name = left.pop()
        if name not in found and name in known:
            found.add(name)
            left += known[name][0]
    return found


def owners(paths: Iterable[str]) -> dict[str, set[str]]:
    """The packages that each file belongs to; ``/usr`` may or may not stand before the path under which it was packed."""
    ways: dict[str, set[str]] = {}
    for path in paths:
        for way in (path, os.path.realpath(path)):
            ways.setdefault(way, set()).add(path)
            ways.setdefault(way.removeprefix("/usr"), set()).add(path)
    done = subprocess.run(["dpkg-query", "--search", *ways], capture_output=True, text=True, check=False, timeout=120)
    found: dict[str, set[str]] = {path: set() for path in paths}
    for line in done.stdout.splitlines():
        names, _, file = line.rpartition(": ")
        for path in ways.get(file, ()):
            found[path] |= {name.partition(":")[0] for name in names.split(", ")}
    return found


def wrong(names: Iterable[str], packages: Iterable[str], path: str = DIRECTORIES) -> dict[str, str]:
    """What is wrong with the use of each program or path, where anything is."""
    guaranteed = with_needs(packages)
    there = {name: name if name.startswith("/") else shutil.which(name, path=path) for name in names}
    places = {name: place for name, place in there.items() if place is not None and os.path.exists(place)}
    belong = owners(places.values())
    found = {}
    for name in there:
        if name not in places:
            found[name] = "is not there"
        elif not (of := belong[places[name]]):
            found[name] = f"{places[name]} belongs to no package"
        elif not of & guaranteed:
            found[name] = f"belongs to {', '.join(sorted(of))}, which the Makefile does not install"
    return found


pytestmark = pytest.mark.skipif(shutil.which("dpkg-query") is None, reason="packages are those of Debian")


def test_everything_that_is_used_comes_with_a_package_that_the_makefile_installs() -> None:
    used = everything_used()
    assert {"bwrap", "Xtigervnc", "qemu-img", "/usr/lib/wine/wine64", "x86_64-w64-mingw32-gcc", "mmdebstrap"} <= set(
        used
    )
    faults = wrong(used.keys() - OPTIONAL.keys(), in_makefile())
    assert not faults, "\n".join(f"{used[name]}: {name} {why}" for name, why in sorted(faults.items()))


def test_what_a_demo_needs_comes_with_the_packages_that_are_installed_for_it() -> None:
    used = {
        name: module
        for module in EMBEDDED
        for name in in_python((ROOT / "runner" / "machines" / f"{module}.py").read_text())
    }
    # The builds for 32 bits are for virtual machines and tests.
    used |= {name: folder for folder in RECIPES for name in in_shell(would_do(folder)) if not name.startswith("i686-")}
    assert {"bwrap", "make", "/usr/lib/wine/wine64", "x86_64-w64-mingw32-gcc"} <= set(used)
    faults = wrong(used.keys() - OPTIONAL.keys(), in_makefile("PYTHON|RUN"))
    assert not faults, "\n".join(f"{used[name]}: {name} {why}" for name, why in sorted(faults.items()))


def test_what_no_package_of_the_makefile_brings_is_found(tmp_path: Path) -> None:
    by_hand = tmp_path / "by-hand"
    by_hand.write_text("#!/bin/sh\n")
    by_hand.chmod(0o755)
    path = f"{DIRECTORIES}:{tmp_path}"
    fewer = in_makefile() - {"bubblewrap"}
    faults = wrong(["bwrap", "by-hand", "sh", "no-such-program", "/usr/lib/none", "dpkg-query"], fewer, path)
    assert faults.keys() == {"bwrap", "by-hand", "no-such-program", "/usr/lib/none"}
    assert "bubblewrap" in faults["bwrap"]


@pytest.mark.parametrize(
    ("script", "used"),
    [
        ("first -x | second && third; fourth || fifth >/dev/null 2>&1", "first second third fourth fifth"),
        ("if alpha; then\n\tbeta\nelse gamma\nfi\nwhile read -r x; do delta; done <file", "alpha beta gamma delta"),
        ("x=$(inner --y)\necho \"say $(another) and third\" 'not one; nor two'", "inner another"),
        ("KEY=1 env OTHER=2 outer # comment; none\n$sudo as_root \\\n  --more", "outer as_root"),
        ("truncate -s $(((size - 2) * 10)) a && (cd b && inside)", "truncate inside"),
        ("own() { real; }\nown; command -v x", "real"),
        ("exec /usr/bin/there ${x:-$y}", "/usr/bin/there"),
    ],
)
def test_commands_of_scripts(script: str, used: str) -> None:
    assert list(in_shell(script)) == used.split()


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("import subprocess\nsubprocess.run(['never-there', 'x'])", {"never-there"}),
        ("import subprocess\nsubprocess.Popen('never-there')", {"never-there"}),
        ("import shutil\nshutil.which('never-there')  # instead of Popen", {"never-there"}),
        ("import subprocess\ncommand = [*prefix, 'sh', '-x']\nsubprocess.run(command)", {"sh"}),
        ("import subprocess\ncommand = ['sh', '-c', 'one | two']", {"sh", "one", "two"}),
        ("import subprocess\nwords = 'one | two'\ncommand = [*prefix, 'sh', '-c', words, 'sh']", {"sh", "one", "two"}),
        ("import subprocess\nwords = ['an', 'ordinary', 'list', 'true']", set()),
        ("PLACE = Path('/usr/share/there')", {"/usr/share/there"}),
    ],
)
def test_commands_of_modules(source: str, used: set[str]) -> None:
    assert set(in_python(source)) == used
