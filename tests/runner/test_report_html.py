"""The report's folder: what is written, how it is put in place, and that nothing in a record becomes markup."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from runner.record import (
    BlindSpots,
    DiskFile,
    Intended,
    Missing,
    RegistryGroup,
    RegistrySpots,
    ReturnProblem,
    RunRecord,
    StageSeen,
    Stillness,
    VerdictPart,
)
from runner.report.html import ReportError, write_report
from runner.report.words import CAUSES
from tests.runner.stored_runs import campaign_in
from tests.runner.test_report_samples import Blobs, campaign, counted, many, sample

Structure = dict[str, list[tuple[str, tuple[str, ...]]]]
"""Elements and the names of their attributes, by sort of page."""

WHEN = datetime(2026, 11, 29, 21, 0, tzinfo=UTC)

HOSTILE = [
    "<script>alert(1)</script>",
    "</script><img src=x onerror=alert(1)>",
    "\"><svg onload=alert(1)>'",
    "' onmouseover='alert(1)",
    "<!--body--><!--tail-->-->",
    "</template></table></title></style><base href=//evil.example>",
    "{{ 7 * 7 }}{% raw %}${alert(1)}`",
    "javascript:alert(1)",
    "../../../../etc/passwd",
    "invoice\u202efdp.exe\u2066\u200f",
    "a\x00b\x1b[31mc\x08\x7f\x85",
    "lone \ud800 and \udfff surrogates",
    "עברית العربية",
    "&lt;b&gt;&amp;amp;",
    "\u2028\u2029\ufeff\ufffe\U0010ffff",
    "x" * 1_000_000,
    "<i>" * 400_000,
    "con",
    ".",
    "a/b\\c:d*e?f|g",
]


def poison(value: Any, text: str) -> Any:
    """The value with every text that is not one of a few fixed ones replaced, unchecked."""
    if isinstance(value, BaseModel):
        changes = {}
        for name, field in type(value).model_fields.items():
            content = getattr(value, name)
            if "Literal" not in str(field.annotation):
                changes[name] = poison(content, text)
        return value.model_copy(update=changes)
    if isinstance(value, str):
        return text
    if isinstance(value, list):
        return [poison(item, text) for item in value]
    if isinstance(value, dict):
        return {f"{text}{number}": poison(item, text) for number, item in enumerate(value.values())}
    return value


def full_records(blobs: Blobs) -> list[RunRecord]:
    """Runs in which every list and every optional part is filled."""
    records = campaign(blobs)[:12]
    spots = BlindSpots(
        how="h",
        drives=["C"],
        left_out_disks=["vda"],
        files=[DiskFile(path="p", kind="k", what=["w"], old_path="o", stream="s")],
        unseen=["u"],
        registry=RegistrySpots(
            groups=[RegistryGroup(key="k", keys=1, volatile="v", examples=["e"])], unread=["r"], how="h"
        ),
    )
    filled = {"faults": ["fault"], "intended": Intended(outcome="valid_success", kind="x"), "blind_spots": spots}
    filled["machine_notes"] = ["note"]
    filled["stages"] = [StageSeen(name="n", seen=seen, evidence="e") for seen in (True, False, None)]
    full = [record.model_copy(update=filled) for record in records]
    return [record.model_copy(update={"verdict": with_consequences(record.verdict)}) for record in full]


def with_consequences(verdict: VerdictPart) -> VerdictPart:
    """The verdict, where something is missing, with a change, an expectation and a returned value that follow from it."""
    if not verdict.missing:
        return verdict
    cause = verdict.missing[0].effect
    entry = counted("unexplained", 10_483).model_copy(update={"cause": cause})
    follows = Missing(effect="updated counters (c)", observable="counters", verb="updated", count=2, cause=cause)
    problem = ReturnProblem(path="n", expected="e", found="f", message="m", cause=cause)
    more = {"ledger": [*verdict.ledger, entry], "missing": [*verdict.missing, follows], "returns": [problem]}
    return verdict.model_copy(update=more)


class Page(HTMLParser):
    """A page's elements with their attributes' names, its addresses, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.addresses: list[str] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.feed(path.read_text("utf-8"))
        self.close()

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", "".join(self.texts))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.addresses += [value or "" for name, value in attrs if name in ("href", "src")]
        self.texts += [value or "" for name, value in attrs if name in ("title", "alt", "aria-label")]
        if tag not in ("meta", "link", "img", "input"):
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1:] == [tag], f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def write(tmp_path: Path, records: list[RunRecord], blobs: Blobs, title: str = "Acceptance", **options: Any) -> Path:
    return write_report(records, blobs, tmp_path / "report", title=title, generated=WHEN, **options)


