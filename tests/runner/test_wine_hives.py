"""Wine's registry files: what changed since a moment, whatever order and spelling; damaged files are never a shorter result."""

from __future__ import annotations

import pytest

from runner.changed_keys import KeyChange
from runner.guests.base import Unreadable
from runner.wine_hives import changed_keys

SINCE = 0x200


def hive(**sections: str) -> bytes:
    """A file of sections by their path (``__`` for the separator), with times in hexadecimal before a colon."""
    text = "WINE REGISTRY Version 2\n;; All keys relative to REGISTRY\\\\Machine\n\n#arch=win64\n"
    for path, told in sections.items():
        time, _, values = told.partition(":")
        text += "\n[" + path.replace("__", "\\\\") + "] 1796091799\n" + (f"#time={time}\n" if time else "") + values
    return (text + "\n").encode()


def changes(before: bytes, after: bytes) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(one.what, one.path, one.values) for one in changed_keys(before, after, "HKLM", since=SINCE)]


def test_new_changed_and_deleted_keys_are_told_with_their_values() -> None:
    before = hive(A='100:"x"="1"\n"y"=dword:00000001\n"z"="same"\n', Gone='100:@="d"\n')
    after = hive(A='300:"x"="2"\n"Z"="same"\n"w"=hex:00,\\\n  01\n', New='300:@="d"\n', Empty="300:")
    assert changes(before, after) == [
        ("modified", r"HKLM\A", ("w", "x", "y")),
        ("created", r"HKLM\Empty", ()),
        ("deleted", r"HKLM\Gone", ("",)),
        ("created", r"HKLM\New", ("",)),
    ]


def test_what_was_written_before_the_moment_is_left_out() -> None:
    before = hive(A='100:"x"="1"\n', P='100:"v"="1"\n', P__Gone='100:"x"="1"\n')
    after = hive(A='1ff:"x"="2"\n', New='1ff:"x"="2"\n', P='150:"v"="1"\n')
    assert changes(before, after) == []
    assert [what for what, *_ in changes(before, hive(A='200:"x"="2"\n', P='200:"v"="1"\n'))] == ["modified", "deleted"]


def test_a_key_written_again_without_a_difference_is_no_change() -> None:
    assert changes(hive(A='100:"x"="1"\n'), hive(A='300:"x"="1"\n')) == []


def test_a_key_that_has_only_subkeys_now_is_not_gone_and_one_that_had_only_subkeys_is_not_new() -> None:
    before = hive(A='100:"x"="1"\n', A__B='100:"y"="1"\n', C__D='100:"y"="1"\n')
    after = hive(A__B='100:"y"="1"\n', C='300:"z"="1"\n', C__D='100:"y"="1"\n')
    assert changes(before, after) == [("modified", r"HKLM\A", ("x",)), ("modified", r"HKLM\C", ("z",))]


def test_awkward_names_are_read() -> None:
    name = r"\x20ac a\"b\\c\[d\] \xd83d\xde00 \101\n"
    after = hive(**{name: '300:"' + name + '"="x"\n'})
    wanted = '€ a"b\\c[d] 😀 A\n'
    assert changes(hive(), after) == [("created", f"HKLM\\{wanted}", (wanted,))]


def test_the_class_of_a_key_and_links_count_as_values() -> None:
    assert changes(hive(A="100:"), hive(A='300:#class="x"\n')) == [("modified", r"HKLM\A", ("#class",))]


@pytest.mark.parametrize(
    "damaged",
    [
        b"", b"WINE REGISTRY Version 3\n\n", hive(A='300:"x"="1"\n')[:-6], hive(A="300:rubbish\n"), hive(A='300:"x"="\xe4"\n'),
        hive(A="300:").replace(b"]", b""), hive(A="300:") + b"\n[A] 1\n#time=301\n",
    ],
)  # fmt: skip
def test_a_damaged_file_is_unreadable(damaged: bytes) -> None:
    for pair in ((hive(), damaged), (damaged, hive())):
        with pytest.raises(Unreadable, match="HKLM"):
            list(changed_keys(*pair, "HKLM", since=0))


def test_keys_are_plain_data() -> None:
    assert KeyChange("HKLM\\A", "created") == KeyChange(path="HKLM\\A", what="created", values=())
