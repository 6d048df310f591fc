"""What a bare Debian is given of this computer: what pip's configuration names, under other paths, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bare.handed_in import HOME, PLACE, pip_settings


@pytest.fixture
def host(tmp_path: Path) -> Path:
    """A computer's files: two indexes, wheels, a certificate, constraints; and pip's configuration in its places."""
    for folder in ("index/simple", "index/files", "wheels", "home/.config/pip", "etc/xdg/pip", "secret"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "ca.pem").write_bytes(b"certificate")
    (tmp_path / "etc/xdg/pip/constraints.txt").write_text("one<2\n")
    (tmp_path / "etc/xdg/pip/pip.conf").write_text(
        f"[global]\nconstraint = {tmp_path}/etc/xdg/pip/constraints.txt\ncert = {tmp_path}/ca.pem\n"
    )
    (tmp_path / "home/.config/pip/pip.conf").write_text(
        f"[global]\nextra-index-url = file://{tmp_path}/index/simple https://index.invalid{tmp_path}/secret\n"
    )
    return tmp_path


def test_what_the_configuration_names_is_handed_in_and_named_by_its_new_path(host: Path) -> None:
    given = pip_settings({"PIP_FIND_LINKS": f"{host}/wheels /not/there", "HOME": "x"}, host / "home", host / "etc")
    moved = f"{PLACE}{host}"
    assert given.variables == {"PIP_FIND_LINKS": f"{moved}/wheels /not/there"}
    assert given.files == {
        f"{moved}/ca.pem": b"certificate",
        f"{moved}/etc/xdg/pip/constraints.txt": b"one<2\n",
        "/etc/xdg/pip/pip.conf": (
            f"[global]\nconstraint = {moved}/etc/xdg/pip/constraints.txt\ncert = {moved}/ca.pem\n".encode()
        ),
        f"{HOME}/.config/pip/pip.conf": (
            f"[global]\nextra-index-url = file://{moved}/index/simple https://index.invalid{host}/secret\n".encode()
        ),
    }
    # An index with the files beside it that its pages point to; what only looks like a path of this computer's is none.
    assert given.folders == (host / "index", host / "wheels")


def test_a_configuration_named_by_a_variable_is_handed_in_with_what_it_names(host: Path) -> None:
    own = host / "own.conf"
    own.write_text(f"[install]\nfind-links = {host}/wheels\n")
    given = pip_settings({"PIP_CONFIG_FILE": str(own)}, host / "none", host / "none")
    moved = f"{PLACE}{host}"
    assert given.variables == {"PIP_CONFIG_FILE": f"{moved}/own.conf"}
    assert given.files == {f"{moved}/own.conf": f"[install]\nfind-links = {moved}/wheels\n".encode()}


def test_proxies_are_handed_in_and_no_other_variable(host: Path) -> None:
    environment = {"https_proxy": "http://proxy.invalid:3128", "NO_PROXY": "localhost", "PATH": "/bin", "TOKEN": "s"}
    given = pip_settings(environment, host / "none", host / "none")
    assert given.variables == {"https_proxy": "http://proxy.invalid:3128", "NO_PROXY": "localhost"}