def pages(folder: Path) -> Iterator[Path]:
    return (path for path in sorted(folder.rglob("*.html")))


class TestTheRestOfTheDisk:
    def page(self, tmp_path: Path, spots: BlindSpots | None) -> str:
        blobs = Blobs()
        record = campaign(blobs)[0].model_copy(update={"blind_spots": spots})
        folder = write(tmp_path, [record], blobs).parent
        (page,) = [path for path in pages(folder) if record.run in str(path)]
        return Page(page).text

    def test_a_file_that_nothing_observes_is_named(self, tmp_path: Path) -> None:
        file = DiskFile(path=r"C:\Users\rezeption\export.csv", kind="created", what=["data"], size=1234)
        text = self.page(
            tmp_path,
            BlindSpots(
                how="frozen disk", drives=["C"], left_out_disks=["vda"], observed=2, system=3, files=[file], left_out=7
            ),
        )
        assert r"C:\Users\rezeption\export.csvcreateddata1,234" in text
        assert "2 changed files are observed by the contract, 3 are the system's own books" in text
        assert "7 more files" in text
        assert "Drive C was compared with the checkpoint, whole (frozen disk)" in text
        assert "Not looked at: the disk vda" in text

    def test_a_disk_that_could_not_be_looked_at_is_told(self, tmp_path: Path) -> None:
        assert "It could not be looked at: bad magic" in self.page(tmp_path, BlindSpots(unreadable="bad magic"))

    def test_without_an_audit_nothing_is_said(self, tmp_path: Path) -> None:
        assert "The rest of the" not in self.page(tmp_path, None)

    def test_what_could_not_be_seen_and_since_when_is_told(self, tmp_path: Path) -> None:
        spots = BlindSpots(how="h", drives=["C"], compared_with="yesterday", unseen=["the drive D:", "the drive E:"])
        text = self.page(tmp_path, spots)
        assert "Drive C was compared with yesterday, whole (h). Not looked at: the drive D:; the drive E:." in text
        assert "The rest of the registry" not in text

    def test_keys_that_nothing_observes_are_named_in_groups(self, tmp_path: Path) -> None:
        groups = [
            RegistryGroup(
                key=r"HKCU\Software\Praxis", keys=9, created=2, modified=3, deleted=4, examples=["one", "two"]
            ),
            RegistryGroup(
                key=r"HKCU\Software\X\MRU", keys=1, modified=1, volatile="what was used last", examples=["m"]
            ),
        ]
        registry = RegistrySpots(observed=5, groups=groups, left_out=6)
        text = self.page(tmp_path, BlindSpots(how="h", drives=["C"], registry=registry))
        assert "5 changed keys are observed by the contract" in text
        assert r"HKCU\Software\Praxis2 new, 3 changed, 4 goneone two and 7 more" in text
        assert r"HKCU\Software\X\MRU changes by itself: what was used last1 changedm" in text
        assert "6 more keys" in text

    def test_parts_of_the_registry_that_were_not_compared_are_told(self, tmp_path: Path) -> None:
        registry = RegistrySpots(unread=["HKLM\\SAM: damaged"], how="as its hives lay there")
        text = self.page(tmp_path, BlindSpots(how="h", drives=["C"], registry=registry))
        assert r"Not compared: HKLM\SAM: damaged" in text
        assert "It was compared as its hives lay there. 0 changed keys" in text
        assert "No key changed elsewhere that" in text

    def test_a_registry_that_could_not_be_looked_at_is_told_beside_the_files(self, tmp_path: Path) -> None:
        spots = BlindSpots(how="h", drives=["C"], registry=RegistrySpots(unreadable="not written out"))
        text = self.page(tmp_path, spots)
        assert "Drive C was compared" in text
        assert "It could not be looked at: not written out" in text
        assert "No key changed" not in text
        nothing = self.page(tmp_path / "other", BlindSpots(how="h", drives=["C"], registry=RegistrySpots()))
        assert "No key changed that the contract does not look at" in nothing


