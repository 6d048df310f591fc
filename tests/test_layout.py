"""The house plan holds: imports point downwards only, and what is optional is loaded only where it is needed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MAY_IMPORT = {
    "contracts": {"contracts"},
    "validators": {"contracts", "validators"},
    "prompts": {"contracts", "prompts"},
    "runner": {"contracts", "prompts", "runner", "validators"},
}
OPTIONAL = (
    "pyodbc", "arrow_odbc", "pypdf", "Registry", "libvirt", "pyVmomi", "winrm", "httpx", "anthropic", "openai", "google.genai",
    "pytsk3", "pyfsntfs",
)  # fmt: skip


def imported(file: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("package", MAY_IMPORT)
def test_imports_point_downwards(package: str) -> None:
    ours = {"contracts", "prompts", "recordings", "runner", "tests", "validators", "vm_images"}
    for file in (ROOT / package).rglob("*.py"):
        assert imported(file) & ours <= MAY_IMPORT[package], f"{file.relative_to(ROOT)} imports upwards"


def test_the_program_starts_without_the_optional_libraries() -> None:
    check = f"import sys, runner.cli; print([name for name in {OPTIONAL!r} if name in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


def test_no_machine_paths_stand_in_the_repository() -> None:
    private = [f"/{name}/" for name in ("work", "root")]
    folders = ["contracts", "docs", "prompts", "recordings", "runner", "tests", "validators", "vm_images"]
    files = [*ROOT.glob("*.*"), ROOT / "Makefile", *(path for folder in folders for path in (ROOT / folder).rglob("*"))]
    for path in files:
        if (
            path.is_file()
            and path.name != ".git"
            and path.suffix in {".py", ".md", ".yaml", ".toml", ".txt", ".c", ".h", ""}
        ):
            text = path.read_text(errors="replace")
            assert not any(part in text for part in private), f"{path.relative_to(ROOT)} names a path of a machine"
