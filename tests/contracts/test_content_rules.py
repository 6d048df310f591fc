"""Rules about content and where returned values stand: their form, what is wrong with them, and what is easily not meant."""

from __future__ import annotations

from pathlib import Path

import pytest
from jsonschema import Draft202012Validator
from ruamel.yaml import YAML

from contracts.json_schema import json_schema
from contracts.load import ContractError, load_contract, load_text
from tests.contracts.helpers import problems

CONTRACT = r"""
schema: 1
id: shop.export
title: Export
application: shop
domain: trade
state_changing: true
image: shop
instruction: Export the list.
parameters: {nr: '000104'}
initial_state: {summary: The list is open.}
goal_state: {summary: The list is exported.}
observe:
  disk: {files: 'C:\SHOP', verify: full, sample: 0.05}
  items: {dbf: 'C:\SHOP\ITEMS.DBF', key: [NR]}
effects:
  expect:
    - created: disk
      name: export
      path: 'OUT\LIST.*'
      content: CONTENT
returns:
  schema: {type: object}
  expect:
    total: RETURNED
"""


def contract(content: str = "x", returned: str = "1") -> str:
    return CONTRACT.replace("CONTENT", content).replace("RETURNED", returned)


@pytest.mark.parametrize(
    "content",
    [
        "{json: '$.rows[0].nr', is: '{{nr}}'}",
        "{xml: '/list/item[1]/@nr', is: '{{nr}}', encoding: cp1252}",
        "{ini: 'List/Count', is: {number: 1}}",
        "{csv: {row: {Nr: '{{nr}}'}, column: Name, delimiter: ';', encoding: cp850}, is: Huber}",
        "{csv: {row: 1, column: 2, header: false}, is: Huber}",
        "{pdf: {pages: 1, text: [Huber, {regex: 'Nr\\. \\d+'}], created: run}}",
        "{image: {format: PNG, width: {between: [1, 640]}, mode: RGB, blank: false}}",
        "[{size: {between: [1, 1000]}}, {json: a, is: 1}, {regex: '.*'}]",
        "{is: blank}",
    ],
)
def test_forms_of_content(content: str) -> None:
    assert problems(contract(content)) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{jsn: '$.a', is: 1}", "`jsn` is no kind of content; did you mean `json`?"),
        ("{xlm: a, is: 1}", "`xlm` is no kind of content; did you mean `xml`?"),
        ("{wxyz: a, is: 1}", "`wxyz` is no kind of content; it has one of `text`, `sha256`"),
        ("{txt: a}", "`txt` is no kind of content; did you mean `text`?"),
        ("{regx: a}", "`regx` is no kind of content; did you mean `regex`?"),
        ("{json: '$.a[*]', is: 1}", "is no step of a JSON path"),
        ("{json: '$.a'}", "`is` is missing"),
        ("{json: '$.a', is: 1, equals: 2}", "unknown field `equals`"),
        ("{xml: '//a', is: 1}", "is no step of an XML path"),
        ("{ini: Key, is: 1}", "`Section/Key`"),
        ("{ini: S/Key, is: 1, encoding: cp12252}", "the encoding `cp12252` is not known; did you mean `cp1252`?"),
        ("{json: a, is: 1, encoding: nonsense}", "the encoding `nonsense` is not known"),
        ("{csv: {row: 1, column: 2, encoding: utf9}, is: 1}", "the encoding `utf9` is not known"),
        ("{csv: {row: 0, column: 2}, is: 1}", "out of range"),
        ("{csv: {row: {}, column: 2}, is: 1}", "`row` says nothing"),
        ("{csv: {row: {a: b}, column: 2, header: false}, is: 1}", "without a header"),
        ("{csv: {row: 1, column: 2, delimiter: ';;'}, is: 1}", "the text is too long"),
        ("{csv: {row: 1, colum: 2}, is: 1}", "did you mean `column`?"),
        ("{pdf: {page: 1}}", "unknown field `page`; did you mean `pages`?"),
        ("{pdf: {created: today}}", "this must be `run`"),
        ("{image: {format: PGN}}", "did you mean `PNG`?"),
        ("{image: {tolerance: 0.1}}", "`tolerance` needs a picture"),
        ("{image: {like: ../x.png}}", "the path leaves the contract's folder"),
        ("{image: {like: x.png}}", "the picture cannot be read: there is none of that name"),
        ("{json: a, is: {is: changed}}", "is not for `content`"),
        ("{json: a, is: {generated: next}}", "`generated` needs a row"),
        ("{csv: {row: {a: {returned: nothing}}, column: 1}, is: 1}", "`nothing` is not among the returned values"),
        ("[]", "an empty list looks at nothing"),
        ("[{json: a, is: 1}, {jsn: a, is: 1}]", "effects.expect[0].content[1].jsn"),
    ],
)
def test_what_is_wrong_with_content(content: str, message: str) -> None:
    found = problems(contract(content))
    assert len(found) == 1, found
    assert message in found[0]


