"""The registry of the audit: keys that changed and that no observable looks at, in groups, what changes by itself marked.

Systems and programs write the registry all the time: what was used last, where windows stood, how often something was started. Such
keys are told with the reason, behind all others; none of them is left out.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from contracts.globs import compile_glob
from contracts.schema import Observable, RegistryKey
from runner.changed_keys import KeyChange
from runner.record import RegistryGroup, RegistrySpots
from validators.registry import folded_name, key_path, value_path

MAX_GROUPS = 40
"""How many groups are told; keys are counted all the same."""
MAX_EXAMPLES = 5
"""How many keys of a group are named."""
_DEEPEST, _SHALLOWEST = 6, 2
"""How many names of a key's path make a group."""
_FEW = 3
"""Into how many others a place may be parted."""

_VOLATILE = tuple(
    (re.compile(pattern, re.IGNORECASE), why)
    for pattern, why in (
        (r"\\Explorer\\(UserAssist|FeatureUsage)(\\|$)", "which programs were started, and how often"),
        (r"(MRU|MRUList|MRUListEx|MostRecentlyUsed)(\\|$)", "what was used last"),
        (r"\\(RecentDocs|RunMRU|TypedPaths|ComDlg32|CIDSizeMRU|Recent File List|Recent Files|File MRU|Place MRU)(\\|$)",
         "what was used last"),
        (r"\\(Shell|ShellNoRoam)\\(Bags|BagMRU|MuiCache)(\\|$)|\\MuiCache(\\|$)", "how folders were looked at"),
        (r"\\Explorer\\(SessionInfo|StartPage2?|StreamMRU|Streams|TrayNotify|Taskband|HideDesktopIcons|VirtualDesktops)(\\|$)",
         "the desktop's own notes"),
        (r"\\(Volatile Environment|SessionInfo)(\\|$)", "made anew at each log-on"),
        (r"\\(CurrentControlSet|ControlSet\d{3})\\(Enum|Control\\(DeviceClasses|DeviceContainers|Video|Class))(\\|$)",
         "devices that the system has found"),
        (r"\\(CurrentControlSet|ControlSet\d{3})\\Services\\(bam|dam)\\State(\\|$)", "which programs ran"),
        (r"\\(CurrentControlSet|ControlSet\d{3})\\Services\\(W32Time|Tcpip\\Parameters\\Interfaces|SharedAccess|rdyboost)(\\|$)",
         "clock, network addresses and caches"),
        (r"\\(CurrentControlSet|ControlSet\d{3})\\Control\\(Session Manager|Windows|hivelist|Lsa|Nsi|Power|WMI|ProductOptions)(\\|$)",
         "the system's own notes"),
        (r"\\(WindowsUpdate|Windows Search|Windows Defender|DeliveryOptimization|Diagnostics|DiagTrack|Prefetcher|Superfetch|WBEM"
         r"|CloudStore|Notifications|ContentDeliveryManager|AppModel|AppCompatFlags|Reliability|Schedule|BITS|SPP|Tracing)(\\|$)",
         "the system's own maintenance"),
        (r"\\(SystemCertificates|Cryptography\\RNG|Internet Settings\\(5\.0\\)?(Cache|Connections)|ProfileList|RADAR)(\\|$)",
         "caches and counters"),
        (r"\\Wine\\(Fonts|MSHTML)(\\|$)|\\CurrentVersion\\Fonts(\\|$)", "fonts that the system has found"),
        (r"\\(Window(Pos|Position|Placement)|Placement|Toolbars?|Columns)(\\|$)", "where windows and bars stood"),
    )
)  # fmt: skip
"""What writes by itself, by its place. Of Windows' documentation and of what practice shows; a key that is not named is not volatile."""


def sort_keys(changed: Iterable[KeyChange], observe: Mapping[str, Observable]) -> RegistrySpots:
    """Tells keys that are observed from those that nothing looks at, and groups the latter.

    Args:
        changed: What differs.
        observe: The contract's observables. What an ``ignore`` rule takes out of sight is not observed.
    """
    watched = [_Watched.of(spec) for spec in observe.values() if isinstance(spec, RegistryKey)]
    observed = 0
    outside: list[KeyChange] = []
    for change in changed:
        if all(any(spec.sees(part) for spec in watched) for part in _parts(change)):
            observed += 1
        else:
            outside.append(change)
    groups = _groups(outside)
    left_out = sum(group.keys for group in groups[MAX_GROUPS:])
    return RegistrySpots(observed=observed, groups=groups[:MAX_GROUPS], left_out=left_out)


