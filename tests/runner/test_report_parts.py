"""The parts of reports: figures, texts made visible, the input log, tables for the terminal, packed pages."""

from __future__ import annotations

import base64
import io
import json
import re
import unicodedata
import zlib
from datetime import datetime, timedelta, timezone
from math import inf, nan
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from runner.record import Intended, RunRecord
from runner.report import tables
from runner.report.evidence import MissingEvidence, Pictures, fetch
from runner.report.inputs import read_inputs
from runner.report.packing import PageWriter, RunPage
from runner.report.stats import Rate, tally, wilson
from runner.report.tables import outcome_table, summary_line
from runner.report.text import clock, duration, moment, plain, visible
from runner.report.words import CAUSES, OUTCOMES, kind_words
from tests.runner.test_report_samples import Blobs, campaign, input_log, sample, screen, verdicts


class TestFigures:
    # Wilson intervals as published by Newcombe, Statistics in Medicine 17 (1998) 857-872, table I, method 3.
    @pytest.mark.parametrize(
        ("hits", "total", "low", "high"),
        [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
    )
    def test_wilson_agrees_with_the_literature(self, hits: int, total: int, low: float, high: float) -> None:
        assert wilson(hits, total) == pytest.approx((low, high), abs=5e-5)

    @given(st.integers(0, 400), st.integers(0, 400))
    def test_wilson_contains_the_rate_and_is_symmetric(self, hits: int, misses: int) -> None:
        total = hits + misses
        low, high = wilson(hits, total)
        assert 0 <= low <= high <= 1
        assert total == 0 or low - 1e-12 <= hits / total <= high + 1e-12
        assert wilson(misses, total) == pytest.approx((1 - high, 1 - low))

    def test_rounding_never_says_none_or_all(self) -> None:
        assert Rate(9_999, 10_000).percent == "> 99.9 %"
        assert Rate(1, 10_000).percent == "< 0.1 %"
        assert Rate(7, 8).percent == "87.5 %"
        assert Rate(0, 0).percent == "–"
        assert Rate(0, 0).interval == ""

    def test_unscored_and_superseded_are_in_no_denominator(self) -> None:
        counts = tally(campaign(Blobs()))
        assert (counts.runs, counts.scored, counts.unscored, counts.superseded) == (14, 13, 1, 1)
        assert counts.causes == {"unreadable": 1}
        assert (counts.atomicity, counts.unsafe, counts.success) == (Rate(7, 13), Rate(6, 13), Rate(5, 13))
        assert counts.intention == Rate(4, 5)

    def test_nothing_counted(self) -> None:
        assert summary_line([]) == "0 runs: VS 0 · VF 0 · IS 0 · IF 0 · unscored 0 — none scored"


class TestVisible:
    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("Müller, Jürgen", "Müller, Jürgen"),
            ("日本", "日本"),
            ("a\u202eb", "a⟨U+202E⟩b"),
            ("\x00\x1b\x7f", "␀␛␡"),
            ("line\r\nline", "line␍␊line"),
            ("\ud800", "⟨U+D800⟩"),
            ("a\u00a0b\u200bc\ufeff", "a⟨U+00A0⟩b⟨U+200B⟩c⟨U+FEFF⟩"),
            ("\U000e0041\ufe0f\u3164", "⟨U+E0041⟩⟨U+FE0F⟩⟨U+3164⟩"),
            ("o" + "\u0301" * 6, "o" + "\u0301" * 4 + "⟨U+0301⟩" * 2),
        ],
    )
    def test_spells_out_what_has_no_ink(self, text: str, shown: str) -> None:
        assert visible(text) == shown

    def test_keeps_lines_where_asked(self) -> None:
        assert visible("a\r\n\tb\rc", multiline=True) == "a\n\tb␍c"

    def test_cuts_and_tells_the_length(self) -> None:
        assert visible("x" * 1_000_000, 5) == "xxxxx… (1,000,000 characters in all)"

    @given(st.text(st.characters(exclude_categories=()), max_size=300), st.integers(1, 300))
    def test_anything_becomes_ink_of_bounded_length(self, text: str, limit: int) -> None:
        shown = visible(text, limit)
        assert all(character.isprintable() for character in shown)
        assert not any(
            unicodedata.bidirectional(c) in ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
            for c in shown
        )
        assert len(shown) <= 10 * limit + 40
        shown.encode()

    def test_values_times_and_dates(self) -> None:
        assert [duration(s) for s in (0.04, 4.21, 42.4, 192, 3900, None, nan, inf, -1)] == [
            "40 ms", "4.2 s", "42 s", "3 min 12 s", "1 h 05 min", "–", "–", "–", "–",
        ]  # fmt: skip
        assert [clock(s) for s in (0, 7.31, 59.96, 600, nan, -1, 1e12)] == [
            "0:00.0",
            "0:07.3",
            "1:00.0",
            "10:00.0",
            "–",
            "–",
            "–",
        ]
        assert moment(datetime(2026, 11, 29, 21, 0, tzinfo=timezone(timedelta(hours=1)))) == "2026-11-29 20:00:00 UTC"
        assert moment(datetime(2026, 11, 29, 21, 0)) == "2026-11-29 21:00:00"  # noqa: DTZ001 - that is the point
        assert moment(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=9)))).startswith("0001-01-01")
        nested: list[object] = []
        for _ in range(100_000):
            nested = [nested]
        assert plain(nested) == "(a value that cannot be shown)"
        assert [plain(v) for v in ("a", None, True, {"a": [1]})] == ["a", "null", "true", '{"a": [1]}']


