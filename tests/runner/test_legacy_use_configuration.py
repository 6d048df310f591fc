"""The configuration of the legacy-use agent: what is wrong with it is told with its place and a remedy."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from runner.agents.base import AgentSpecError
from runner.agents.legacyuse.client import Server
from runner.agents.legacyuse.configuration import (
    Configuration,
    DisplaySettings,
    Limits,
    ProviderSettings,
    Settings,
    load,
)

ENVIRONMENT = {"LEGACY_USE_API_KEY": "the-key"}


def loaded(folder: Path, text: str, environment: dict[str, str] | None = None) -> Configuration:
    path = folder / "lab.yaml"
    path.write_text(text)
    return load(str(path), ENVIRONMENT if environment is None else environment)


def refused(folder: Path, text: str, environment: dict[str, str] | None = None) -> str:
    with pytest.raises(AgentSpecError) as caught:
        loaded(folder, text, environment)
    return str(caught.value)


def test_without_a_file_the_environment_and_the_defaults_count() -> None:
    found = load("", {**ENVIRONMENT, "LEGACY_USE_URL": "http://10.0.0.5:9000/", "LEGACY_USE_LISTEN": "172.17.0.1"})
    assert (found.settings.url, found.settings.prefix) == ("http://10.0.0.5:9000", "/api")
    assert found.settings.tenant == "tenant-default.local.legacy-use.com"
    assert (found.api_key, found.display_host, found.label) == ("the-key", "172.17.0.1", "")


def test_what_the_file_says_counts(tmp_path: Path) -> None:
    text = "schema: 1\nurl: https://lu.example\nprefix: /\ntenant: a.b\ndisplay: {listen: 0.0.0.0, host: host.docker.internal}\n"
    found = loaded(
        tmp_path, text, {**ENVIRONMENT, "LEGACY_USE_URL": "http://elsewhere", "LEGACY_USE_DISPLAY_HOST": "no"}
    )
    assert (found.settings.url, found.settings.prefix, found.settings.tenant) == ("https://lu.example", "", "a.b")
    assert (found.display_host, found.label) == ("host.docker.internal", "lab")


def test_secrets_are_read_where_the_file_says(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-a-file\n")
    text = "schema: 1\napi_key: {file: key}\nprovider: {name: anthropic, credentials: {api_key: {env: MODEL_KEY}}}\n"
    found = loaded(tmp_path, text, {"MODEL_KEY": "from-the-environment"})
    assert found.secrets == ("from-a-file", "from-the-environment")
    assert "from-" not in repr(found)


def test_durations_have_units(tmp_path: Path) -> None:
    assert loaded(tmp_path, "schema: 1\nlimits: {health: 3min, poll: 500ms}\n").settings.limits.health == 180.0
    assert "duration" in refused(tmp_path, "schema: 1\nlimits: {health: 180}\n")


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("url: localhost:8088", "http://127.0.0.1:8088"),
        ("url: http://user:secret@host", "api_key"),
        ("url: http://host/api", "prefix"),
        ("url: http://host:99999", "URL"),
        ("urll: http://host", "urll"),
        ("tenant: 'a b'", "host"),
        ("api_key: the-key-itself", "api_key"),
        ("api_key: {}", "{env: NAME}"),
        ("api_key: {env: A, file: b}", "{env: NAME}"),
        ("provider: {name: nobody}", "nobody"),
        ("display: {listen: localhost}", "IPv4"),
        ("display: {listen: 300.0.0.1}", "IPv4"),
        ("display: {port: 70000}", "65535"),
        ("target: {type: rdp}", "gateway"),
        ("target: {type: vnc, gateway: {host: a}}", "gateway"),
        ("target: {type: teamviewer}", "teamviewer"),
        ("history: forget", "forget"),
        ("limits: {poll: 0s}", "poll"),
        ("prompt_cleanup:", "no value"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    message = refused(tmp_path, f"schema: 1\n{line}\n")
    assert f"{tmp_path / 'lab.yaml'}:2:" in message
    assert words in message


def test_a_secret_in_the_wrong_place_is_not_repeated_in_the_message(tmp_path: Path) -> None:
    assert "hunter2-hunter2" not in refused(tmp_path, "schema: 1\nurl: http://user:hunter2-hunter2@host\n")
    assert "hunter2-hunter2" not in refused(tmp_path, "schema: 1\napi_key: hunter2-hunter2\n")


@pytest.mark.parametrize(
    ("text", "environment", "words"),
    [
        ("schema: 1\n", {}, "LEGACY_USE_API_KEY is not set"),
        ("schema: 1\napi_key: {file: missing}\n", {}, "missing cannot be read"),
        ("schema: 1\napi_key: {file: empty}\n", {}, "empty"),
        ("schema: 1\napi_key: {file: binary}\n", {}, "UTF-8"),
        ("schema: 1\n", {"LEGACY_USE_API_KEY": "two\nlines"}, "characters that a key does not have"),
        ("schema: 1\ndisplay: {listen: 0.0.0.0}\n", ENVIRONMENT, "display.host"),
        ("schema: 1\nca_file: missing.pem\n", ENVIRONMENT, "there is no file"),
        ("schema: 1\nca_file: empty\n", ENVIRONMENT, "empty holds no certificates in PEM form"),
        ("schema: 1\nca_file: binary\n", ENVIRONMENT, "binary holds no certificates in PEM form"),
        (
            "schema: 1\n",
            {**ENVIRONMENT, "LEGACY_USE_CA_FILE": "lab.yaml"},
            "lab.yaml holds no certificates in PEM form",
        ),
        ("schema: 1\ntarget: {type: rdp, gateway: {host: a}}\n", ENVIRONMENT, "display.port"),
        ("schema: 1\n", {**ENVIRONMENT, "LEGACY_USE_URL": "nonsense"}, "LEGACY_USE_URL"),
        ("schema: 1\n", {**ENVIRONMENT, "LEGACY_USE_LISTEN": "nonsense"}, "LEGACY_USE_LISTEN"),
    ],
)
def test_what_cannot_be_used_is_told_with_a_remedy(
    tmp_path: Path, text: str, environment: dict[str, str], words: str
) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    assert words in refused(tmp_path, text, environment)


def test_certificates_are_read_once_before_anything_runs(tmp_path: Path) -> None:
    """Later, a file that has become unreadable would make a run fail that has begun."""
    (tmp_path / "ca.pem").write_bytes(certificate())
    found = loaded(tmp_path, "schema: 1\nurl: https://lu.example\nca_file: ca.pem\n")
    (tmp_path / "ca.pem").unlink()
    assert found.trust is not None
    assert [ca["subject"] for ca in found.trust.get_ca_certs()] == [((("commonName", "lu.example"),),)]
    Server(found).__exit__(None, None, None)


def certificate() -> bytes:
    """A certificate that signs itself, in PEM form."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "lu.example")])
    begun = datetime(2026, 1, 1, tzinfo=UTC)
    builder = x509.CertificateBuilder(
        name, name, key.public_key(), x509.random_serial_number(), begun, begun.replace(year=2036)
    )
    made = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def test_a_file_that_is_not_there_is_told() -> None:
    with pytest.raises(AgentSpecError, match="cannot be read"):
        load("nowhere/lab.yaml", ENVIRONMENT)


def test_the_documentation_shows_every_setting(tmp_path: Path) -> None:
    text = (Path(__file__).resolve().parents[2] / "docs/agents/legacy-use.md").read_text()
    example = text.partition("```yaml\n")[2].partition("```")[0]
    assert loaded(tmp_path, example).display_host == "172.17.0.1"
    names = [
        name for name in Settings.model_fields if name not in ("schema_", "display", "limits", "provider", "target")
    ]
    for model, prefix in ((DisplaySettings, "display."), (Limits, "limits."), (ProviderSettings, "provider.")):
        names += [prefix + name for name in model.model_fields]
    assert not [name for name in [*names, "target"] if f"| `{name}` |" not in text]
