"""Evidence bundles: runs with everything their verdicts rest on, to be carried to another machine and proven unchanged there.

A bundle is a campaign's folder (or the same as a ZIP archive) with a ``manifest.json`` that names every other file with its size and
SHA-256, and ``manifest.sha256`` with the manifest's own. Verifying refuses a byte that was changed, a file that is missing and one
that was added. Of an archive every byte is accounted for: it is written again from what it holds and must come out the same.

The sums tell of damage and of careless hands. Who can write a whole bundle can write its sums as well: for proof against that, keep the
manifest's sum, which export and verify print, in a place of its own.
"""

from __future__ import annotations

import errno
import filecmp
import hashlib
import json
import os
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from contracts.schema import SHORTEST_SECRET
from runner.host_disk import NO_ROOM, Unwritable, unwritable
from runner.record import Reading
from runner.redaction import RecordCopy
from runner.rejudge import Kept
from runner.states import keep_state, load_state
from runner.store import StoreError
from validators.dbf.codepages import LANGUAGE_DRIVERS, encoding
from validators.registry import RegistryState
from validators.sql.form import line_writer

MANIFEST, SEAL = "manifest.json", "manifest.sha256"
FORMAT = 1
MAX_FILES = 1_000_000
MAX_MANIFEST = 256 << 20
MAX_ARCHIVE = 64 << 30
"""The most bytes that an archive may hold."""
_NAME = re.compile(r"blobs/[0-9a-f]{2}/[0-9a-f]{64}|[A-Za-z0-9][A-Za-z0-9._-]{0,299}/record\.json")
_SUM = re.compile(r"[0-9a-f]{64}")
_BLOCK = 1 << 20
_LONG_AGO = (1980, 1, 1, 0, 0, 0)
"""The time of every entry of an archive: the same evidence makes the same bytes."""
_LISTED = 5


class BundleError(Exception):
    """A bundle is not what it was when it was made, or is none; the argument says what is wrong."""


@dataclass(frozen=True)
class Bundle:
    """What a bundle holds.

    Attributes:
        seal: SHA-256 of its manifest: one number that stands for everything in it.
        runs: Names of its runs.
        files: How many files it has beside manifest and seal.
        size: Their bytes.
        redacted: What was left out or blotted out when it was made.
    """

    seal: str
    runs: tuple[str, ...]
    files: int
    size: int
    redacted: tuple[str, ...] = ()


# --- making one -------------------------------------------------------------------------------------------------------


def export(runs: Sequence[Kept], target: Path, *, screens: bool = True, secrets: Sequence[str] = ()) -> Bundle:
    """Writes runs with their evidence into a folder, or into an archive where the target's name ends in ``.zip``.

    Args:
        runs: The runs; their names are different.
        target: What is written; it must not be there.
        screens: Whether pictures of the screen go along.
        secrets: Texts that are blotted out of records and evidence, there each sign by an ``x`` so that tables stay readable.
            What each field of a record carries, and so what becomes of it, :mod:`runner.redaction` says. Pictures and the log of
            keys cannot be searched for them and do not go along; a packed file (a PDF, a picture that the program wrote) is kept
            as it is.

    Raises:
        BundleError: The target is there or is no place to write to, two runs have one name, or a secret is too short to be told
            from other bytes.
        Unwritable: There is no room for it.
        StoreError: Evidence is missing or damaged.
    """
    names = [kept.record.run for kept in runs]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BundleError(f"two runs have the name {twice}: export one campaign at a time")
    if target.exists():
        raise BundleError(f"{target} is there already")
    hidden = tuple(sorted(set(filter(None, secrets)), key=len, reverse=True))
    if hidden and len(hidden[-1]) < SHORTEST_SECRET:
        raise BundleError(f"a secret of fewer than {SHORTEST_SECRET} characters cannot be told from other bytes")
    redacted = ["screens"] if hidden or not screens else []
    if hidden:
        redacted += [
            "log of keys",
            *(["pictures of contracts"] if any(kept.record.contract.pictures for kept in runs) else []),
        ]
        redacted.append(f"{len(hidden)} secret values")
    try:
        with tempfile.TemporaryDirectory(prefix=".export-", dir=target.absolute().parent) as scratch:
            folder = Path(scratch) / "bundle"
            for kept in runs:
                _Copy(kept, folder, screens=screens, secrets=hidden).write()
            bundle = _seal(folder, redacted)
            if target.suffix.lower() == ".zip":
                archive = Path(scratch) / "bundle.zip"
                _write_archive(archive, _members_of(folder))
                archive.rename(target)
            else:
                folder.rename(target)
    except OSError as error:
        trouble = unwritable(error, target, "name a target on another disk")
        raise (BundleError(str(trouble)) if trouble.status == 2 else trouble) from None
    return bundle