class TestWords:
    def test_every_outcome_has_letters_and_its_colour(self) -> None:
        assert {o.letters: o.colour for o in OUTCOMES.values()} == {
            "VS": "#009E73", "VF": "#56B4E9", "IS": "#D55E00", "IF": "#E69F00", "unscored": "#999999",
        }  # fmt: skip

    def test_unknown_kinds_and_causes_are_told_as_they_are(self) -> None:
        verdict = verdicts(1)["IS phantom"]
        assert kind_words(verdict) == "claimed, but not done"
        assert kind_words(verdict.model_copy(update={"kind": "brand_new"})) == "brand new"
        unscored = verdicts(1)["unscored"]
        assert kind_words(unscored.model_copy(update={"cause": None})) == CAUSES["unknown"]


class TestInputs:
    def test_movements_and_keystrokes_are_joined(self) -> None:
        table = read_inputs(input_log().encode())
        assert [(row.what, row.detail) for row in table.rows[:6]] == [
            ("client connected", ""),
            ("pointer moved", "to 339, 200 (40 movements)"),
            ("pointer down", "left at 340, 200"),
            ("pointer up", "left at 340, 200"),
            ("key", "M"),
            ("key", "u"),
        ]
        assert table.rows[-1].what == "input cut off"
        assert (table.more, table.unreadable, table.dropped, table.complete) == (0, 0, 0, True)

    def test_joined_movements_and_marks_are_told(self) -> None:
        lines = [
            {"t": 1, "kind": "pointer", "client": 1, "x": 1, "y": 1, "buttons": 0, "moves": 20},
            {"t": 2, "kind": "pointer", "client": 1, "x": 2, "y": 2, "buttons": 0},
            {"t": 3, "kind": "log_full", "client": 0, "reason": "from here on, keys are counted but not kept"},
            {"t": 4, "kind": "log_full", "client": 0},
        ]
        table = read_inputs("\n".join(map(json.dumps, lines)).encode())
        assert [(row.what, row.detail) for row in table.rows] == [
            ("pointer moved", "to 2, 2 (21 movements)"),
            ("log full", "from here on, keys are counted but not kept"),
            ("log full", "later events are only counted"),
        ]

    def test_is_bounded_and_counts_the_rest(self) -> None:
        table = read_inputs(input_log().encode(), 10)
        assert len(table.rows) == 10
        lines = input_log().splitlines()
        assert 0 < table.more < len(lines)
        assert "".join(row.detail for row in table.rows[4:]) == "Muster"

    @pytest.mark.parametrize(
        "line",
        [b"nonsense", b"[1]", b"[" * 100_000, b'{"t": ' + b"9" * 5000 + b"}", b"\xff\xfe", b"x" * 100_000],
    )
    def test_damaged_lines_are_counted(self, line: bytes) -> None:
        table = read_inputs(line + b'\n{"t": 1, "kind": "key", "down": true, "name": "a"}\n')
        assert table.unreadable == 1
        assert [(row.what, row.detail) for row in table.rows] == [("key down", "a")]
        assert not table.complete

    @given(st.lists(st.dictionaries(
        st.sampled_from(["t", "kind", "client", "down", "name", "x", "y", "buttons", "text", "reason", "record", "dropped"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["key", "pointer", "end"]),
                  st.lists(st.integers(), max_size=2)),
    )))  # fmt: skip
    def test_any_objects_are_survived(self, entries: list[dict[str, object]]) -> None:
        table = read_inputs("\n".join(json.dumps(entry) for entry in entries).encode(), 20)
        assert len(table.rows) <= 20
        for row in table.rows:
            clock(row.t)

    def test_nothing_at_all(self) -> None:
        assert read_inputs(b"").rows == []


class TestEvidence:
    def test_a_blob_must_be_what_its_name_says(self) -> None:
        blobs = Blobs()
        name = blobs.add(b"content")
        assert fetch(blobs, name) == b"content"
        blobs.content[name] = b"other"
        for wrong in (name, "0" * 64, "../../etc/passwd", ""):
            with pytest.raises(MissingEvidence):
                fetch(blobs, wrong)

    def test_only_pictures_become_pictures(self, tmp_path: Path) -> None:
        blobs = Blobs()
        pictures = Pictures(tmp_path, blobs)
        for data in (b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"", screen(1)[:300], b"GIF89a"):
            assert isinstance(pictures.add(blobs.add(data)), str)
        good = pictures.add(blobs.add(screen(1)))
        assert not isinstance(good, str)
        assert (tmp_path / good.full).read_bytes() == screen(1)
        assert (tmp_path / good.thumbnail).stat().st_size < 8_000
        assert (good.width, good.height) == (240, 180)


