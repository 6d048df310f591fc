"""What is wrong with a prompt is told with its place and what to do; the house's own prompts are clean."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from contracts.load import load_text
from prompts.check import RULES, PromptFinding, check_prompt, is_prompt
from runner.commands import prompts as commands
from runner.commands.terminal import Refused

ROOT = Path(__file__).parents[2]
CONTRACT = """\
schema: 1
id: app.save
title: Save
application: App
domain: tests
state_changing: true
image: dentadesk
instruction: Save {{name}} with {{pin}}.
parameters:
  name: Muster
  pin: {value: geheim-4711, secret: true}
initial_state: {summary: Nothing., start: []}
goal_state: {summary: Saved.}
observe: {files: {files: 'C:\\DSWIN'}}
effects: {expect: [{created: files, path: 'x.txt'}]}
returns:
  schema: {type: object, properties: {number: {type: string}, more: {type: array, items: {type: object, properties: {kind: {type: string}}}}}}
"""
PROMPT = """\
schema: 1
contract: app.save
origin: {kind: expert, by: tests, date: "2026-01-31", source: the program}
introduction: Save {{name}}.
steps:
  - title: Enter the name
    expect: The form.
    do: Type {{name}}
  - title: Enter the number
    expect: The number's field has the focus.
    do: Type {{pin}} into "type, press and click"; then read the number.
    otherwise: Press Esc, click on "No", and report a failure.