class _Copy:
    """Copies one run with its evidence, without what is not to go along."""

    def __init__(self, kept: Kept, folder: Path, *, screens: bool, secrets: Sequence[str]) -> None:
        self._kept = kept
        self._folder = folder
        self._secrets = secrets
        self._of = RecordCopy(secrets, screens=screens, evidence=self._blob, state=self._state).of

    def write(self) -> None:
        record = self._of(self._kept.record)
        if not _NAME.fullmatch(f"{record.run}/record.json"):
            raise StoreError(f"{record.run!r} cannot be a run's name")
        path = self._folder / record.run / "record.json"
        try:
            path.parent.mkdir(parents=True)
        except FileExistsError:
            raise BundleError(
                f"two runs have the name {record.run} when secrets are taken out: export them apart"
            ) from None
        path.write_text(record.model_dump_json(indent=1) + "\n", encoding="utf-8")

    def _state(self, reading: Reading) -> Mapping[str, str | None]:
        """A state's evidence. What has a form of its own is taken apart, so that nothing hides in it and it stays readable."""
        if reading.kind == "registry" and self._secrets:
            return self._registry(reading)
        listing = reading.blobs.get("items")
        if listing is None or reading.kind not in ("files", "windows"):
            return {role: None if blob is None else self._blob(blob) for role, blob in reading.blobs.items()}
        try:
            kept: Any = json.loads(self._get(listing))
            if reading.kind == "files":
                kept["contents"] = [[path, self._blob(blob)] for path, blob in kept["contents"]]
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(f"the evidence of a snapshot cannot be read: {error}") from None
        text = json.dumps(_blotted_texts(kept, self._secrets), separators=(",", ":"))
        return {"items": self._keep(text.encode("ascii"))}

    def _registry(self, reading: Reading) -> Mapping[str, str | None]:
        try:
            state = load_state(reading, self._get)
        except ValueError as error:
            raise StoreError(f"the evidence of a snapshot cannot be read: {error}") from None
        assert isinstance(state, RegistryState)
        named = RegistryState(
            state.exists,
            tuple(replace(key, path=self._plain(key.path)) for key in state.keys),
            tuple(
                replace(value, key=self._plain(value.key), name=self._plain(value.name), data=self._blotted(value.data))
                for value in state.values
            ),
            tuple((self._plain(path), self._plain(reason)) for path, reason in state.skipped),
        )
        return keep_state(named, lambda data: self._keep(bytes(data))).blobs

    def _plain(self, text: str) -> str:
        return str(_blotted_texts(text, self._secrets))

    def _get(self, blob: str) -> bytes:
        return self._kept.campaign.blob(blob)

    def _blob(self, blob: str) -> str:
        return self._keep(self._blotted(self._get(blob)))

    def _keep(self, data: bytes) -> str:
        name = hashlib.sha256(data).hexdigest()
        path = self._folder / "blobs" / name[:2] / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        return name

    def _blotted(self, data: bytes) -> bytes:
        for secret in self._secrets:
            for spelt, blotted in _spellings(secret):
                data = data.replace(spelt, blotted)
        return data


