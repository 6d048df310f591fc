"""Secrets are kept out of what is stored of a job, in whatever spelling the server repeats them."""

from __future__ import annotations

import base64
import io
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from runner.agents.legacyuse.account import MAX_PICTURE, LogEntry, contents, entries, provider_keys, timeline, usage
from runner.agents.legacyuse.client import ServerOut
from runner.agents.legacyuse.provider import trouble_of
from runner.agents.legacyuse.redaction import Redactor
from runner.spellings import BLOT

SECRETS = ["tenant-key-0123456789", 'with "quotes" & \\slashes\\', "Zwölf-Böxkämpfer", "it's/50%+x=y"]


def carried(secret: str) -> list[str]:
    """A secret as it stands in what a server sends."""
    return [
        secret,
        json.dumps({"k": secret}),
        json.dumps({"k": secret}, ensure_ascii=False),
        json.dumps({"body": json.dumps({"k": secret})}),
        str({"k": secret}),
        *(base64.b64encode(b"x" * n + secret.encode() + b"tail").decode() for n in range(3)),
        *(base64.b64encode(b"x" * n + secret.encode()).decode() for n in range(3)),
    ]


def traces(secret: str) -> list[str]:
    return [secret, json.dumps(secret)[1:-1], secret.strip('"')[-6:], base64.b64encode(secret.encode()).decode()[4:-4]]


@pytest.mark.parametrize("secret", SECRETS)
def test_a_secret_is_blotted_out_in_every_spelling(secret: str) -> None:
    redactor = Redactor([secret])
    for text in carried(secret):
        clean = redactor.text(f"before {text} after", 10_000)
        assert BLOT in clean
        assert not [trace for trace in traces(secret) if trace in clean]


@given(st.binary(max_size=5), st.text(st.characters(codec="utf-8"), min_size=6, max_size=40), st.binary(max_size=5))
def test_a_secret_within_base64_is_found_wherever_it_begins(before: bytes, secret: str, after: bytes) -> None:
    clean = Redactor([secret]).text(base64.b64encode(before + secret.encode() + after).decode(), 10_000)
    assert BLOT in clean


def test_a_secret_is_not_cut_in_half() -> None:
    redactor = Redactor(["geheim", "geheim mit mehr"])
    for limit in range(1, 60):
        cut = redactor.text("0123456789 geheim mit mehr 0123456789 geheim", limit)
        assert len(cut) <= limit
        assert not {"geh", "mit"} & {*cut.split()}


@pytest.mark.parametrize(
    "key",
    [
        "sk-ant-api03-abcdefghijklmn",
        "sk-proj-ABCDEFGH12345678",
        "AKIAIOSFODNN7EXAMPLE",
        "Bearer abcdefghijklmnopqrst.uvw",
    ],
)
def test_keys_that_only_the_server_knows_are_known_by_their_form(key: str) -> None:
    clean = Redactor([]).text(f"Error code: 401 - invalid key {key}!", 1_000)
    assert key not in clean
    assert clean.startswith("Error code: 401 - invalid key")


def test_keys_in_the_exchanges_headers_are_learnt() -> None:
    headers = {"X-Api-Key": "odd-key-1", "Authorization": "Token other-key", "host": "a-host-of-theirs"}
    exchanges = [{"request": {"headers": headers}}]
    assert provider_keys(exchanges) == {"odd-key-1", "Token other-key", "other-key"}


@pytest.mark.parametrize("header", ["", " ", "none", "Bearer", "Bearer none", "Bearer global", "x" * 7])
def test_words_in_the_headers_that_are_no_keys_are_not_learnt(header: str) -> None:
    """A server that needs no key is often given the word ``none``, which stands in right answers too."""
    learnt = provider_keys([{"request": {"headers": {"Authorization": header, "x-api-key": "EMPTY"}}}])
    assert not learnt - {header}
    assert BLOT not in Redactor(learnt).text("allergies: none; validity: global", 100)


@pytest.mark.parametrize("exchanges", [[], [{}], [{"content": 5}], [{"content": {"request": {"headers": []}}}]])
def test_exchanges_of_any_form_are_borne(exchanges: object) -> None:
    assert provider_keys(contents(exchanges)) == set()
    assert usage(contents(exchanges), [])["turns"] == 0


def test_what_is_learnt_later_is_hidden_as_well() -> None:
    redactor = Redactor(["first-key"])
    redactor.hide(["second-key", ""])
    assert redactor.text("first-key, second-key, third-key", 100) == f"{BLOT}, {BLOT}, third-key"


# --- screenshots ----------------------------------------------------------------------------------------------------------


def png(size: tuple[int, int] = (4, 3), comment: str = "") -> bytes:
    notes = PngInfo()
    if comment:
        notes.add_text("Comment", comment)
        notes.add_itxt("More", comment, zip=True)
    buffer = io.BytesIO()
    Image.new("RGB", size, "red").save(buffer, "PNG", pnginfo=notes, icc_profile=comment.encode() or None)
    return buffer.getvalue()