def volatile(path: str) -> str:
    """Why a key changes by itself; empty: it does not, as far as is known."""
    return next((why for pattern, why in _VOLATILE if pattern.search(path)), "")


class _Part(NamedTuple):
    """The key itself (``value`` is ``None``) or one of its values."""

    key: str
    value: str | None


def _parts(change: KeyChange) -> Iterator[_Part]:
    if change.what != "modified":
        yield _Part(change.path, None)
    yield from (_Part(change.path, value) for value in change.values)


class _Watched(NamedTuple):
    """An observed key."""

    roots: tuple[str, ...]
    """Where it lies, folded: several for a view that is merged."""
    spec: RegistryKey

    @classmethod
    def of(cls, spec: RegistryKey) -> _Watched:
        return cls(tuple(folded_name(root) for root in _places(spec)), spec)

    def sees(self, part: _Part) -> bool:
        folded = folded_name(part.key)
        for root in self.roots:
            if folded == root or folded.startswith(root + "\\"):
                inside = part.key[len(root) + 1 :]
                shown = key_path(inside, self.spec.registry) if part.value is None else value_path(inside, part.value)
                return not any(compile_glob(rule.path)(shown) for rule in self.spec.ignore)
        return False


def _places(spec: RegistryKey) -> list[str]:
    """Where an observed key lies, by the names that changed keys have."""
    root, _, below = spec.registry.partition("\\")
    full = spec.registry
    match root.upper():
        case "HKCR":
            return [rf"{hive}\Software\Classes\{below}".rstrip("\\") for hive in ("HKLM", "HKCU")]
        case "HKCC":
            return [rf"HKLM\System\CurrentControlSet\Hardware Profiles\Current\{below}".rstrip("\\")]
        case "HKU" if below.upper().startswith("S-1-5-21-"):
            return ["\\".join(["HKCU", *below.split("\\")[1:]])]
        case "HKLM" if spec.view == 32 and below.upper().startswith("SOFTWARE"):
            software, _, rest = below.partition("\\")
            # Some keys below it are shared by both views: then the key itself is where it says.
            return [rf"HKLM\{software}\Wow6432Node\{rest}".rstrip("\\"), full]
        case _:
            return [full]


def _groups(changed: list[KeyChange]) -> list[RegistryGroup]:
    """In groups by the first names of their paths, those that may mean something first.

    A place is told as exactly as leaves its keys together: it is parted only into few others, and never into more than are told.
    """
    groups = _parted(changed, _SHALLOWEST)
    for depth in range(_SHALLOWEST + 1, _DEEPEST + 1):
        for group, keys in list(groups.items()):
            parts = _parted(keys, depth)
            if len(parts) <= _FEW and len(groups) - 1 + len(parts) <= MAX_GROUPS:
                del groups[group]
                groups |= parts
    ordered = sorted(groups.items(), key=lambda one: (bool(one[0][0]), folded_name(one[0][1])))
    return [_group(begin, why, keys) for (why, begin), keys in ordered]


def _parted(changed: Iterable[KeyChange], depth: int) -> dict[tuple[str, str], list[KeyChange]]:
    """Keys by the reason why they change by themselves, and by so many names of their paths."""
    parts: dict[tuple[str, str], list[KeyChange]] = {}
    for change in changed:
        begin = "\\".join(change.path.split("\\")[:depth])
        parts.setdefault((volatile(change.path), begin), []).append(change)
    return parts


def _group(begin: str, why: str, keys: list[KeyChange]) -> RegistryGroup:
    counts = Counter(change.what for change in keys)
    return RegistryGroup(
        key=begin,
        keys=len(keys),
        created=counts["created"],
        modified=counts["modified"],
        deleted=counts["deleted"],
        volatile=why,
        examples=[_words(change, begin) for change in keys[:MAX_EXAMPLES]],
    )


def _words(change: KeyChange, group: str) -> str:
    r"""``created Sub\Key: Value, Other``, by the path below the group's."""
    names = ", ".join(name or "(default)" for name in change.values[:MAX_EXAMPLES])
    more = f", and {len(change.values) - MAX_EXAMPLES} more" if len(change.values) > MAX_EXAMPLES else ""
    inside = change.path[len(group) + 1 :]
    return f"{change.what}{' ' if inside else ''}{inside}{f': {names}{more}' if names else ''}"