class TestAStateThatNeverCameToRest:
    def page(self, tmp_path: Path, settled: bool, still: Stillness | None) -> str:
        blobs = Blobs()
        record = campaign(blobs)[0]
        assert record.after is not None
        after = record.after.model_copy(update={"settled": settled})
        record = record.model_copy(update={"after": after, "stillness": still})
        folder = write(tmp_path, [record], blobs).parent
        (page,) = [path for path in pages(folder) if record.run in str(path)]
        return Page(page).text

    def test_it_is_told_beside_the_verdict_before_everything_else(self, tmp_path: Path) -> None:
        still = Stillness(asked=3, reached=False, waited=15.2, last_change=14.9)
        text = self.page(tmp_path, False, still)
        told = text.index("was to be quiet for 3 s and was not within 15 s, and the last change was seen after 14.9 s")
        assert told < text.index("Claim and state")

    def test_it_is_told_of_records_that_do_not_say_how_long_was_waited(self, tmp_path: Path) -> None:
        assert "The state was still changing when it was read" in self.page(tmp_path, False, None)

    def test_a_final_state_needs_no_words(self, tmp_path: Path) -> None:
        text = self.page(tmp_path, True, Stillness(asked=3, reached=True, waited=3.2))
        assert "still changing" not in text


class TestHowFarARunCame:
    def page(self, tmp_path: Path, stages: list[StageSeen]) -> str:
        blobs = Blobs()
        record = campaign(blobs)[0].model_copy(update={"stages": stages})
        folder = write(tmp_path, [record], blobs).parent
        (page,) = [path for path in pages(folder) if record.run in str(path)]
        return Page(page).text

    def test_each_stage_is_told(self, tmp_path: Path) -> None:
        answers = {"first_step": True, "second": False, "third": None}
        stages = [StageSeen(name=name, seen=seen, evidence=f"E-{name}") for name, seen in answers.items()]
        text = self.page(tmp_path, stages)
        assert re.search("How far it came.*first step.*E-first_step.*seen.*second.*not seen.*third.*not known", text)

    def test_without_stages_nothing_is_said(self, tmp_path: Path) -> None:
        assert "How far it came" not in self.page(tmp_path, [])


class TestInputThatIsNotKept:
    def page(self, tmp_path: Path, **recording: Any) -> str:
        blobs = Blobs()
        record = campaign(blobs)[0]
        changed = record.model_copy(update={"recording": record.recording.model_copy(update=recording)})
        folder = write(tmp_path, [changed], blobs).parent
        (page,) = [path for path in pages(folder) if changed.run in str(path)]
        return Page(page).text

    def test_it_is_told_as_not_known(self, tmp_path: Path) -> None:
        text = self.page(tmp_path, not_kept={"key": 1234, "pointer": 5})
        assert re.search(
            "not known: 1,234 key events, 5 pointer events. What was typed with them is missing below", text
        )

    def test_what_was_typed_is_whole_without_the_pointer(self, tmp_path: Path) -> None:
        text = self.page(tmp_path, not_kept={"pointer": 5})
        assert "5 pointer events" in text
        assert "missing below" not in text

    def test_a_log_that_could_not_be_written_is_told(self, tmp_path: Path) -> None:
        text = self.page(
            tmp_path, fault="the input log cannot be written: [Errno 28] No space left on device", events=None
        )
        assert "The log of events is not whole: the input log cannot be written" in text

    def test_of_a_whole_log_nothing_is_said(self, tmp_path: Path) -> None:
        text = self.page(tmp_path)
        assert "not known:" not in text
        assert "not whole" not in text