def picture(encoded: object) -> bytes | None:
    """What is kept of a screenshot in the log."""
    lines = timeline([LogEntry(0, "tool_use", {"output": "done", "base64_image": encoded})], 0.0, Redactor([]))
    return lines[0].screenshot


def test_a_picture_keeps_nothing_but_its_pixels() -> None:
    kept = picture(base64.b64encode(png(comment="planted-secret")).decode())
    assert kept is not None
    with Image.open(io.BytesIO(kept)) as image:
        image.load()
        assert image.info == {}
        assert image.getpixel((0, 0)) == (255, 0, 0)
    assert b"planted-secret" not in kept


@pytest.mark.parametrize(
    "encoded",
    [
        None,
        5,
        "",
        "no base64!",
        "AAAA",
        base64.b64encode(png()[:40]).decode(),
        base64.b64encode(b"\x89PNG\r\n\x1a\n" * 9).decode(),
    ],
)
def test_what_is_no_picture_is_left_out(encoded: object) -> None:
    assert picture(encoded) is None


def test_a_picture_that_is_too_large_is_left_out() -> None:
    assert picture(base64.b64encode(png((20_000, 1_000))).decode()) is None
    assert picture(base64.b64encode(png() + bytes(MAX_PICTURE)).decode()) is None


@given(st.binary(max_size=60))
def test_damaged_pictures_never_raise(damage: bytes) -> None:
    data = png()
    for at in (0, 10, 30, len(data) // 2):
        picture(base64.b64encode(data[:at] + damage + data[at + len(damage) :]).decode())


# --- the timeline ---------------------------------------------------------------------------------------------------------


def test_the_account_is_told_in_plain_words() -> None:
    log = [
        LogEntry(0, "system", "Queue picked up job"),
        LogEntry(0, "system", "Executing API with parameters: {'password': 'x'}"),
        LogEntry(0, "system", {"message_type": "initial_prompt", "prompt": "x"}),
        LogEntry(1, "message", {"type": "text", "text": "I look."}),
        LogEntry(
            2, "message", {"type": "tool_use", "name": "computer", "input": {"action": "type", "text": 'a "b"\n'}}
        ),
        LogEntry(3, "tool_use", {"tool_id": "t", "output": None, "error": {"detail": "bad"}, "has_image": False}),
        LogEntry(
            4, "message", {"type": "tool_use", "name": "extraction", "input": {"data": {"result": {"n": [1, "x"]}}}}
        ),
    ]
    lines = [(line.t, line.text) for line in timeline(log, 10.0, Redactor([]))]
    assert lines == [
        (10, "Queue picked up job"),
        (11, "says: I look."),
        (12, 'type text: a "b"\n'),
        (13, "the tool failed: detail: bad"),
        (14, "extraction data: result: n: [1, x]"),
    ]


def test_times_are_distances_and_never_run_back() -> None:
    stamps = ["2026-01-01T10:00:00", "2026-01-01T10:00:02.5", None, "nonsense", "2026-01-01T09:00:00+02:00"]
    found = entries([{"timestamp": stamp, "log_type": "system", "content": ""} for stamp in stamps])
    assert [entry.t for entry in found] == [0, 2.5, 2.5, 2.5, 2.5]


@pytest.mark.parametrize("answer", [None, {}, "x", 5])
def test_a_log_that_is_no_list_is_no_log(answer: object) -> None:
    with pytest.raises(ServerOut):
        entries(answer)


@given(
    st.recursive(
        st.none() | st.text() | st.integers(), lambda x: st.lists(x) | st.dictionaries(st.text(), x), max_leaves=20
    )
)
def test_content_of_any_form_is_borne(content: object) -> None:
    log = [LogEntry(0, kind, content) for kind in ("message", "tool_use", "system", "error", "odd")]
    timeline(log, 0.0, Redactor(["secret"]))
    usage(
        [
            {"response": content},
            {"response": {"status_code": 200, "body": content}},
            {"response": {"status_code": content, "body": content}},
        ],
        log,
    )
    for exchange in ({"response": content}, {"error": content}, {"response": {"status_code": 529, "body": content}}):
        trouble_of("odd", [exchange], log)
    assert usage(contents([{"content": content}]), []) is not None


def test_an_exchange_whose_answer_is_not_whole_counts_with_the_servers_numbers() -> None:
    content = {"response": {"status_code": 200, "body": '{"usage": {"inp'}, "input_tokens": 7, "output_tokens": 3}
    assert usage([content], []) == {
        "turns": 1, "input_tokens": 7, "output_tokens": 3, "tool_calls": 0, "tool_failures": 0,
    }  # fmt: skip


def test_an_exchange_that_failed_is_no_turn() -> None:
    assert usage([{"response": {"status_code": 529, "body": "{}"}}], [])["turns"] == 0