class TestPacking:
    PAGES: ClassVar = [
        RunPage(f"{n}.html", f"<head {n}>", f"<p>{'body ' * 50}{n} äöü</p>", "</end>") for n in range(40)
    ]

    def written(self, folder: Path, limit: int) -> Path:
        writer = PageWriter(folder / "runs", folder / "dictionary.js", limit)
        for page in self.PAGES:
            writer.add(page)
        writer.close()
        assert len(list((folder / "runs").iterdir())) == len(self.PAGES)
        return folder

    def test_few_pages_stay_plain(self, tmp_path: Path) -> None:
        folder = self.written(tmp_path, 1_000_000)
        assert (folder / "runs" / "7.html").read_text() == "".join(
            (self.PAGES[7].head, self.PAGES[7].body, self.PAGES[7].tail)
        )
        assert not (folder / "dictionary.js").exists()

    @pytest.mark.parametrize("limit", [0, 5_000])
    def test_many_are_packed_against_a_dictionary(self, tmp_path: Path, limit: int) -> None:
        folder = self.written(tmp_path, limit)
        declared = (folder / "dictionary.js").read_text("ascii")
        dictionary = json.loads(declared.removeprefix("window.legacyproofDictionary = ").removesuffix(";\n"))
        for page in self.PAGES:
            text = (folder / "runs" / page.name).read_text()
            packed = re.search(r'<div id="packed" hidden>([A-Za-z0-9+/=]+)</div>', text)
            assert packed is not None
            assert text.startswith(page.head)
            stream = base64.b64decode(dictionary["deflated"]) + base64.b64decode(packed[1])
            assert zlib.decompress(stream, -15)[dictionary["length"] :].decode() == page.body


class TestTables:
    @staticmethod
    def rendered(records: list[RunRecord], width: int = 100, **options: object) -> str:
        console = Console(
            file=io.StringIO(), width=width, force_terminal=bool(options), color_system="truecolor" if options else None
        )
        console.print(outcome_table(records))
        file = console.file
        assert isinstance(file, io.StringIO)
        return file.getvalue()

    def test_is_readable_at_100_columns_without_colour(self) -> None:
        text = self.rendered(campaign(Blobs()))
        assert max(map(len, text.splitlines())) <= 100
        assert "\x1b" not in text
        flat = re.sub(r"\s+", " ", text)
        for words in (
            "add-new-patient",
            "legacy-use",
            "instruction",
            "VS",
            "VF",
            "IS",
            "IF",
            "unscored",
            "wrong effect",
            "unreadable",
        ):
            assert words in flat
        assert "14 runs: VS 5 · VF 2 · IS 4 · IF 2 · unscored 1 (the state could not be read 1)" in flat
        assert "atomicity 7/13 (53.8 %) — as intended 4/5 — superseded 1" in flat

    @pytest.mark.parametrize("width", [24, 40, 60, 79, 80, 94, 95, 100, 140, 250])
    def test_every_run_has_its_outcome_agent_and_reason_at_any_width(self, width: int) -> None:
        for kept in campaign(Blobs()):
            agent = kept.agent.model_copy(update={"name": "bot"})
            record = kept.model_copy(update={"agent": agent, "superseded": False})
            text = self.rendered([record], width=width)
            assert max(map(len, text.splitlines())) <= width
            reason = tables._shortened(tables._why(visible(record.verdict.reason)), 160)
            words = iter(text.split())
            wanted = [OUTCOMES[record.verdict.outcome].letters, "bot", *(reason.split() if width >= 95 else [])]
            assert all(word in words for word in wanted), text
            if width < 95:  # lines of its own, whole
                assert reason.replace(" ", "") in re.sub(r"\s", "", text)

    def test_colours_are_those_of_the_outcomes(self) -> None:
        assert "\x1b[1;38;2;213;94;0mIS" in self.rendered([sample(Blobs(), 1, "IS phantom")], colour=True)

    def test_data_is_neither_markup_nor_control(self) -> None:
        record = sample(Blobs())
        agent = record.agent.model_copy(update={"name": "[red]\x1b[2J\u202e[/]"})
        text = self.rendered([record.model_copy(update={"agent": agent})], width=200)
        assert "[red]␛[2J⟨U+" in text
        assert "\x1b" not in text

    def test_no_runs(self) -> None:
        assert "0 runs" in self.rendered([])

    def test_intentions(self) -> None:
        record = sample(Blobs()).model_copy(update={"intended": Intended(outcome="valid_success")})
        assert summary_line([record]).endswith("atomicity 1/1 (100.0 %) — as intended 1/1")