def _blotted_texts(value: Any, secrets: Sequence[str]) -> Any:
    """JSON data with the secrets blotted out of its texts; sums stay, which are made of digits and letters by chance."""
    match value:
        case str() if not _SUM.fullmatch(value):
            for secret in secrets:
                value = value.replace(secret, "x" * len(secret))
            return value
        case dict():
            return {key: _blotted_texts(item, secrets) for key, item in value.items()}
        case list():
            return [_blotted_texts(item, secrets) for item in value]
        case _:
            return value


@lru_cache(maxsize=64)
def _spellings(secret: str) -> tuple[tuple[bytes, bytes], ...]:
    """The bytes that a text may stand in evidence as, each with as many bytes that say nothing; longest first.

    Besides the encodings of tables and files these are the form in which an SQL table's lines escape a text or spell its bytes, and
    JSON's escapes.
    """
    found: dict[bytes, bytes] = {}
    plain = [spelt for name in _ENCODINGS if (spelt := _encoded(secret, name)) is not None]
    escaped = [json.dumps(secret)[1:-1].encode(), line_writer(1, as_copy=True)([secret]).encode("utf-8", "replace")]
    found |= dict.fromkeys([*plain, *escaped], b"x")
    for name, blot in (("utf-16-le", b"x\0"), ("utf-16-be", b"\0x")):
        if (spelt := _encoded(secret, name)) is not None:
            found[spelt] = blot
    for spelt in plain:
        found |= dict.fromkeys([spelt.hex().encode(), spelt.hex().upper().encode()], b"78")
    longest_first = sorted(found.items(), key=lambda item: len(item[0]), reverse=True)
    return tuple((spelt, (blot * len(spelt))[: len(spelt)]) for spelt, blot in longest_first)


_ENCODINGS = sorted({"utf-8", "latin-1", *LANGUAGE_DRIVERS.values()})


def _encoded(text: str, name: str) -> bytes | None:
    """The text's bytes in an encoding of tables; ``None`` where it has none there."""
    try:
        return text.encode(name)
    except UnicodeError:
        return None
    except LookupError:  # one of those that Python does not have
        letters = {encoding(name).decode(bytes([byte])): byte for byte in range(256)}
        return bytes(letters[char] for char in text) if letters.keys() >= set(text) else None


def _seal(folder: Path, redacted: Sequence[str]) -> Bundle:
    """Writes manifest and seal over what a folder holds."""
    sums = {}
    for name, path in _files_of(folder):
        with path.open("rb") as file:
            sums[name] = {"sha256": hashlib.file_digest(file, "sha256").hexdigest(), "size": path.stat().st_size}
    manifest = {"legacyproof_bundle": FORMAT, "redacted": list(redacted), "files": sums}
    text = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    (folder / MANIFEST).write_bytes(text)
    seal = hashlib.sha256(text).hexdigest()
    (folder / SEAL).write_bytes(f"{seal}\n".encode())
    return _bundle(seal, _parsed(text))


# --- proving one ------------------------------------------------------------------------------------------------------


def verify(path: Path) -> Bundle:
    """Proves that a bundle, a folder or an archive, is what it was when it was made.

    Raises:
        BundleError: It is not; the message names what differs.
        StoreError: It cannot be read, so that nothing can be said.
        Unwritable: An archive needs as much room for temporary files as it is large, and there is none.
    """
    try:
        if path.is_dir():
            return _verify(_members_of(path))
        with _archive(path) as members:
            bundle = _verify(members)
            with _scratch(path.stat().st_size) as scratch:
                again = scratch / "again.zip"
                _write_archive(again, members)
                if not filecmp.cmp(path, again, shallow=False):
                    raise BundleError(
                        "the archive has bytes that are none of its files: it was changed or packed again"
                    )
            return bundle
    except Unwritable:
        raise
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}") from None