@pytest.mark.parametrize(
    "returned",
    [
        r"{file: disk, path: 'OUT\*.CSV', value: {csv: {row: 1, column: Sum}}, as: number}",
        "{file: disk, path: '*.TXT', value: text}",
        "{file: disk, path: '*.TXT', value: name}",
        "{sum: [1, 2.5, {row: items, where: {NR: '1'}, field: PRICE}], tolerance: 0.01}",
        "{product: [{difference: [3, 1]}, {file: disk, path: x, value: {json: a}}], decimals: 2}",
        "{sum: [{returned: other}]}",
    ],
)
def test_forms_of_returned_values(returned: str) -> None:
    text = contract("x", returned).replace("  expect:\n    total", "  expect:\n    other: 1\n    total")
    assert problems(text) == []


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ("{file: dsk, path: x, value: text}", "nothing is observed as `dsk`; did you mean `disk`?"),
        ("{file: items, path: x, value: text}", "a file tree must be named here"),
        ("{file: disk, path: x, value: all}", "is needed, found the text `all`"),
        ("{file: disk, path: x, value: size, as: number}", "needs no reading"),
        ("{file: disk, path: x, value: {json: a, encoding: utf9}}", "the encoding `utf9` is not known"),
        ("{sum: [1], product: [2]}", "exactly one of"),
        ("{sum: []}", "too few entries"),
        ("{difference: [1]}", "too few entries"),
        ("{sum: [{row: itms, where: {}, field: X}]}", "did you mean `items`?"),
        ("{sum: [{field: nobody.X}]}", "no effect is named `nobody`"),
        ("{sum: [{returned: total}]}", "cannot be compared with itself"),
        ("{sum: [x]}", "a number is needed"),
    ],
)
def test_what_is_wrong_with_returned_values(returned: str, message: str) -> None:
    found = problems(contract("x", returned))
    assert len(found) == 1, found
    assert message in found[0]


def test_paths_in_short_names_are_told() -> None:
    text = contract().replace(r"'OUT\LIST.*'", r"'LIEFER~1\L.*'").replace(r"files: 'C:\SHOP'", r"files: 'C:\PROGRA~2'")
    found = load_text(text, name="c").warnings
    assert [(warning.field, warning.line) for warning in found] == [
        ("observe.disk.files", 14), ("effects.expect[0].path", 20),
    ]  # fmt: skip
    assert "short form of a longer name" in found[0].message
    assert load_text(contract().replace("LIST.*", "~backup.txt"), name="c").warnings == ()


def test_pictures_stand_beside_the_contract(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(
        contract("[{image: {like: pictures/one.png}}, {image: {like: 'pictures\\one.png', tolerance: 0.1}}]")
    )
    with pytest.raises(ContractError, match="the picture cannot be read"):
        load_contract(path)
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "one.png").write_bytes(b"picture")
    assert load_contract(path).pictures == {"pictures/one.png": b"picture", "pictures\\one.png": b"picture"}
    given = load_text(contract("{image: {like: one.png}}"), name="c", pictures={"one.png": b"x"})
    assert given.pictures == {"one.png": b"x"}


def test_a_picture_behind_a_link_out_of_the_folder_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret.png").write_bytes(b"secret")
    folder = tmp_path / "contracts"
    folder.mkdir()
    (folder / "one.png").symlink_to(tmp_path / "secret.png")
    (folder / "c.yaml").write_text(contract("{image: {like: one.png}}"))
    with pytest.raises(ContractError, match="the picture cannot be read"):
        load_contract(folder / "c.yaml")


def test_a_picture_that_is_too_large_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("contracts.load.MAX_PICTURE", 3)
    (tmp_path / "one.png").write_bytes(b"12345")
    (tmp_path / "c.yaml").write_text(contract("{image: {like: one.png}}"))
    with pytest.raises(ContractError, match="holds more than"):
        load_contract(tmp_path / "c.yaml")


def test_how_a_tree_is_verified() -> None:
    assert "`changed`, `full` is needed" in problems(contract().replace("verify: full", "verify: all"))[0]
    assert "out of range" in problems(contract().replace("sample: 0.05", "sample: 2"))[0]


EDITOR = Draft202012Validator(json_schema())


@pytest.mark.parametrize(
    ("content", "returned", "good"),
    [
        (
            "{json: a, is: '{{nr}}'}",
            "{sum: [1, 2.5, {row: items, where: {NR: '1'}, field: PRICE}], tolerance: 0.01}",
            True,
        ),
        (
            "[{csv: {row: {Nr: {regex: x}}, column: 2}, is: {number: 1}}]",
            "{file: disk, path: x, value: {ini: S/K}}",
            True,
        ),
        ("{pdf: {text: [a, {not: b}]}}", "{product: [{difference: [2, {field: export.SIZE}]}]}", True),
        ("{image: {format: PNG, blank: true}}", "{row: items, where: {NR: '{{nr}}'}, field: A}", True),
        ("{jsn: a, is: 1}", "1", False),
        ("x", "{sum: [{is: blank}]}", False),
    ],
)
def test_what_editors_accept(content: str, returned: str, good: bool) -> None:
    data = YAML(typ="safe").load(contract(content, returned))
    assert EDITOR.is_valid(data) is good


def test_a_final_state_can_only_be_expected() -> None:
    text = contract().replace("  items:", "  screen: {windows: {}}\n  items:")
    text = text.replace("effects:\n", "effects:\n  forbid:\n    - present: screen\n      where: {title: X}\n")
    (found,) = problems(text)
    assert "can only be expected; expect `absent` instead" in found
