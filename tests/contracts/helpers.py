"""What the tests of contracts share: the example contract, and problems in a short form."""

from pathlib import Path

from contracts.load import ContractError, load_text

EXAMPLE = (Path(__file__).parent / "new_patient.yaml").read_text(encoding="utf-8")


def edited(*changes: tuple[str, str]) -> str:
    """The example with each first text replaced, once, by the second."""
    text = EXAMPLE
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text


def problems(text: str | bytes, **parameters: object) -> list[str]:
    """What is wrong with a contract, one line each, without the file's name."""
    try:
        load_text(text, name="c", parameters=parameters)  # type: ignore[arg-type]
    except ContractError as error:
        return [str(problem).removeprefix("c:") for problem in error.problems]
    return []


def place(text: str, part: str, within: str = "") -> str:
    """Line and column of ``part``, the first after ``within``, as messages begin with it."""
    offset = text.index(part, text.index(within) if within else 0)
    before = text[:offset]
    return f"{before.count(chr(10)) + 1}:{offset - before.rfind(chr(10))}: "