@contextmanager
def _scratch(needed: int) -> Iterator[Path]:
    """A folder for temporary files.

    Raises:
        Unwritable: There is no room for them.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="legacyproof-") as scratch:
            yield Path(scratch)
    except OSError as error:
        if error.errno not in NO_ROOM:
            raise
        raise unwritable(
            error, Path(tempfile.gettempdir()), "set TMPDIR to a folder elsewhere", needed=needed
        ) from None


@contextmanager
def opened(path: Path) -> Iterator[Path]:
    """A folder with the bundle's runs; an archive is proven and unpacked into a folder that goes away again.

    Raises:
        BundleError: The archive is not what it was when it was made.
        Unwritable: There is no room for unpacking it.
    """
    if path.suffix.lower() != ".zip":
        yield path
        return
    verify(path)
    with _scratch(path.stat().st_size) as scratch:
        folder = scratch / path.stem
        with _archive(path) as members:
            for name, member in members.items():  # names are of the form that `_archive` lets through
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                with member.open() as source, target.open("wb") as file:
                    shutil.copyfileobj(source, file, _BLOCK)
        yield folder


@dataclass(frozen=True)
class _Member:
    """One file of a bundle."""

    size: int
    open: Callable[[], Any]

    def read(self, most: int) -> bytes:
        if self.size > most:
            raise BundleError(f"a file of {self.size} bytes where at most {most} are expected")
        with self.open() as file:
            data: bytes = file.read(most + 1)
        return data

    def sum(self, *, most: int) -> tuple[int, str]:
        """Length and SHA-256 of at most ``most`` bytes and one more."""
        digest, length = hashlib.sha256(), 0
        with self.open() as file:
            while length <= most and (block := file.read(min(_BLOCK, most + 1 - length))):
                digest.update(block)
                length += len(block)
        return length, digest.hexdigest()


_Members = Mapping[str, _Member]


def _verify(members: _Members) -> Bundle:
    for needed in (MANIFEST, SEAL):
        if needed not in members:
            raise BundleError(f"there is no {needed}: this is no bundle, or it is not whole")
    text = members[MANIFEST].read(MAX_MANIFEST)
    seal = hashlib.sha256(text).hexdigest()
    if members[SEAL].read(1_000) != f"{seal}\n".encode():
        raise BundleError(f"{MANIFEST} or {SEAL} was changed: the sum is another one")
    manifest = _parsed(text)
    listed = manifest["files"]
    problems = [f"{name}: missing" for name in sorted(listed.keys() - members.keys())]
    problems += [
        f"{_safe(name)}: not in the manifest" for name in sorted(members.keys() - listed.keys() - {MANIFEST, SEAL})
    ]
    for name in sorted(listed.keys() & members.keys()):
        size, digest = members[name].sum(most=listed[name]["size"])
        if (size, digest) != (listed[name]["size"], listed[name]["sha256"]):
            problems.append(f"{name}: changed")
        elif name.startswith("blobs/") and name.rpartition("/")[2] != digest:
            problems.append(f"{name}: does not hold what its name says")
    if problems:
        more = f"\n… and {len(problems) - _LISTED} more" if len(problems) > _LISTED else ""
        raise BundleError("\n".join(problems[:_LISTED]) + more)
    return _bundle(seal, manifest)


def _safe(name: str) -> str:
    return name.encode("unicode_escape").decode("ascii")[:200]


def _parsed(text: bytes) -> dict[str, Any]:
    """The manifest, checked."""
    try:
        manifest = json.loads(text)
        files = manifest["files"]
        known = manifest["legacyproof_bundle"]
        redacted = manifest["redacted"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise BundleError(f"{MANIFEST} is none") from None
    if known != FORMAT:
        raise BundleError(f"the bundle is of format {known!r}; this version reads {FORMAT}")
    is_sound = (
        isinstance(files, dict)
        and len(files) <= MAX_FILES
        and isinstance(redacted, list)
        and all(isinstance(item, str) for item in redacted)
        and all(_is_entry(name, about) for name, about in files.items())
    )
    if not is_sound:
        raise BundleError(f"{MANIFEST} lists what is no file of a bundle")
    return dict(manifest)


def _is_entry(name: str, about: Any) -> bool:
    return (
        _NAME.fullmatch(name) is not None
        and isinstance(about, dict)
        and type(about.get("size")) is int
        and 0 <= about["size"] <= MAX_ARCHIVE
        and isinstance(about.get("sha256"), str)
        and _SUM.fullmatch(about["sha256"]) is not None
    )


def _bundle(seal: str, manifest: Mapping[str, Any]) -> Bundle:
    files = manifest["files"]
    runs = tuple(sorted(name.partition("/")[0] for name in files if not name.startswith("blobs/")))
    size = sum(about["size"] for about in files.values())
    return Bundle(seal, runs, len(files), size, tuple(manifest["redacted"]))


# --- folders and archives ---------------------------------------------------------------------------------------------


def _files_of(folder: Path) -> Iterator[tuple[str, Path]]:
    """The plain files below a folder, by their names with ``/``.

    Raises:
        BundleError: There is something else, such as a link.
    """
    for where, folders, files in os.walk(folder):
        for name in sorted(files):
            path = Path(where, name)
            if not stat.S_ISREG(path.lstat().st_mode):
                raise BundleError(f"{_safe(str(path.relative_to(folder)))} is no plain file")
            yield path.relative_to(folder).as_posix(), path
        for name in folders:
            if Path(where, name).is_symlink():
                raise BundleError(f"{_safe(str(Path(where, name).relative_to(folder)))} is a link")


def _members_of(folder: Path) -> dict[str, _Member]:
    def member(path: Path) -> _Member:
        return _Member(path.stat().st_size, lambda: path.open("rb"))

    return {name: member(path) for name, path in _files_of(folder)}


@contextmanager
def _archive(path: Path) -> Iterator[dict[str, _Member]]:
    """The files of an archive as :func:`export` writes it: not packed, no name that leads anywhere else."""
    if path.stat().st_size > MAX_ARCHIVE:
        raise BundleError(f"an archive of more than {MAX_ARCHIVE >> 30} GiB")
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_FILES + 2:
                raise BundleError(f"an archive of more than {MAX_FILES} files")
            yield _checked(archive, entries)
    except (zipfile.BadZipFile, zipfile.LargeZipFile, NotImplementedError, RuntimeError, EOFError, ValueError) as error:
        raise BundleError(f"the archive is damaged: {_safe(str(error))}") from None
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise BundleError("the archive is damaged: it names places outside of itself") from None


def _checked(archive: zipfile.ZipFile, entries: Iterable[zipfile.ZipInfo]) -> dict[str, _Member]:
    members: dict[str, _Member] = {}
    for entry in entries:
        name = entry.filename
        if name not in (MANIFEST, SEAL) and not _NAME.fullmatch(name):
            raise BundleError(f"{_safe(name)}: not in the manifest, and no name of a bundle's file")
        if name in members:
            raise BundleError(f"{name}: there twice")
        if entry.compress_type != zipfile.ZIP_STORED or entry.compress_size != entry.file_size or entry.flag_bits:
            raise BundleError(f"{name}: packed or encrypted, which export does not do")

        def opened_entry(entry: zipfile.ZipInfo = entry) -> Any:
            return archive.open(entry)

        members[name] = _Member(entry.file_size, opened_entry)
    return members


def _write_archive(path: Path, members: _Members) -> None:
    """Writes an archive of which every byte follows from what it holds."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name in sorted(members):
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.create_system = 3
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            entry.file_size = members[name].size  # tells whether the entry needs the long form
            with members[name].open() as source, archive.open(entry, "w") as file:
                shutil.copyfileobj(source, file, _BLOCK)
