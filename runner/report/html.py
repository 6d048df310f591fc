"""The report of a campaign: one static folder that opens from disk, in any browser, without a network.

``index.html`` has the figures and the table of runs, ``runs/`` a page per run, ``frames/`` the pictures, ``texts/`` prompts and
contracts, ``data/`` what the script reads, ``assets/`` the style sheet and the script.

Everything a record or a blob says is hostile. Three things keep it text: templates escape automatically, every value that a
template puts out passes :func:`~runner.report.text.visible` on its way (the environment's ``finalize``), and a content
security policy allows nothing but the report's own files.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from datetime import datetime
from importlib import resources
from pathlib import Path
from typing import Any, Final

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup, escape

from runner.host_disk import unwritable
from runner.record import ContractRef, RunRecord
from runner.report import text
from runner.report.evidence import Blob, Pictures, Texts
from runner.report.index_page import Summary
from runner.report.packing import PLAIN_LIMIT, PageWriter, RunPage
from runner.report.run_page import FieldLine, contract_context, run_context
from runner.report.words import Outcome
from runner.store import at_work

GENERATOR: Final = "legacyproof report"
"""Marks an index page as ours: nothing else is ever replaced."""

CSP: Final = (
    "default-src 'none'; img-src 'self' file:; style-src 'self' file:; script-src 'self' file:; base-uri 'none'; "
    "form-action 'none'; require-trusted-types-for 'script'; trusted-types legacyproof"
)
"""``file:`` because pages opened from disk have no origin that ``'self'`` could mean in every browser."""

_MAX_CONTRACTS: Final = 1_000
_SHORT: Final = 80

_CHANGED: Final = ' class="changed"'
_SAFE_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)


class ReportError(Exception):
    """The report cannot be written where it should go; the message says why."""


def write_report(
    records: Iterable[RunRecord],
    blob: Callable[[str], bytes],
    target: Path,
    *,
    title: str,
    generated: datetime,
    plain_limit: int = PLAIN_LIMIT,
) -> Path:
    """Writes the report, whole or not at all: it grows in a folder beside ``target``, which then takes its place.

    Records are consumed one at a time and not kept. A blob that is missing or does not match its hash is told on the page
    and is no error.

    Args:
        records: the campaign's runs, superseded attempts included, in the order they are to be listed.
        blob: finds a blob by its SHA-256 in hexadecimal; raises OSError or LookupError if it is not there.
        target: the report's folder; an older report in it is replaced.
        title: of the campaign.
        generated: when the report is written.
        plain_limit: the most bytes of run pages in plain HTML; beyond, see :mod:`runner.report.packing`.

    Returns:
        The report's ``index.html``.

    Raises:
        ReportError: ``target`` exists and is no report.
        Unwritable: the disk refuses; an older report stays as it was.
    """
    target = target.resolve()
    _check_replaceable(target)
    folder = target.with_name(f".{target.name}.{secrets.token_hex(4)}.new")
    with ExitStack() as stack:
        with suppress(OSError):  # a home that cannot be written is no reason to have no report
            stack.enter_context(at_work(target.parent))
        try:
            folder.mkdir(parents=True)
            _Report(folder, blob, plain_limit).write(records, title, generated)
            _swap(folder, target)
        except OSError as error:
            raise unwritable(error, target, "copy the campaign to another disk") from None
        finally:
            shutil.rmtree(folder, ignore_errors=True)  # gone already, if all went well
    return target / "index.html"


class _Report:
    def __init__(self, folder: Path, blob: Blob, plain_limit: int) -> None:
        self._folder = folder
        self._environment = _environment()
        self._run_template = self._environment.get_template("run.html")
        self._pictures = Pictures(folder, blob)
        self._texts = Texts(folder, blob, self._render_text)
        self._blob = blob
        self._contracts: dict[tuple[str, ...], tuple[ContractRef, Markup]] = {}
        (folder / "data").mkdir()
        self._plain_limit = plain_limit

    def write(self, records: Iterable[RunRecord], title: str, generated: datetime) -> None:
        summary = Summary()
        pages = PageWriter(self._folder / "runs", self._folder / "data" / "dictionary.js", self._plain_limit)
        for previous, (name, record), following in _with_neighbours(_named(records)):
            summary.add(record, f"runs/{name}")
            pages.add(self._run_page(name, record, previous, following))
        pages.close()
        _write_assets(self._folder / "assets")
        if summary.rows:
            (self._folder / "data" / "runs.js").write_text(summary.script(), encoding="ascii")
        page = self._environment.get_template("index.html").render(
            root="", title=title, generated=text.moment(generated), **summary.context()
        )
        (self._folder / "index.html").write_text(page, encoding="utf-8")

    def _run_page(self, name: str, record: RunRecord, previous: str | None, following: str | None) -> RunPage:
        context = run_context(record, self._blob, self._pictures)
        page = self._run_template.render(
            root="../", previous=previous, next=following, contract_section=self._contract_section(record), **context
        )
        # Data cannot contain these marks: it is escaped.
        head, rest = page.split("<!--body-->")
        body, tail = rest.split("<!--tail-->")
        return RunPage(name, head, body, tail)

    def _contract_section(self, record: RunRecord) -> Markup:
        """Contract and prompt, which many runs share; rendered once."""
        contract, agent = record.contract, record.agent
        key = (contract.sha256, agent.prompt_text, agent.prompt, agent.spec)
        known = self._contracts.get(key)
        if known is None or known[0] != contract:
            context = contract_context(record, self._texts)
            known = contract, Markup(self._environment.get_template("contract.html").render(context))  # noqa: S704
            if len(self._contracts) < _MAX_CONTRACTS:
                self._contracts[key] = known
        return known[1]

    def _render_text(self, heading: str, content: str) -> str:
        return self._environment.get_template("text.html").render(root="../", heading=heading, text=content)


def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_template),
        autoescape=True,
        finalize=_shown,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"csp": Markup(CSP), "generator": GENERATOR, "badge": _badge, "more": _more}  # noqa: S704 - a constant
    environment.filters |= {
        "field_table": _field_table,
        "fact_rows": _fact_rows,
        "phase_rows": _phase_rows,
        "lines": _lines,
        "number": _number,
        "duration": text.duration,
        "moment": text.moment,
        "clock": text.clock,
    }
    return environment


def _template(name: str) -> str:
    """The template without its indentation, which would be a quarter of every page."""
    source = (resources.files("runner.report") / "templates" / name).read_text(encoding="utf-8")
    return "\n".join(line.strip() for line in source.splitlines())


def _shown(value: Any) -> Any:
    """What every expression of a template passes through before it is escaped."""
    if type(value) is str and len(value) <= text.LIMIT and value.isascii() and value.isprintable():
        return value  # nearly all are like this, and need no call
    return text.visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _safe(value: str) -> str:
    """A value for a page: visible and escaped. Short ones, like names of fields, come again and again."""
    return _safe_short(value) if len(value) <= _SHORT else escape(text.visible(value))


@functools.lru_cache(maxsize=4096)
def _safe_short(value: str) -> str:
    return escape(text.visible(value))


# The parts of a page that come in dozens are put together here and not by the template, which would take a multiple of the
# time for a large campaign. As there, every value is made visible and escaped.


def _field_table(lines: Iterable[FieldLine]) -> Markup:
    """A table of the ledger."""
    rows = [
        f'<tr{_CHANGED if line.stands_out else ""}><th scope="row">{_safe(line.change.field)}</th>'
        f"{_cell(line.change.before)}{_cell(line.change.after, line.expected)}</tr>\n"
        for line in lines
    ]
    return Markup(  # noqa: S704 - all values in it are escaped
        '<div class="scroll"><table class="fields"><thead><tr><th scope="col">Field</th><th scope="col">Before</th>'
        f'<th scope="col">After</th></tr></thead><tbody>\n{"".join(rows)}</tbody></table></div>'
    )


def _fact_rows(facts: Iterable[tuple[str, str]]) -> Markup:
    """Names and values for a list of facts."""
    rows = [f'<dt>{_safe(name)}</dt><dd class="v">{_safe(value)}</dd>' for name, value in facts]
    return Markup("\n".join(rows))  # noqa: S704 - all values in it are escaped


def _phase_rows(phases: Iterable[tuple[str, str, float]]) -> Markup:
    """Names, times and bars of phases."""
    rows = [
        f"<dt>{_safe(name)}</dt><dd><span>{_safe(time)}</span>"
        f'<svg aria-hidden="true" width="100%"><rect width="{width:.1f}%" height="100%"/></svg></dd>'
        for name, time, width in phases
    ]
    return Markup("\n".join(rows))  # noqa: S704 - all values in it are escaped


def _cell(value: str | None, expected: str | None = None) -> str:
    note = "" if expected is None else f' <small>expected <span class="v">{_safe(expected)}</span></small>'
    if value is None:
        return f'<td class="none">—{note}</td>'
    return f'<td><span class="v">{_safe(value)}</span>{note}</td>' if note else f'<td class="v">{_safe(value)}</td>'


@functools.cache
def _badge(outcome: Outcome) -> Markup:
    """The letters on their colour."""
    return Markup(  # noqa: S704 - a constant
        f'<span class="badge {outcome.letters}" title="{outcome.name}">{outcome.letters}</span>'
    )


def _more(total: int, limit: int, what: str) -> Markup | str:
    """Tells how many of a list of ``total`` are not among the first ``limit``, if any."""
    count = total - limit
    if count <= 0:
        return ""
    is_one = count == 1
    return Markup('<p class="more">{:,} more {} {} not shown here; the run record has {}.</p>').format(
        count, what, "is" if is_one else "are", "it" if is_one else "them"
    )


def _lines(value: str, limit: int = text.LONG_LIMIT) -> Markup:
    """A text that keeps its lines."""
    return escape(text.visible(value, limit, multiline=True))


def _number(value: int) -> str:
    return f"{value:,}"


def _write_assets(folder: Path) -> None:
    folder.mkdir()
    for name in ("report.css", "report.js"):
        asset = resources.files("runner.report") / "templates" / "assets" / name
        (folder / name).write_bytes(asset.read_bytes())


def _named(records: Iterable[RunRecord]) -> Iterator[tuple[str, RunRecord]]:
    """Each record with its page's name: the run's id where that is a good file name on every system, else a hash."""
    taken: set[str] = set()
    for number, record in enumerate(records):
        run = record.run
        name = f"{run}.html"
        if not _SAFE_NAME.fullmatch(run) or _DEVICES.fullmatch(run) or name.lower() in taken:
            digest = hashlib.sha256(f"{number}:".encode() + run.encode("utf-8", "surrogatepass")).hexdigest()
            name = f"run-{digest[:24]}.html"
        taken.add(name.lower())
        yield name, record


def _with_neighbours(
    pages: Iterator[tuple[str, RunRecord]],
) -> Iterator[tuple[str | None, tuple[str, RunRecord], str | None]]:
    previous: str | None = None
    current = next(pages, None)
    while current is not None:
        following = next(pages, None)
        yield previous, current, following[0] if following is not None else None
        previous, current = current[0], following


def _check_replaceable(target: Path) -> None:
    if not target.exists():
        return
    if not target.is_dir():
        raise ReportError(f"{target} is no folder")
    if not any(target.iterdir()):
        return
    try:
        with open(target / "index.html", encoding="utf-8", errors="replace") as file:
            is_report = f'content="{GENERATOR}"' in file.read(4096)
    except OSError:
        is_report = False
    if not is_report:
        raise ReportError(f"{target} has other things than a report in it; they are not replaced")


def _swap(folder: Path, target: Path) -> None:
    """Puts the folder in the target's place; the old report comes back if that fails."""
    if not target.exists():
        os.rename(folder, target)
        return
    old = target.with_name(f".{target.name}.{secrets.token_hex(4)}.old")
    os.rename(target, old)
    try:
        os.rename(folder, target)
    except OSError:
        os.rename(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)