result: Report success, return number, more, and of each its kind.
"""


def check(tmp_path: Path, text: str) -> list[PromptFinding]:
    path = tmp_path / "save.yaml"
    path.write_text(text)
    return check_prompt(path, {"app.save": load_text(CONTRACT, name="contract")})


def test_a_clean_prompt(tmp_path: Path) -> None:
    assert check(tmp_path, PROMPT) == []


@pytest.mark.parametrize(
    ("old", "new", "rule", "line", "words"),
    [
        ("schema: 1", "schema: 7", "P01", 1, "must be `1`"),
        ("    do: Type {{name}}\n", "", "P01", 6, "do"),
        ("    expect: The form.\n", "", "P01", 6, "expect"),
        ("contract: app.save", "contract: app.other", "P02", 2, "no contract 'app.other'; there are: app.save"),
        ("Save {{name}}.", "Save {{nam}}.", "P03", 4, "`{{nam}}` is no parameter of app.save; there are: name, pin"),
        ("Save {{name}}.", "Save {{ name }}.", "P03", 4, "`{{ name }}`"),
        ("Type {{pin}}", "Type it", "P04", 2, "`pin` of app.save is used nowhere"),
        ("Type {{name}}", "Type {{name}} and press Tab", "P05", 8, "step 1 is 2 actions: `Type`, `press`"),
        ("Type {{name}}", "Press Tab, type {{name}}, and then click on OK.", "P05", 8, "3 actions"),
        ("Type {{name}}", "Drücken Sie F2 und tippen {{name}}. Klicken Sie auf OK.", "P05", 8, "actions"),
        ("expect: The form.", "expect: '…'", "P06", 7, "step 1 does not say which screen"),
        ("return number, more", "return more", "P07", 13, "does not ask for `number`"),
        ("return number, more", "return numbers, more", "P07", 13, "does not ask for `number`"),
        ("of each its kind", "of each something", "P07", 13, "does not ask for `kind`"),
        (', date: "2026-01-31"', "", "P08", 3, "no `date`"),
        (", source: the program", "", "P08", 3, "no `source`"),
        ("2026-01-31", "2026-02-31", "P01", 3, "YYYY-MM-DD"),
        ("The form.", "The form of Muster.", "P09", 7, "the value of `name`, 'Muster', is written out"),
        ("The form.", "The form with geheim-4711.", "P09", 7, "the secret value of `pin` is written out"),
        ("The form.", "The form {with} braces.", "P10", 6, "legacy-use would take `{with}`"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(
    tmp_path: Path, old: str, new: str, rule: str, line: int, words: str
) -> None:
    assert old in PROMPT
    findings = check(tmp_path, PROMPT.replace(old, new, 1))
    told = [finding for finding in findings if finding.rule.id == rule]
    assert [finding.rule.id for finding in findings] == [rule] * len(findings) or rule == "P03"
    assert told
    assert words in told[0].problem.message
    assert told[0].problem.line == line
    assert str(told[0]).endswith(f"[{rule}]")
    assert "geheim-4711" not in str(told[0])
    assert told[0].as_dict()["fix"] or rule == "P01"


def test_every_rule_has_a_name_of_its_own_and_says_what_to_do() -> None:
    assert len({rule.id for rule in RULES}) == len(RULES)
    assert all(rule.fix for rule in RULES)


def test_a_file_that_is_no_prompt(tmp_path: Path) -> None:
    (tmp_path / "c.yaml").write_text(CONTRACT)
    assert not is_prompt(tmp_path / "c.yaml")
    (tmp_path / "p.yaml").write_text(PROMPT)
    assert is_prompt(tmp_path / "p.yaml")


# --- the commands -----------------------------------------------------------------------------------------------------


def legacyproof(*argv: str) -> tuple[int, str]:
    app = typer.Typer()
    app.callback()(lambda: None)
    commands.add_to(app)
    done = CliRunner().invoke(app, ["prompts", *argv], catch_exceptions=False)
    return done.exit_code, done.output


def test_the_houses_prompts_are_clean() -> None:
    code, output = legacyproof("check", str(ROOT / "prompts"), str(ROOT / "contracts" / "catalog"))
    assert code == 0, output
    assert "findings: 0" in output
    assert int(output.rpartition("prompts: ")[2].partition(",")[0]) >= 6


def test_a_users_prompts_are_checked_by_the_contract_beside_them(tmp_path: Path) -> None:
    (tmp_path / "save.yaml").write_text(CONTRACT)
    folder = tmp_path / "prompts" / "expert"
    folder.mkdir(parents=True)
    (folder / "save.yaml").write_text(PROMPT.replace("Type {{pin}}", "Type it"))
    for argument in (folder / "save.yaml", tmp_path / "save.yaml", tmp_path):
        code, output = legacyproof("check", str(argument), "--json")
        assert code == 2, output
        finding = json.loads(output.splitlines()[0])
        assert (finding["rule"], finding["line"]) == ("P04", 2)
        assert finding["file"].endswith("prompts/expert/save.yaml")


def test_rendering_hides_secrets_unless_asked(tmp_path: Path) -> None:
    (tmp_path / "save.yaml").write_text(CONTRACT)
    folder = tmp_path / "elsewhere" / "expert"
    folder.mkdir(parents=True)
    (folder / "save.yaml").write_text(PROMPT)
    path, prompts = str(tmp_path / "save.yaml"), ("--prompts", str(tmp_path / "elsewhere"))
    code, output = legacyproof("render", path, *prompts, "--style", "legacy-use")
    assert (code, "Action: Type •••" in output, "geheim" in output) == (0, True, False)
    assert "Type geheim-4711" in legacyproof("render", path, *prompts, "--secrets")[1]
    assert "Type {{pin}}" in legacyproof("render", path, *prompts, "--template")[1]
    assert legacyproof("render", path, "--prompt", "instruction") == (0, "Save Muster with •••.\n")
    assert legacyproof("render", path, "--prompt", "instruction", "--template") == (0, "Save {{name}} with {{pin}}.\n")
    assert "Save Meier with" in legacyproof("render", path, "--prompt", "instruction", "--param", "name=Meier")[1]


def test_a_difference_is_told_step_by_step(tmp_path: Path) -> None:
    (tmp_path / "one.yaml").write_text(PROMPT)
    other = PROMPT.replace(
        "  - title: Enter the number\n", "  - title: Leave the field\n    expect: The name.\n    do: Press Tab.\n  - title: Enter the number\n"
    ).replace("Type {{name}}", "Type {{name}} slowly")  # fmt: skip
    (tmp_path / "two.yaml").write_text(other)
    code, output = legacyproof("diff", str(tmp_path / "one.yaml"), str(tmp_path / "two.yaml"))
    assert code == 1
    assert output == (
        "~ step 1: Enter the name\n"
        "    do:\n"
        "      - Type {{name}}\n"
        "      + Type {{name}} [slowly]\n"
        "+ step 2: Leave the field\n"
        "    + expect: The name.\n"
        "    + do: Press Tab.\n"
        "    + otherwise: Stop and report that the screen is not as expected.\n"
        "steps: 1 the same, 1 changed, 0 only in the first, 1 only in the second\n"
    )
    assert legacyproof("diff", str(tmp_path / "one.yaml"), str(tmp_path / "one.yaml")) == (0, "both say the same\n")


def test_a_contract_stands_for_its_own_prompt(tmp_path: Path) -> None:
    contract = ROOT / "contracts" / "catalog" / "legacyworld" / "dswin" / "open-dswin.yaml"
    prompt = ROOT / "prompts" / "expert" / "dswin" / "open-dswin.yaml"
    assert legacyproof("diff", str(contract), str(prompt))[0] == 0


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["render", "{contract}", "--style", "fancy"], "--style is 'fancy'"),
        (["render", "{contract}", "--prompt", "guess"], "--prompt is 'guess'"),
        (["diff", "{prompt}", "nothing.yaml"], "no file nothing.yaml"),
        (["diff", "{prompt}", "{house}"], "two prompts for one contract are compared"),
        (["check", "nothing"], "no file or folder nothing"),
        (["check", "{empty}"], "no prompts in"),
    ],
)
def test_a_users_mistake_is_told(tmp_path: Path, argv: list[str], words: str) -> None:
    (tmp_path / "c.yaml").write_text(CONTRACT)
    (tmp_path / "p.yaml").write_text(PROMPT)
    (tmp_path / "empty").mkdir()
    places = {
        "contract": tmp_path / "c.yaml", "prompt": tmp_path / "p.yaml", "empty": tmp_path / "empty",
        "house": ROOT / "prompts" / "expert" / "dswin" / "open-dswin.yaml",
    }  # fmt: skip
    with pytest.raises(Refused, match=words):
        legacyproof(*(part.format(**places) for part in argv))


def test_every_rule_is_documented() -> None:
    text = (ROOT / "docs" / "prompts.md").read_text()
    assert [rule.id for rule in RULES] == [line[2:5] for line in text.splitlines() if line.startswith("| P")]


def test_the_prompt_that_is_printed_is_one(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "prompts.md").read_text()
    (tmp_path / "p.yaml").write_text(text.partition("```yaml\n")[2].partition("```")[0])
    assert [finding.rule.id for finding in check_prompt(tmp_path / "p.yaml", {})] == ["P02"]
