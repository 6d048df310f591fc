"""Keys of model vendors are recognised wherever they stand in a text, and ordinary words that begin like one are left alone."""

from __future__ import annotations

import json
import string
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runner.agents.computeruse.scrub import scrubbed
from runner.agents.legacyuse.redaction import Redactor
from runner.agents.vendor_keys import KEYS
from runner.spellings import BLOT

LETTERS = string.ascii_letters + string.digits


def blotted(text: str) -> str:
    return KEYS.sub(BLOT, text)


def random_text(alphabet: str, least: int, most: int) -> st.SearchStrategy[str]:
    """As a generator of keys makes it: among so many characters there is always a digit."""
    return st.text(alphabet, min_size=least, max_size=most).filter(lambda text: any(map(str.isdigit, text)))


KEY = st.one_of(
    st.builds("sk-{}".format, random_text(LETTERS, 32, 60)),
    st.builds("sk-{}-{}".format, st.sampled_from(["proj", "svcacct", "ant-api03", "or-v1"]), random_text(LETTERS + "-_", 40, 90)),
    st.builds("{}-{}".format, st.sampled_from(["pk", "rk", "api", "key"]), random_text(LETTERS, 24, 48)),
    st.builds("AIza{}".format, st.text(LETTERS + "-_", min_size=35, max_size=35)),
    st.builds("AKIA{}".format, st.text(string.ascii_uppercase + string.digits, min_size=16, max_size=16)),
    st.builds("sk-{}".format, st.text(string.ascii_letters, min_size=32, max_size=48)),
)  # fmt: skip
PLACES = (
    "{}", "Incorrect API key provided: {}.", '"{}"', "x-api-key={}", "https://user:{}@host/", "?key={}&alt=json", "({})", "got\n{}\n",
    "Authorization: Bearer {}", "b'{}'", "a,{},b", "key:{}", "https://host/v1/models?alt=json&amp;key={}",
)  # fmt: skip


@given(KEY, st.sampled_from(PLACES))
def test_a_key_is_found_wherever_it_stands(key: str, place: str) -> None:
    text = place.format(key)
    for written in (text, json.dumps(text), repr(text), json.dumps({"body": json.dumps({"error": text})}), quote(text)):
        clean = blotted(written)
        assert BLOT in clean
        assert key[-12:] not in clean


@given(
    st.sampled_from(["sk-proj-", "sk-", "sk-ant-api03-"]),
    st.text(LETTERS, max_size=6),
    st.integers(3, 60),
    st.text(LETTERS, max_size=4),
)
def test_a_key_that_the_vendor_shows_in_part_is_hidden_whole(prefix: str, begin: str, hidden: int, end: str) -> None:
    shown = f"{prefix}{begin}{'*' * hidden}{end}"
    if len(begin) + hidden + len(end) >= 6:
        assert blotted(f"key provided: {shown} (see") == f"key provided: {BLOT} (see"


@given(random_text(LETTERS + "._~+/-", 24, 200), st.sampled_from(["Bearer", "bearer", "BEARER"]))
def test_a_bearer_token_is_found_in_any_case_of_the_word(token: str, bearer: str) -> None:
    assert token not in blotted(f'{{"authorization": "{bearer} {token}"}}')


WORD = st.text(string.ascii_letters, min_size=1, max_size=14)


@given(
    st.sampled_from(["sk", "pk", "rk", "api", "key", "API", "Key", "SK"]),
    st.lists(WORD, min_size=1, max_size=5),
    st.sampled_from("-_."),
)
def test_words_that_begin_like_a_key_are_left_alone(prefix: str, words: list[str], between: str) -> None:
    text = f"{prefix}-{between.join(words)}"
    if not any(len(run) >= 20 for run in text.split("-")):
        assert blotted(f"see {text}, please") == f"see {text}, please"


@pytest.mark.parametrize(
    "text",
    [
        "press the key-combination ctrl+s", "the API-documentation", "api-version: 2024-06-01", "?api-version=2024-06-01", "sk-learn",
        "sk-learn-compatible estimators", "key-value store 12", "API-Key missing", "disk-0123456789", "Risk-2024-00000001", "monkey-1234567",
        "KEY-F10-and-F11", "x-api-key", "pk-violation", "bearer of bad news", "Bearer authentication", "the bearer", "task_key-12345678",
        "AQ.short", "AIza", "key=value", "monkey=1",
    ],
)  # fmt: skip
def test_ordinary_texts_stay_as_they_are(text: str) -> None:
    assert blotted(text) == text
    assert scrubbed(text) == text
    assert Redactor([]).text(text, 1_000) == text


@pytest.mark.parametrize(
    "key",
    [
        "sk-wrong-key-123456", "sk-test-0123456789abcdefKEY", "sk-proj-abc***xyz", "AIzaSyA1234567890123", "ASIAIOSFODNN7EXAMPLE",
        "AQ.Ab8RN6JcDkE-FgHiJkLmNoPqRsT", "key-3ax6xnjp29jd6fds4gc373sgvjxteol0", "api-1234567890",
    ],
)  # fmt: skip
def test_both_agents_that_meet_keys_hide_them(key: str) -> None:
    for hidden in (scrubbed(f"wrong: {key}"), Redactor([]).text(f"wrong: {key}", 1_000)):
        assert hidden == f"wrong: {BLOT}"


@pytest.mark.parametrize(
    "text", ["sk-" * 50_000, "key-a" * 40_000, "bearer " * 30_000, "sk-" + "a-" * 100_000, "?key=" * 40_000]
)
def test_a_long_text_of_beginnings_costs_little(text: str) -> None:
    """What is looked ahead is bounded: the suite's own limit of time ends this test where the work grows with the square."""
    assert isinstance(blotted(text), str)
