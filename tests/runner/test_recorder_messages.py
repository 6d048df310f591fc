"""The parser of client messages: any fragmentation, any bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.display.errors import DisplayProtocolError
from runner.display.messages import (
    MAX_CUT_TEXT,
    SAFE_ENCODINGS,
    ClientMessage,
    ClientMessageParser,
    CutText,
    KeyEvent,
    PointerEvent,
    SetEncodings,
    SetPixelFormat,
    UpdateRequest,
)

U8, U16, U32 = (st.integers(0, (1 << bits) - 1) for bits in (8, 16, 32))
TRUE_COLOUR = bytes.fromhex("20180001 00ff00ff00ff 100800 000000")
MESSAGES: st.SearchStrategy[ClientMessage] = st.one_of(
    st.just(SetPixelFormat(TRUE_COLOUR)),
    st.lists(st.integers(-(1 << 31), (1 << 31) - 1), max_size=20).map(lambda encodings: SetEncodings(tuple(encodings))),
    st.builds(UpdateRequest, st.booleans(), U16, U16, U16, U16),
    st.builds(KeyEvent, st.booleans(), U32),
    st.builds(PointerEvent, U8, U16, U16),
    st.builds(CutText, st.binary(max_size=50)),
)


@given(messages=st.lists(MESSAGES, max_size=8), cuts=st.lists(st.integers(1, 12), min_size=1))
def test_messages_come_out_as_they_went_in_however_they_are_cut(messages: list[ClientMessage], cuts: list[int]) -> None:
    data = b"".join(message.encode() for message in messages)
    parser, position = ClientMessageParser(), 0
    parsed: list[ClientMessage] = []
    for number in range(len(data)):
        step = cuts[number % len(cuts)]
        parsed += parser.feed(data[position : position + step])
        position += step
    assert parsed == messages
    assert parser.pending == 0


@given(chunks=st.lists(st.binary(max_size=64), max_size=10))
def test_any_bytes_give_messages_or_a_protocol_error(chunks: list[bytes]) -> None:
    parser = ClientMessageParser()
    parsed: list[ClientMessage] = []
    fed = b""
    try:
        for chunk in chunks:
            fed += chunk
            parsed += parser.feed(chunk)
            assert parser.pending <= MAX_CUT_TEXT + 8
    except DisplayProtocolError:
        return
    assert sum(len(message.encode()) for message in parsed) + parser.pending == len(fed)


def test_what_comes_before_a_fault_is_still_understood() -> None:
    parser = ClientMessageParser()
    parsed: list[ClientMessage] = []
    with pytest.raises(DisplayProtocolError, match="200"):
        parsed.extend(parser.feed(KeyEvent(True, 97).encode() + b"\xc8"))
    assert parsed == [KeyEvent(True, 97)]


@given(encodings=st.lists(st.one_of(st.sampled_from(sorted(SAFE_ENCODINGS)), st.integers(-400, 400))))
def test_filtering_keeps_the_order_and_only_what_is_safe(encodings: list[int]) -> None:
    kept = SetEncodings(tuple(encodings)).only_safe().encodings
    assert kept == tuple(encoding for encoding in encodings if encoding in SAFE_ENCODINGS)
    assert not {-312, -313, -308, -258, -257, -309, -316, -305, -307} & set(kept)