class TestConsequences:
    """One wrong field in a new row, to which the counter and the returned number refer: one fault, told once."""

    @staticmethod
    def told(tmp_path: Path, change: Callable[[VerdictPart], VerdictPart] = lambda verdict: verdict) -> Page:
        campaign = campaign_in(tmp_path / "runs")
        (wrong,) = (record for record in campaign.records() if record.run.endswith(".wrong"))
        record = wrong.model_copy(update={"verdict": change(wrong.verdict)})
        index = write_report([record], campaign.blob, tmp_path / "report", title="A", generated=WHEN)
        (page,) = (index.parent / "runs").iterdir()
        return Page(page)

    def test_they_stand_under_their_cause_and_nowhere_else(self, tmp_path: Path) -> None:
        text = self.told(tmp_path).text
        ledger = text[text.index("Ledger: every change") : text.index("Evidence", text.index("Ledger: every change"))]
        missing, unexplained = ledger.split("Unexplained 2", 1)
        assert "3 more deviations follow from it, and would be right if it were" in missing
        assert "1 follows from a near miss, and is shown under it." in unexplained
        for words in ("missing updated counters", "unexplained updated counters NAME=PATIENT", "“000104” instead of"):
            assert words in missing
            assert words.removeprefix("unexplained ") not in unexplained
        assert "Returned values that are not right" not in text
        assert "What is wrong with the returned values follows from what came closest" in text
        assert "Side effects: row added." in text

    def test_the_strict_counts_name_them(self, tmp_path: Path) -> None:
        text = self.told(tmp_path).text
        assert "0 expected, 1 allowed, 2 unexplained, 0 forbidden. There are 2 expectations that nothing fills." in text
        assert "Of all this, 1 change, 1 expectation and 1 returned value only follow from what came closest" in text
        assert "Missing 2" in text

    def test_the_words_of_an_effect_stand_once(self, tmp_path: Path) -> None:
        text = self.told(tmp_path).text
        assert "inserted patients new_patient Came closest: PATNR=000104" in text
        assert "inserted patients PATNR=000104 came closest to new_patient" in text
        assert "(new_patient)" not in text.replace("instead of the PATNR of new_patient", "")

    def test_a_record_without_causes_is_shown_as_it_is(self, tmp_path: Path) -> None:
        """Records of versions that did not look for causes hold none."""

        def old(verdict: VerdictPart) -> VerdictPart:
            return VerdictPart.model_validate(_without(verdict.model_dump(mode="json"), "cause"))

        text = self.told(tmp_path, old).text
        assert "follows from" not in text
        assert "Returned values that are not right" in text
        assert "updated counters NAME=PATIENT" in text

    def test_a_cause_that_is_not_shown_hides_nothing(self, tmp_path: Path) -> None:
        def lost(verdict: VerdictPart) -> VerdictPart:
            return verdict.model_copy(update={"missing": [part for part in verdict.missing if part.cause is not None]})

        text = self.told(tmp_path, lost).text
        assert "updated counters NAME=PATIENT follows from inserted patients (new_patient)" in text
        assert "Returned values that are not right" in text


def _without(value: Any, name: str) -> Any:
    if isinstance(value, dict):
        return {key: _without(item, name) for key, item in value.items() if key != name}
    return [_without(item, name) for item in value] if isinstance(value, list) else value


