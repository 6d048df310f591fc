"""The report in a real browser, from disk: it works, asks nothing of any network, runs nothing of what it shows, and is readable."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request, expect, sync_playwright

from runner.report.html import write_report
from tests.runner.stored_runs import campaign_in
from tests.runner.test_report_html import HOSTILE, full_records, poison
from tests.runner.test_report_samples import Blobs, campaign, many

CHROMIUM = "/usr/bin/chromium"
WHEN = datetime(2026, 11, 29, 21, 0, tzinfo=UTC)
WRONG = "runs/add-new-patient-scripted-wrong-field-expert-0002.html"

CONTRASTS = """() => {
  const channel = (value) => (value /= 255) <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const numbers = (color) => color.match(/[\\d.]+/g).map(Number);
  const ground = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      if (style.backgroundImage !== 'none') return [153, 153, 153];
      const color = numbers(style.backgroundColor);
      if (color.length === 3 || color[3] === 1) return color;
    }
    return [255, 255, 255];
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.data.trim() || element.closest('svg, script, template, noscript, :disabled') || !element.checkVisibility()) continue;
    const [a, b] = [numbers(getComputedStyle(element).color), ground(element)].map(luminance).sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${element.tagName}.${element.className}: ${node.data.trim().slice(0, 40)}`);
  }
  return poor;
}"""


class Watch:
    """A page that must not complain, open a dialogue, or ask for anything but files."""

    def __init__(self, context: BrowserContext) -> None:
        self.page = context.new_page()
        self.faults: list[str] = []
        self.page.on("console", lambda message: self.faults.append(f"console: {message.text}"))
        self.page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        self.page.on("dialog", self._dialogue)
        self.page.on("popup", lambda popup: self.faults.append(f"window: {popup.url}"))
        self.page.on("request", self._request)
        self.page.on("requestfailed", self._failed)

    def _dialogue(self, dialog: Dialog) -> None:
        self.faults.append(f"dialogue: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Request) -> None:
        if not request.url.startswith("file:"):
            self.faults.append(f"request: {request.url}")

    def _failed(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # nobody waits for a picture of a page that was left
            self.faults.append(f"failed: {request.url}: {request.failure}")

    def open(self, path: Path) -> Page:
        self.page.goto(path.as_uri())
        self.page.wait_for_selector("html[data-ready]")
        return self.page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield chromium
        chromium.close()


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    made = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme="light")
    made.set_default_timeout(20_000)
    yield made
    made.close()


@pytest.fixture
def watch(context: BrowserContext) -> Iterator[Watch]:
    watch = Watch(context)
    yield watch
    assert watch.faults == []


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    blobs = Blobs()
    target = tmp_path_factory.mktemp("campaign") / "a report & more"
    return write_report(campaign(blobs), blobs, target, title="Acceptance", generated=WHEN).parent


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    blobs = Blobs()
    target = tmp_path_factory.mktemp("large") / "report"
    return write_report(many(blobs, 420), blobs, target, title="Large", generated=WHEN, plain_limit=100_000).parent


def rows(page: Page, column: int) -> list[str]:
    return page.locator(f"#runs tbody td:nth-child({column})").all_inner_texts()


class TestTable:
    def test_filters_and_finds(self, watch: Watch, report: Path) -> None:
        page = watch.open(report / "index.html")
        expect(page.locator("#found")).to_have_text("14 runs")
        page.get_by_label("Outcome", exact=True).select_option("IS")
        expect(page.locator("#found")).to_have_text("4 of 14 runs")
        assert rows(page, 1) == ["IS"] * 4
        page.get_by_label("Agent", exact=True).select_option("legacy-use")
        page.get_by_label("Task").select_option("dswin.add-new-patient")
        expect(page.locator("#found")).to_have_text("1 of 14 runs")
        page.reload()
        expect(page.locator("#found")).to_have_text("1 of 14 runs")
        for label in ("Outcome", "Agent", "Task"):
            page.get_by_label(label, exact=True).select_option("")
        page.get_by_label("Text").fill("4212505 INVALID")
        expect(page.locator("#found")).to_have_text("1 of 14 runs")
        page.get_by_role("link", name="add-new-patient-scripted-wrong-field-expert-0002").click()
        expect(page.locator("h1")).to_have_text("Add New Patient")
        page.go_back()
        expect(page.locator("#found")).to_have_text("1 of 14 runs")
        page.get_by_label("Text").fill("no such thing")
        expect(page.locator("#found")).to_have_text("0 of 14 runs")

    def test_sorts_by_headings_with_mouse_and_keyboard(self, watch: Watch, report: Path) -> None:
        page = watch.open(report / "index.html")
        time = page.get_by_role("button", name="Agent time")
        time.click()
        assert rows(page, 6) == [f"{seconds} s" for seconds in ("9.0", *range(10, 23))]
        time.focus()
        page.keyboard.press("Enter")
        assert rows(page, 6)[0] == "22 s"
        expect(page.get_by_role("columnheader", name="Agent time")).to_have_attribute("aria-sort", "descending")
        page.get_by_role("button", name="Outcome").click()
        letters = rows(page, 1)
        assert letters == sorted(letters, key=["VS", "VF", "IS", "IF", "unscored"].index)
        expect(page.locator("th[aria-sort]")).to_have_count(1)

    def test_rows_by_script_are_the_rows_without(self, context: BrowserContext, browser: Browser, report: Path) -> None:
        page = Watch(context).open(report / "index.html")
        plain = browser.new_context(java_script_enabled=False)
        bare = plain.new_page()
        bare.goto((report / "index.html").as_uri())
        assert bare.locator("#runs tbody").inner_text() == page.locator("#runs tbody").inner_text()
        links = "links => links.map(link => link.href)"
        assert page.locator("#runs a").evaluate_all(links) == bare.locator("#runs a").evaluate_all(links)
        expect(bare.locator("#filters")).to_be_hidden()
        plain.close()

    def test_a_large_table_is_paged(self, watch: Watch, large: Path) -> None:
        page = watch.open(large / "index.html")
        expect(page.locator("#found")).to_have_text("420 runs, 1 to 50 shown")
        expect(page.locator("#runs tbody tr")).to_have_count(50)
        page.get_by_role("button", name="On →").click()
        expect(page.locator("#found")).to_have_text("420 runs, 51 to 100 shown")
        page.get_by_role("button", name="Agent time").click()
        expect(page.locator("#found")).to_have_text("420 runs, 1 to 50 shown")
        for _ in range(8):
            page.get_by_role("button", name="On →").click()
        expect(page.locator("#runs tbody tr")).to_have_count(20)
        expect(page.get_by_role("button", name="On →")).to_be_disabled()

    def test_ten_thousand_rows_are_usable(self, watch: Watch, large: Path) -> None:
        script = large / "data" / "runs.js"
        original = script.read_text("ascii")
        content = json.loads(original.removeprefix("window.legacyproofRuns = ").removesuffix(";\n"))
        content["rows"] = (content["rows"] * 24)[:10_000]
        script.write_text(f"window.legacyproofRuns = {json.dumps(content)};\n")
        try:
            page = watch.open(large / "index.html")
        finally:
            script.write_text(original)
        expect(page.locator("#found")).to_have_text("10,000 runs, 1 to 50 shown")
        milliseconds = page.evaluate("""() => {
          const took = (work) => { const began = performance.now(); work(); return performance.now() - began; };
          const text = document.querySelector('#filters [name=text]');
          const button = document.querySelector('#runs th[data-key=run] button');
          const type = () => { text.value = 'becker deleted'; text.dispatchEvent(new Event('input', {bubbles: true})); };
          return [took(() => button.click()), took(type)];
        }""")
        assert max(milliseconds) < 3_000  # a tenth of it on a machine that has nothing else to do
        expect(page.locator("#found")).to_contain_text("of 10,000 runs")


class TestRunPage:
    def test_pictures_open_in_place(self, watch: Watch, report: Path) -> None:
        page = watch.open(report / WRONG)
        links = page.locator(".film a.shot")
        expect(links).to_have_count(6)
        links.nth(1).focus()
        page.keyboard.press("Enter")
        picture = page.locator("dialog img")
        expect(picture).to_be_visible()
        expect(page.locator("dialog p")).to_have_text("Screen after 0:01.5, changed · 2 of 7")
        expect(picture).to_have_js_property("naturalWidth", 800)
        page.keyboard.press("ArrowRight")
        expect(page.locator("dialog p")).to_contain_text("3 of 7")
        page.keyboard.press("Escape")
        expect(picture).to_be_hidden()
        expect(links.nth(2)).to_be_focused()

    def test_pictures_are_plain_links_without_script(self, browser: Browser, report: Path) -> None:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto((report / WRONG).as_uri())
        page.locator(".film a.shot").first.click()
        page.wait_for_url("**/frames/*.png")
        context.close()

    def test_unchanged_fields_are_folded(self, watch: Watch, report: Path) -> None:
        page = watch.open(report / WRONG)
        street = page.get_by_role("rowheader", name="STRASSE")
        expect(street).to_be_hidden()
        page.get_by_text("5 other fields").click()
        expect(street).to_be_visible()

    def test_consequences_are_folded_under_their_cause(self, watch: Watch, tmp_path: Path) -> None:
        campaign = campaign_in(tmp_path / "runs")
        index = write_report(campaign.records(), campaign.blob, tmp_path / "report", title="A", generated=WHEN)
        page = watch.open(index.parent / "runs" / "dswin.add-new-patient.wrong.html")
        entry = page.locator(".ledger.missing > .entry")
        expect(entry).to_have_count(1)
        follows = page.get_by_text("NAME=PATIENT")
        expect(follows).to_have_count(1)
        expect(follows).to_be_hidden()
        page.get_by_text("3 more deviations follow from it").click()
        expect(follows).to_be_visible()
        expect(entry.get_by_text("instead of the PATNR of new_patient")).to_be_visible()
        assert page.evaluate(CONTRASTS) == []
        page.set_viewport_size({"width": 390, "height": 844})
        assert TestHostileTexts.overflow(page) <= 0

    def test_prints_without_navigation_and_with_everything_unfolded(self, watch: Watch, report: Path) -> None:
        page = watch.open(report / WRONG)
        page.emulate_media(media="print")
        expect(page.get_by_role("link", name="All runs")).to_be_hidden()
        page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
        expect(page.get_by_role("rowheader", name="STRASSE")).to_be_visible()
        page.evaluate("window.dispatchEvent(new Event('afterprint'))")
        expect(page.get_by_role("rowheader", name="STRASSE")).to_be_hidden()

    def test_packed_pages_unfold_to_the_plain_ones(self, watch: Watch, large: Path, tmp_path: Path) -> None:
        blobs = Blobs()
        plain = write_report(many(blobs, 420), blobs, tmp_path / "plain", title="Large", generated=WHEN).parent
        names = sorted(path.name for path in (large / "runs").iterdir())
        for name in names[::60]:
            assert 'id="packed"' in (large / "runs" / name).read_text()
            assert 'id="packed"' not in (plain / "runs" / name).read_text()
            unfolded = watch.open(large / "runs" / name).locator("main").inner_text()
            assert unfolded == watch.open(plain / "runs" / name).locator("main").inner_text()
            assert "Evidence" in unfolded

    def test_a_packed_page_without_script_still_tells_the_verdict(self, browser: Browser, large: Path) -> None:
        context = browser.new_context(java_script_enabled=False)
        page = context.new_page()
        page.goto(next((large / "runs").iterdir()).as_uri())
        expect(page.locator(".reason")).not_to_be_empty()
        expect(page.get_by_text("need JavaScript")).to_be_visible()
        context.close()


class TestHostileTexts:
    @pytest.mark.parametrize("plain_limit", [10**9, 0], ids=["plain", "packed"])
    def test_run_nothing_and_ask_for_nothing(self, watch: Watch, tmp_path: Path, plain_limit: int) -> None:
        blobs = Blobs()
        samples = full_records(blobs)
        records = [poison(samples[n % len(samples)], text) for n, text in enumerate(HOSTILE)]
        index = write_report(
            records, blobs, tmp_path / "report", title=HOSTILE[0], generated=WHEN, plain_limit=plain_limit
        )
        page = watch.open(index)
        page.get_by_label("Text").fill("<script>")
        expect(page.locator("#found")).to_contain_text("of 20 runs")
        page.get_by_label("Text").fill("")
        for name in ("Task", "Agent time", "Run"):
            page.get_by_role("button", name=name, exact=True).click()
        assert self.overflow(page) <= 0
        page.set_viewport_size({"width": 390, "height": 844})
        assert self.overflow(page) <= 0
        for path in sorted((index.parent / "runs").iterdir()):
            page = watch.open(path)
            expect(page.locator("h2", has_text="Evidence")).to_be_visible()
            assert self.overflow(page) <= 0, path.name

    @staticmethod
    def overflow(page: Page) -> int:
        return int(page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def test_policy_stops_what_should_get_in_anyway(
        self, context: BrowserContext, report: Path, tmp_path: Path
    ) -> None:
        """The net below the net: markup put into a page by hand neither runs nor loads."""
        page_file = report / "runs" / "tampered.html"
        evil = '<img src="https://evil.example/x"><svg onload="alert(1)"></svg><script>alert(2)</script><style>body{display:none}</style>'
        page_file.write_text((report / WRONG).read_text().replace("</main>", f"{evil}</main>"))
        watch = Watch(context)
        requests: list[str] = []
        watch.page.on("response", lambda response: requests.append(response.url))
        page = watch.open(page_file)
        page_file.unlink()
        expect(page.locator("h1")).to_be_visible()
        assert not [fault for fault in watch.faults if fault.startswith("dialogue")]
        assert all(url.startswith("file:") for url in requests)
        assert len([fault for fault in watch.faults if "Content Security Policy" in fault]) >= 4


class TestAppearance:
    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("width", [390, 1280])
    def test_fits_and_has_contrast(self, browser: Browser, report: Path, scheme: Any, width: int) -> None:
        context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
        watch = Watch(context)
        others = ["index.html", *(f"runs/{path.name}" for path in (report / "runs").iterdir())]
        for name in [*others, f"texts/{next((report / 'texts').iterdir()).name}"]:
            watch.page.goto((report / name).as_uri())
            watch.page.wait_for_selector("html[data-ready]")
            watch.page.evaluate("for (const details of document.querySelectorAll('details')) details.open = true")
            assert TestHostileTexts.overflow(watch.page) <= 0, name
            assert watch.page.evaluate(CONTRASTS) == [], name
        assert watch.faults == []
        context.close()

    def test_bars_have_letters_beside_their_colours(self, watch: Watch, report: Path) -> None:
        page = watch.open(report / "index.html")
        bar = page.get_by_role("img", name="All runs: 5 valid success")
        colours = bar.locator("rect").evaluate_all("rects => rects.map(rect => getComputedStyle(rect).fill)")
        assert colours == [
            "rgb(0, 158, 115)",
            "rgb(86, 180, 233)",
            "rgb(213, 94, 0)",
            "rgb(230, 159, 0)",
            'url("#hatch")',
        ]
        legend = page.locator(".bar.large + .legend li").all_inner_texts()
        assert [" ".join(text.split()) for text in legend] == ["VS 5", "VF 2", "IS 4", "IF 2", "unscored 1"]
