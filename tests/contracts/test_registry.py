"""The registry in contracts: names of keys, and what effects may say of them."""

from __future__ import annotations

import pytest

from contracts.load import load_text
from contracts.schema import RegistryKey
from tests.contracts.helpers import edited, problems

_OBSERVE, _EXPECT = "observe:\n", "  expect:\n"


def with_key(observe: str, *effects: str) -> str:
    lines = "".join(f"    - {effect}\n" for effect in effects)
    return edited((_OBSERVE, f"{_OBSERVE}{observe}\n"), (_EXPECT, _EXPECT + lines))


SETTINGS = r"  settings: {registry: 'HKCU\Software\DSWin'}"


@pytest.mark.parametrize(
    ("written", "loaded"),
    [
        (r"HKCU\Software\DSWin", r"HKCU\Software\DSWin"),
        ("hkey_local_machine\\Software\\X\\", r"HKLM\Software\X"),
        (r"HKEY_CLASSES_ROOT\.txt", r"HKCR\.txt"),
        (r"HKEY_USERS\.DEFAULT", r"HKU\.DEFAULT"),
        ("HKEY_CURRENT_CONFIG", "HKCC"),
        (r"hkcu\Größe *?\a/b", r"HKCU\Größe *?\a/b"),
    ],
)
def test_names_are_loaded_in_one_form(written: str, loaded: str) -> None:
    assert RegistryKey.model_validate({"registry": written}).registry == loaded


@pytest.mark.parametrize(
    ("observe", "effects", "words"),
    [
        (r"  s: {registry: 'C:\DSWin'}", [], "a registry key begins with its root (HKLM, HKCU, HKCR, HKU, HKCC)"),
        (r"  s: {registry: 'HKCU\\Software'}", [], r"what stands between two `\` is no name of a key"),
        ('  s: {registry: "HKCU\\temp"}', [], "registry"),
        (r"  s: {registry: 'HKCU\X', view: 16}", [], "view"),
        (r"  s: {registry: 'HKCU\X', ignore: [{path: 'MRU\**'}]}", [], "an ignore rule needs `because: …`"),
        (SETTINGS, ["{inserted: settings}"], "`settings` is a registry key, which cannot be `inserted`; possible: `deleted`, `created`, `modified`"),
        (SETTINGS, ["{modified: settings, content: x}"], "`content` is for files only"),
        (SETTINGS, ["{modified: settings, where: {Nam: Left}}"], "a change of the registry has no field `Nam`; did you mean `name`?"),
        (SETTINGS, ['{created: settings, fields: {"*": x}}'], '`"*"` has no meaning for `created` in the registry'),
        (SETTINGS, ['{deleted: settings, fields: {"*": x}}'], '`"*"` has no meaning for `deleted`'),
        (SETTINGS, ["{created: settings, fields: {data: {is: changed}}}"], "needs the states before and after"),
        (SETTINGS + "\n" + r"  again: {registry: 'HKEY_CURRENT_USER\software\dswin', view: 64}", [], "`settings` is the same key; observe it once"),
        (SETTINGS + "\n" + r"  inner: {registry: 'HKCU\Software\DSWin\Window'}", [], "this key and that of `settings` lie within each other"),
        ("  a: {registry: 'HKLM\\Software\\X', view: 32}\n  b: {registry: 'HKLM\\Software\\Wow6432Node\\X'}", [], "`a` is the same key"),
        ("  a: {registry: 'HKCR\\.txt'}\n  b: {registry: 'HKLM\\Software\\Classes'}", [], "lie within each other"),
    ],
)  # fmt: skip
def test_what_cannot_be_meant(observe: str, effects: list[str], words: str) -> None:
    found = problems(with_key(observe, *effects))
    assert len(found) == 1
    assert words in found[0]


@pytest.mark.parametrize(
    ("observe", "effects"),
    [
        (SETTINGS, [r"{modified: settings, path: 'Window\@Left', fields: {data: '100'}}"]),
        (SETTINGS, ["{modified: settings, where: {name: Left, data: '20'}, fields: {data: {is: changed}, '*': {is: unchanged}}}"]),
        (SETTINGS, ["{created: settings, name: a, path: '@A'}", "{created: settings, path: '@B', fields: {data: {field: a.data}}}"]),
        ("  a: {registry: 'HKLM\\Software\\X', view: 32}\n  b: {registry: 'HKLM\\Software\\X', view: 64}", []),
        ("  a: {registry: 'HKCU\\A', ignore: [{path: 'B\\**', because: elsewhere}]}\n  b: {registry: 'HKCU\\A\\B'}", []),
    ],
)  # fmt: skip
def test_what_is_meant(observe: str, effects: list[str]) -> None:
    text = with_key(observe, *effects)
    assert not problems(text)
    assert any(isinstance(spec, RegistryKey) for spec in load_text(text, name="c").contract.observe.values())