class TestContent:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        blobs = Blobs()
        return write(tmp_path, campaign(blobs), blobs).parent

    def test_index_has_figures_with_their_numbers(self, folder: Path) -> None:
        text = Page(folder / "index.html").text
        assert "Of 13 runs that were judged, 7 did exactly what they should or left no trace; 6 claimed" in text
        for words in (
            "53.8 % 7/13",
            "95 % interval 29.1–76.8 %",
            "46.2 % 6/13",
            "38.5 % 5/13",
            "of 14 runs",
            "80.0 % 4/5",
        ):
            assert words in text
        assert "All runs: 5 valid success, 2 valid failure, 4 invalid success, 2 invalid failure, 1 unscored" in text
        assert "legacy-use video prompt: 1 valid success, 0 valid failure" in text
        assert "dentadesk (wine, 14 runs)" in text
        assert "✗ meant VS" in text

    def test_superseded_attempts_stand_apart(self, folder: Path) -> None:
        html = (folder / "index.html").read_text()
        table, apart = html.split('id="h-superseded"')
        assert "expert-0040" not in table
        assert "video-0040" in apart
        data = json.loads(
            (folder / "data" / "runs.js")
            .read_text("ascii")
            .removeprefix("window.legacyproofRuns = ")
            .removesuffix(";\n")
        )
        assert len(data["rows"]) == 14

    def test_run_page_tells_the_misfit(self, folder: Path) -> None:
        text = Page(folder / "runs" / "add-new-patient-scripted-wrong-field-expert-0002.html").text
        for words in (
            "Invalid success",
            "patients.VERSNR holds 4212505 instead of 1234567890",
            "✓ As intended: the script means IS, wrong effect.",
            "The state contradicts it",
            "The patient was saved under number 10483.",
            "Came closest: PATNR 10483",
            "4212505 expected 1234567890",
            "1 expected, 1 allowed, 1 unexplained, 0 forbidden",
            "the counter follows the patient number",
            "Because: the program's own log",
            "Muster⇥Erika⇥12081964⇥4212505",
            "to 339, 200 (40 movements)",
            "I see the list of patients",
            "scratch files",
            "header date",
            "Register a new patient",
            "00000002 read back",
            "by key PATNR",
            "memo absent",
        ):
            assert words in text, words

    def test_run_pages_are_chained(self, folder: Path) -> None:
        page = "add-new-patient-scripted-golden-expert-0001.html"
        seen = []
        while page:
            seen.append(page)
            found = re.search(r'rel="next" href="([^"]+)"', (folder / "runs" / page).read_text())
            page = found[1] if found else ""
        assert sorted(seen) == sorted(path.name for path in (folder / "runs").iterdir())

    def test_every_address_leads_to_a_file(self, folder: Path) -> None:
        for path in pages(folder):
            for address in Page(path).addresses:
                if not address.startswith("#"):
                    assert (path.parent / address).is_file(), (path, address)

    def test_pictures_and_texts_are_stored_once(self, folder: Path) -> None:
        assert len(list((folder / "frames").glob("*.png"))) == len(list((folder / "frames").glob("*.webp"))) == 6
        assert len(list((folder / "texts").iterdir())) == 2

    def test_pages_are_well_formed_and_their_headings_in_order(self, folder: Path) -> None:
        for path in pages(folder):
            page = Page(path)
            assert page.open == []
            levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch(r"h[1-6]", tag)]
            assert levels[0] == 1
            assert levels.count(1) == 1
            assert all(after <= before + 1 for before, after in itertools.pairwise(levels)), path

    def test_policy_and_no_inline_code(self, folder: Path) -> None:
        for path in pages(folder):
            html = path.read_text()
            assert (
                "content=\"default-src 'none'; img-src 'self' file:; style-src 'self' file:; script-src 'self' file:;"
                in html
            )
            assert re.search(r"<script(?! src=)|<style|\sstyle=|\son\w+=|https?:", html) is None


class TestCauses:
    @pytest.mark.parametrize("cause", [*CAUSES, None, "brand_new"])
    def test_every_cause_of_an_unscored_run(self, tmp_path: Path, cause: str | None) -> None:
        verdict = VerdictPart(outcome="unscored", cause=cause, reason="It could not be judged.")
        record = sample(Blobs()).model_copy(
            update={"verdict": verdict, "before": None, "after": None, "freshness": None, "timings": {}}
        )
        blobs = Blobs()
        folder = write(tmp_path, [record], blobs).parent
        text = Page(folder / "index.html").text
        assert "Nothing could be judged. 1 run could not be judged." in text
        assert "– 0/0" in text
        words = CAUSES.get(cause or "unknown", "brand new")
        assert f"{words}: 1" in text
        run = Page(next((folder / "runs").iterdir())).text
        assert words in run
        assert "no change is accounted for" in run
        assert "no proof recorded" in run
        assert "the text is not among the stored evidence" in run

    def test_empty_campaign(self, tmp_path: Path) -> None:
        index = write(tmp_path, [], Blobs())
        assert "No runs were counted" in Page(index).text
        assert list((index.parent / "runs").iterdir()) == []

    def test_only_superseded_runs(self, tmp_path: Path) -> None:
        blobs = Blobs()
        index = write(tmp_path, [sample(blobs).model_copy(update={"superseded": True})], blobs)
        assert "No runs were counted" in Page(index).text
        assert "1 attempt was repeated" in Page(index).text


