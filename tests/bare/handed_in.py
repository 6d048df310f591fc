"""What a bare Debian is given of this computer: the way to its package archives, and packages that were fetched before.

* apt: where Debian's packages come from (``vm_images/debian-wine/archives``) and how they are fetched; packages in apt's cache are linked.
* pip: its configuration, and what that names: indexes, folders of wheels, constraints, certificates. Wheels that pip built itself here
  are not handed in: whether they can be built is part of what is looked at.
* the network: names and name servers.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PLACE = Path("/host")
"""Where it lies in the bare Debian."""
HOME = "/root"
"""The user's folder there."""
_APT = re.compile(r'^Acquire::(?:http|https|Check-Date|Check-Valid-Until|Retries)\b.* ".+";$', re.MULTILINE)
_PATH = re.compile(r"(?<![\w.:/-])(?:file://)?(/[\w.+@-]+(?:/[\w.+@-]+)*)")
_VARIABLES = re.compile(r"PIP_\w+|(?:https?|no)_proxy|(?:HTTPS?|NO)_PROXY")


@dataclass(frozen=True)
class HandedIn:
    """How packages are had in the bare Debian.

    Attributes:
        variables: For the environment of everything that runs there.
        files: What is written, by its path there.
        folders: Folders of this computer that are shown there, read-only, below :data:`PLACE`.
    """

    variables: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes] = field(default_factory=dict)
    folders: tuple[Path, ...] = ()


def apt_settings() -> str:
    """How apt fetches packages here: proxies and the like, in the form of its configuration files."""
    done = subprocess.run(["apt-config", "dump"], capture_output=True, text=True, check=True, timeout=60)
    return "".join(f"{line}\n" for line in _APT.findall(done.stdout))


def pip_settings(environment: Mapping[str, str], home: Path, etc: Path = Path("/etc")) -> HandedIn:
    """Pip's configuration, and what it names.

    Args:
        environment: This process's variables.
        home: The user's folder.
        etc: The system's configuration.
    """
    user = Path(environment.get("XDG_CONFIG_HOME") or home / ".config")
    places = {
        etc / "xdg/pip/pip.conf": "/etc/xdg/pip/pip.conf",
        etc / "pip.conf": "/etc/pip.conf",
        home / ".pip/pip.conf": f"{HOME}/.pip/pip.conf",
        user / "pip/pip.conf": f"{HOME}/.config/pip/pip.conf",
    }
    if own := environment.get("PIP_CONFIG_FILE"):
        places[Path(own)] = _there(Path(own))
    files: dict[str, bytes] = {}
    folders: set[Path] = set()

    def moved(found: re.Match[str]) -> str:
        path = Path(found[1])
        if path.is_file():
            files.setdefault(_there(path), path.read_bytes())
        elif path.is_dir():
            # The pages of an index (PEP 503) may point to files beside it.
            folders.add(path.parent if path.name == "simple" else path)
        else:
            return found[0]
        return found[0].replace(found[1], _there(path))

    variables = {name: _PATH.sub(moved, value) for name, value in environment.items() if _VARIABLES.fullmatch(name)}
    files |= {to: _PATH.sub(moved, place.read_text()).encode() for place, to in places.items() if place.is_file()}
    return HandedIn(variables, files, tuple(sorted(folders)))


def _there(path: Path) -> str:
    return str(PLACE / path.relative_to("/"))


def link_packages(root: Path) -> None:
    """Puts the packages of this computer's apt cache into that of the bare Debian."""
    cache = Path("/var/cache/apt/archives")
    target = root / cache.relative_to("/")
    for package in cache.glob("*.deb"):
        try:
            os.link(package, target / package.name)
        except OSError:  # another file system
            shutil.copyfile(package, target / package.name)
