"""Reading task contracts: YAML with positions, parameters, models, and every problem with its place in the file."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from contracts import shape
from contracts.check import check, remarks
from contracts.document import MAX_BYTES, Document, Plain, children, parse
from contracts.explain import explain
from contracts.parameters import Override, Parameters, read_parameters, substitute
from contracts.problems import ContractError, Finding, Loc, Problem
from contracts.schema import ImageContent, TaskContract

__all__ = ["ContractError", "LoadedContract", "Problem", "load_contract", "load_text", "read_model"]

M = TypeVar("M", bound=BaseModel)
_FREE_DATA = ("returns", "schema")
"""Where null is a value: a JSON Schema is passed on as it stands."""
_HIDDEN = "(secret)"
MAX_PICTURE = 16 << 20
"""The largest picture beside a contract that is read, in bytes."""


@dataclass(frozen=True)
class LoadedContract:
    """A contract that can be used.

    Attributes:
        contract: With the parameters' values put in.
        path: The file, or ``None`` if it was read from a text.
        source: The file's bytes.
        sha256: Their hash, in hexadecimal.
        warnings: What is legal and easily not meant, with places as problems have them.
        parameter_uses: For each parameter, the places that refer to it.
        pictures: The pictures beside the contract that its rules compare with, by the name that they have there.
    """

    contract: TaskContract
    path: Path | None
    source: bytes
    sha256: str
    warnings: tuple[Problem, ...]
    parameter_uses: Mapping[str, tuple[Loc, ...]]
    _document: Document = field(repr=False, compare=False)
    pictures: Mapping[str, bytes] = field(default_factory=dict, repr=False)

    def problem(self, loc: Loc, message: str, hint: str = "") -> Problem:
        """Makes a problem about the element at ``loc``, with its position in the file."""
        return _located(self._document, Finding(loc, message, hint))


def load_contract(path: Path, *, parameters: Mapping[str, Override] | None = None) -> LoadedContract:
    """Reads a contract from a file.

    Args:
        path: The file: UTF-8, at most 1 MiB.
        parameters: Values that replace the contract's own; texts are converted to the declared types.

    Raises:
        ContractError: The file cannot be read or used; every problem found is in it.
    """
    source = _read(path)
    return _load(source, str(path), path, parameters or {}, None)


def load_text(
    text: str | bytes,
    *,
    name: str,
    parameters: Mapping[str, Override] | None = None,
    pictures: Mapping[str, bytes] | None = None,
) -> LoadedContract:
    """Reads a contract from a text; ``name`` stands in place of the file's name in messages.

    Args:
        text: The contract.
        name: For messages.
        parameters: As for :func:`load_contract`.
        pictures: What would stand beside the file: pictures that rules compare with.

    Raises:
        ContractError: As :func:`load_contract`.
    """
    return _load(text, name, None, parameters or {}, pictures or {})


def read_model(path: Path, model: type[M]) -> M:
    """Reads a YAML file of another kind (an image's manifest, a prompt) by the same rules, without parameters.

    Raises:
        ContractError: As :func:`load_contract`.
    """
    document = parse(_read(path), str(path))
    root = shape.of(model)
    _refuse_nulls(document, document.data, root)
    result = _validated(document, document.data, model, root)
    if result is None or document.problems:
        raise ContractError(document.problems)
    return result


def _read(path: Path) -> bytes:
    def failed(why: str) -> ContractError:
        return ContractError([Problem(str(path), 1, 1, "", f"the file cannot be read: {why}")])

    try:
        # Not to wait for ever: a named pipe that nobody writes to would block the opening.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise failed("it is no plain file")
            return file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        raise failed(getattr(error, "strerror", None) or str(error)) from None


def _load(
    text: str | bytes,
    name: str,
    path: Path | None,
    overrides: Mapping[str, Override],
    given: Mapping[str, bytes] | None,
) -> LoadedContract:
    document = parse(text, name)
    root = shape.of(TaskContract)
    _refuse_nulls(document, document.data, root)
    parameters = read_parameters(document, overrides)
    substitution = substitute(document, parameters, root)
    is_secret = _secrecy(parameters, substitution.secret)
    contract = _validated(document, substitution.data, TaskContract, root, is_secret=is_secret)
    if contract is not None:
        for finding in check(contract):
            _report(document, finding)
        for finding in remarks(contract):
            document.warn(finding.loc, finding.message, finding.hint, mark=document.value_mark(finding.loc))
    pictures = _pictures(document, contract, path, given) if contract is not None and not document.problems else {}
    if contract is None or document.problems:
        raise ContractError(_redacted(document.problems, parameters))
    source = text.encode() if isinstance(text, str) else text
    return LoadedContract(
        contract=contract,
        path=path,
        source=source,
        sha256=hashlib.sha256(source).hexdigest(),
        warnings=tuple(_redacted(document.warnings, parameters)),
        parameter_uses={name: tuple(places) for name, places in substitution.uses.items()},
        _document=document,
        pictures=pictures,
    )


def _pictures(
    document: Document, contract: TaskContract, path: Path | None, given: Mapping[str, bytes] | None
) -> dict[str, bytes]:
    """The pictures that rules compare with, from beside the contract or as given."""
    found: dict[str, bytes] = {}
    effects = contract.effects
    for which, items in (("expect", effects.expect), ("allow", effects.allow), ("forbid", effects.forbid)):
        for index, effect in enumerate(items):
            for number, rule in enumerate(effect.contents):
                name = rule.image.like if isinstance(rule, ImageContent) else None
                if name is None or name in found:
                    continue
                within: Loc = (number,) if isinstance(effect.content, list) else ()
                loc: Loc = ("effects", which, index, "content", *within, "image", "like")
                try:
                    data = given[name] if given is not None else _beside(path, name)
                except (OSError, ValueError, LookupError) as error:
                    why = getattr(error, "strerror", None) or "there is none of that name"
                    document.report(loc, f"the picture cannot be read: {why}", "it stands beside or below the contract")
                else:
                    found[name] = data
    return found


def _beside(path: Path | None, name: str) -> bytes:
    folder = (path or Path()).parent.resolve()
    place = (folder / name.replace("\\", "/")).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise FileNotFoundError
    with place.open("rb") as file:
        data = file.read(MAX_PICTURE + 1)
    if len(data) > MAX_PICTURE:
        raise OSError(0, f"it holds more than {MAX_PICTURE >> 20} MiB")
    return data


def _validated(
    document: Document,
    data: Plain,
    model: type[M],
    root: shape.Shape,
    *,
    is_secret: Callable[[Loc], bool] = lambda _loc: False,
) -> M | None:
    """The model, or ``None`` after reporting what does not fit."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        for finding in explain(error, data, root, is_secret=is_secret):
            _report(document, finding)
        return None


def _located(document: Document, finding: Finding) -> Problem:
    probe = Document(document.name, values=document.values, keys=document.keys)
    _report(probe, finding)
    return probe.problems[0]


def _report(document: Document, finding: Finding) -> None:
    mark = document.key_mark(finding.loc) if finding.on_key else document.value_mark(finding.loc)
    document.report(finding.loc, finding.message, finding.hint, mark=mark)


def _refuse_nulls(document: Document, value: Plain, root: shape.Shape) -> None:
    """Reports every empty value: nothing is said by writing a name and no value, and null in an effect is ambiguous."""
    pending: list[tuple[Loc, Plain, shape.Shape | None]] = [((), value, root)]
    while pending:
        loc, item, expected = pending.pop()
        if loc[:2] == _FREE_DATA:
            continue
        expected = expected.chosen(item) if expected is not None else None
        if item is None and loc:
            is_matcher = expected is not None and "literal" in expected.choices
            hint = (
                "a field that is NULL is written `{is: null}`, an empty one `{is: empty}`"
                if is_matcher
                else "give it a value or leave it out"
            )
            document.report(loc, "no value stands here", hint)
        for where, inner in children(loc, item):
            pending.append((where, inner, expected.child(where[-1]) if expected is not None else None))


def _secrecy(parameters: Parameters, places: set[Loc]) -> Callable[[Loc], bool]:
    def is_secret(loc: Loc) -> bool:
        if len(loc) >= 2 and loc[0] == "parameters" and loc[1] in parameters.secret:
            return True
        return any(loc[:length] in places for length in range(1, len(loc) + 1))

    return is_secret


def _redacted(problems: Iterable[Problem], parameters: Parameters) -> list[Problem]:
    """Takes secrets out of messages; those of one or two characters cannot be told from ordinary words."""
    secrets = [text for text in parameters.secret_texts() if len(text) > 2]

    def clean(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, _HIDDEN)
        return text

    return [
        Problem(p.file, p.line, p.column, clean(p.field), clean(p.message), clean(p.hint)) if secrets else p
        for p in problems
    ]