class TestHostileTexts:
    @pytest.fixture(scope="class")
    @classmethod
    def harmless(cls, tmp_path_factory: pytest.TempPathFactory) -> Structure:
        """The structure of a report in which every text is an x."""
        return cls.structure(cls.poisoned(tmp_path_factory.mktemp("harmless"), "x"))

    @staticmethod
    def poisoned(tmp_path: Path, text: str) -> Path:
        blobs = Blobs()
        records = [poison(record, text) for record in full_records(blobs)]
        # Hashes stay, so that pictures, texts and logs are on the pages, too; their contents are hostile.
        records[:3] = [
            record.model_copy(
                update={
                    "recording": record.recording.model_copy(
                        update={
                            "frames": original.recording.frames,
                            "events": blobs.add(json.dumps({"t": 1, "kind": "clipboard", "text": text[:9000]})),
                        }
                    ),
                    "agent": record.agent.model_copy(
                        update={"prompt_text": blobs.add(f"1{text}".encode("utf-8", "surrogatepass"))}
                    ),
                    "contract": record.contract.model_copy(
                        update={"source": blobs.add(f"2{text}".encode("utf-8", "surrogatepass"))}
                    ),
                }
            )
            for record, original in zip(records[:3], full_records(Blobs())[:3], strict=True)
        ]
        full_records(blobs)  # puts the pictures there
        return write(tmp_path, records, blobs, title=text).parent

    @staticmethod
    def structure(folder: Path) -> Structure:
        """Elements of each sort of page: the index, the runs in order, the texts."""
        runs: list[tuple[str, tuple[str, ...]]] = []
        first = next(p for p in (folder / "runs").iterdir() if 'rel="prev"' not in p.read_text())
        page: str | None = first.name
        while page:
            parsed = Page(folder / "runs" / page)
            runs += parsed.elements
            found = re.search(r'rel="next" href="([^"]+)"', (folder / "runs" / page).read_text())
            page = found[1] if found else None
        texts = [element for path in sorted((folder / "texts").iterdir()) for element in Page(path).elements]
        return {"index": Page(folder / "index.html").elements, "runs": runs, "texts": texts}

    def check(self, folder: Path, harmless: Structure) -> None:
        assert self.structure(folder) == harmless
        for path in pages(folder):
            html = path.read_bytes().decode("utf-8")
            assert all(character.isprintable() or character in "\n\t" for character in html)
            assert len(html) < 6_000_000
            for address in Page(path).addresses:
                assert re.fullmatch(
                    r"#|#h-[a-z]+|(\.\./)?((runs|frames|texts|assets|data)/)?[A-Za-z0-9._-]+\.\w+", address
                ), address
        (folder / "data" / "runs.js").read_text("ascii")

    @pytest.mark.parametrize("text", HOSTILE, ids=lambda text: ascii(text[:24]))
    def test_add_no_element_and_no_attribute(self, tmp_path: Path, text: str, harmless: Structure) -> None:
        self.check(self.poisoned(tmp_path, text), harmless)

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(text=st.text(st.characters(exclude_categories=()), min_size=1, max_size=40))
    def test_whatever_they_are(self, tmp_path_factory: pytest.TempPathFactory, text: str, harmless: Structure) -> None:
        self.check(self.poisoned(tmp_path_factory.mktemp("any"), text), harmless)

    def test_run_names_never_collide_nor_leave_the_folder(self, tmp_path: Path) -> None:
        blobs = Blobs()
        names = ["a", "A", "a", "..", "/etc/passwd", "con", "NUL.txt", "x" * 300, "", " ", "a.", "\ud800"]
        records = [sample(blobs, n).model_copy(update={"run": name}) for n, name in enumerate(names)]
        folder = write(tmp_path, records, blobs).parent
        written = [path.name.lower() for path in (folder / "runs").iterdir()]
        assert len(set(written)) == len(names)
        assert not {"con.html", "nul.txt.html"} & set(written)

    def test_long_lists_are_bounded_and_counted(self, tmp_path: Path) -> None:
        blobs = Blobs()
        record = sample(blobs, 1, "IS wrong_effect")
        entry = record.verdict.ledger[0]
        entry = entry.model_copy(update={"fields": entry.fields * 100})
        update = {"ledger": [entry.model_copy(update={"fields": []})] * 5_000 + [entry], "warnings": ["w"] * 5_000}
        record = record.model_copy(
            update={"verdict": record.verdict.model_copy(update=update), "faults": ["f"] * 5_000}
        )
        folder = write(tmp_path, [record], blobs).parent
        page = next((folder / "runs").iterdir())
        assert page.stat().st_size < 300_000
        assert "4,801 more changes are not shown here" in Page(page).text
        assert "4,950 more faults are not shown here" in Page(page).text


def test_ten_thousand_runs_stay_below_20_megabytes(tmp_path: Path) -> None:
    blobs = Blobs()
    folder = write(tmp_path, list(many(blobs, 300)), blobs, plain_limit=0).parent
    grows = [*(folder / "runs").iterdir(), folder / "data" / "runs.js"]
    assert sum(path.stat().st_size for path in grows) / 300 * 10_000 < 20_000_000


class TestReplacing:
    def test_an_older_report_is_replaced(self, tmp_path: Path) -> None:
        blobs = Blobs()
        write(tmp_path, [sample(blobs, 1)], blobs)
        folder = write(tmp_path, [sample(blobs, 2)], blobs).parent
        assert [path.name for path in (folder / "runs").iterdir()] == [
            "add-new-patient-scripted-golden-expert-0002.html"
        ]
        assert [path.name for path in tmp_path.iterdir()] == ["report"]

    def test_an_empty_folder_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "report").mkdir()
        assert write(tmp_path, [], Blobs()).is_file()

    def test_nothing_else_is_ever_replaced(self, tmp_path: Path) -> None:
        (tmp_path / "report").mkdir()
        (tmp_path / "report" / "index.html").write_text("<title>My thesis</title>")
        with pytest.raises(ReportError, match="other things than a report"):
            write(tmp_path, [], Blobs())
        assert (tmp_path / "report" / "index.html").read_text() == "<title>My thesis</title>"
        (tmp_path / "file").write_text("")
        with pytest.raises(ReportError, match="no folder"):
            write_report([], Blobs(), tmp_path / "file", title="", generated=WHEN)

    def test_a_failure_leaves_the_old_report(self, tmp_path: Path) -> None:
        blobs = Blobs()
        write(tmp_path, [sample(blobs, 1)], blobs)

        def broken() -> Iterator[RunRecord]:
            yield sample(blobs, 2)
            raise RuntimeError("the record is damaged")

        with pytest.raises(RuntimeError, match="damaged"):
            write_report(broken(), blobs, tmp_path / "report", title="", generated=WHEN)
        assert [path.name for path in tmp_path.iterdir()] == ["report"]
        assert [path.name for path in (tmp_path / "report" / "runs").iterdir()] == [
            "add-new-patient-scripted-golden-expert-0001.html"
        ]

    def test_missing_evidence_is_told(self, tmp_path: Path) -> None:
        blobs = Blobs()
        record = sample(blobs, pictures=True, events=True)
        name = record.recording.frames[0].image
        blobs.content[name] = b"tampered"
        assert record.recording.events is not None
        del blobs.content[record.recording.events]
        folder = write(tmp_path, [record], blobs).parent
        text = Page(next((folder / "runs").iterdir())).text
        assert "No picture: the stored content does not match its hash" in text
        assert "The log of events cannot be shown: it is not among the stored evidence." in text
