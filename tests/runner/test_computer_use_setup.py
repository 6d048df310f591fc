"""What is set for the computer-use agent, what is missing for it, and what it costs: specifications, settings, doctor, prices."""

from __future__ import annotations

import gc
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from contracts.load import ContractError
from runner.agents.base import AgentSpecError, plan
from runner.agents.computer_use import ComputerUseAgent, doctor
from runner.agents.computeruse.prices import TABLE, Usage, cost, load_prices
from runner.agents.computeruse.providers.base import ProviderTrouble, trouble_of_status
from runner.agents.computeruse.settings import KEY_VARIABLES, PROVIDERS, URL_VARIABLES, read_settings
from runner.findings import Finding
from tests.peers.model_servers.base import KEY, act
from tests.runner.computer_use_helpers import MODELS, PRICES, scripted, serving

ROOT = Path(__file__).resolve().parents[2]
EACH = pytest.mark.parametrize("provider", PROVIDERS)


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*(name for names in KEY_VARIABLES.values() for name in names), *URL_VARIABLES.values()):
        monkeypatch.delenv(name, raising=False)


def refused(spec: str) -> str:
    with pytest.raises(AgentSpecError) as caught:
        plan(spec)
    return str(caught.value)


def with_key(monkeypatch: pytest.MonkeyPatch, provider: str, key: str = KEY) -> None:
    monkeypatch.setenv(KEY_VARIABLES[provider][0], key)
    if provider == "compatible":
        monkeypatch.setenv(URL_VARIABLES[provider], "http://127.0.0.1:9/v1")


# --- specifications -----------------------------------------------------------------------------------------------------


@EACH
def test_a_provider_and_a_model_are_an_agent(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, provider)
    spec = f"computer-use:{provider}/{MODELS[provider]}"
    (planned,) = plan(spec)
    assert planned.spec == spec
    assert planned.agent.name == f"computer-use {provider}/{MODELS[provider]}"
    assert isinstance(planned.agent, ComputerUseAgent)


@pytest.mark.parametrize("argument", ["", "anthropic", "anthropic/", "claude-opus-5", "acme/x", "/x"])
def test_another_specification_is_refused_with_its_form(argument: str) -> None:
    assert "computer-use:<anthropic|openai|gemini|compatible>/<model>" in refused(f"computer-use:{argument}")


def test_a_model_may_have_slashes_in_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, "compatible")
    settings, _ = read_settings("compatible/moonshotai/Kimi-K2.5")
    assert settings.model == "moonshotai/Kimi-K2.5"


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
def test_a_missing_key_is_told_with_its_variable(provider: str) -> None:
    assert KEY_VARIABLES[provider][0] in refused(f"computer-use:{provider}/x")


def test_a_missing_address_is_told_with_its_variable() -> None:
    assert "LEGACYPROOF_MODEL_URL" in refused("computer-use:compatible/x")


@EACH
def test_a_missing_sdk_is_told_with_its_extra(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, provider)
    module = {"gemini": "google.genai", "compatible": "openai"}.get(provider, provider)
    monkeypatch.setitem(sys.modules, module, None)
    extra = "openai" if provider == "compatible" else provider
    assert f"legacyproof[{extra}]" in refused(f"computer-use:{provider}/x")


def test_the_sdks_are_not_loaded_before_they_are_used() -> None:
    check = (
        "import sys, runner.agents.computer_use; "
        "print([name for name in ('anthropic', 'openai', 'google.genai') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", check], cwd=ROOT, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip() == "[]"


# --- settings files -----------------------------------------------------------------------------------------------------


def settings_file(tmp_path: Path, text: str) -> str:
    path = tmp_path / "model.yaml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_a_settings_file_is_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    path = settings_file(
        tmp_path,
        "provider: openai\nmodel: gpt-5.4\nname: mine\nkey_variable: MY_KEY\ntemperature: 0.3\nmax_tokens: 2048\ntimeout: 5min\n"
        "images: 2\nacknowledge: true\n",
    )
    (planned,) = plan(f"computer-use:{path}")
    assert planned.agent.name == "computer-use mine"
    assert planned.spec == f"computer-use:{path}"
    settings, folder = read_settings(path)
    assert (settings.timeout, settings.images, settings.acknowledge, folder) == (300, 2, True, tmp_path)


def test_the_defaults_are_those_of_the_paper() -> None:
    settings, _ = read_settings("anthropic/claude-opus-4-6")
    assert (settings.temperature, settings.max_tokens, settings.timeout) == (0, 4096, 900)
    assert settings.acknowledge is False


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("temprature: 0", "temprature"),
        ("temperature: 9", "2"),
        ("temperature: warm", "temperature"),
        ("max_tokens: 1", "64"),
        ("timeout: 900", "duration"),
        ("images: 0", "1"),
        ("api_key: sk-x", "api_key"),
        ("acknowledge: maybe", "`true` or `false`"),
    ],
)
def test_a_setting_that_is_wrong_is_told_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    path = settings_file(tmp_path, f"provider: openai\nmodel: gpt-5.4\n{line}\n")
    told = refused(f"computer-use:{path}")
    assert f"{path}:3:" in told
    assert words in told


BAD_ADDRESSES = (
    "http://h:80a/v1", "http://h:99999", "http://h:0", "ftp://h/v1", "h/v1", "http://", "http:///v1", "http://[::1", "http://h/v 1",
    "https://user:geheim77@h/v1", "https://geheim77@h/v1", "https://user:ge/heim77@h/v1", "https://ge/heim77@h/v1", "https://h/v1?key=geheim77", "https://h/#geheim77",
)  # fmt: skip


@pytest.mark.parametrize("address", BAD_ADDRESSES)
def test_an_address_that_is_not_fit_is_told_and_nothing_of_it_repeated(tmp_path: Path, address: str) -> None:
    path = settings_file(tmp_path, f"provider: openai\nmodel: gpt-5.4\nbase_url: '{address}'\n")
    told = refused(f"computer-use:{path}")
    assert f"{path}:3:" in told
    assert "heim77" not in told
    (finding,) = doctor(path)
    assert finding.ok is False
    assert "heim77" not in f"{finding}"


@EACH
@pytest.mark.parametrize("address", ["http://h:80a/v1", "https://user:geheim77@h/v1"])
def test_the_environments_address_is_looked_at_as_well(
    provider: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(monkeypatch, provider)
    monkeypatch.setenv(URL_VARIABLES[provider], address)
    told_at_planning = refused(f"computer-use:{provider}/{MODELS[provider]}")
    assert URL_VARIABLES[provider] in told_at_planning
    findings = told(doctor(f"{provider}/{MODELS[provider]}"))
    assert findings["endpoint"].ok is False
    assert "heim77" not in f"{told_at_planning}{findings}"


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000/v1", "https://gateway.example/a/b/", "http://[::1]:9/v1"])
def test_a_fit_address_is_taken(tmp_path: Path, address: str) -> None:
    settings, _ = read_settings(settings_file(tmp_path, f"provider: openai\nmodel: x\nbase_url: '{address}'\n"))
    assert settings.url() == address


@EACH
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("ALL_PROXY", "socks5://user:geheim77@127.0.0.1:9"),
        ("HTTPS_PROXY", "gopher://user:geheim77@h:1"),
        ("HTTPS_PROXY", "http://user:geheim77@h:80a"),
        ("SSL_CERT_FILE", "/nowhere/geheim77.pem"),
    ],
)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_an_sdk_that_cannot_be_set_up_is_told_when_planning(
    provider: str, variable: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(monkeypatch, provider)
    monkeypatch.setitem(sys.modules, "socksio", None)
    monkeypatch.setenv(variable, value)
    spec = f"{provider}/{MODELS[provider]}"
    told_at_planning = refused(f"computer-use:{spec}")
    gc.collect()  # what an SDK left half made says so when it goes
    assert variable in told_at_planning
    findings = told(doctor(spec))
    assert findings["endpoint"].ok is False
    assert "geheim77" not in f"{told_at_planning}{findings}"


def test_a_settings_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert "cannot be read" in refused(f"computer-use:{tmp_path / 'no.yaml'}")


def test_a_price_table_of_ones_own_lies_beside_the_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, "openai")
    path = settings_file(tmp_path, "provider: openai\nmodel: mine\nprices: table.yaml\n")
    assert "table.yaml" in refused(f"computer-use:{path}")
    (tmp_path / "table.yaml").write_text(
        "schema: 1\nas_of: 2026-01-01\nmodels:\n  - {provider: openai, model: mine, input: 1, output: 2}\n",
        encoding="utf-8",
    )
    assert len(plan(f"computer-use:{path}")) == 1


# --- prices -------------------------------------------------------------------------------------------------------------


def test_the_price_table_is_dated_and_says_where_from() -> None:
    assert date.fromisoformat(PRICES.as_of) >= date(2026, 1, 1)
    assert set(PRICES.sources) == set(PROVIDERS)
    assert {entry.provider for entry in PRICES.models} == set(PROVIDERS)
    names = [(entry.provider, entry.model) for entry in PRICES.models]
    assert len(names) == len(set(names))


@EACH
def test_the_models_of_the_tests_have_a_price(provider: str) -> None:
    assert PRICES.find(provider, MODELS[provider]) is not None


@pytest.mark.parametrize(
    ("provider", "model", "known"),
    [
        ("anthropic", "claude-opus-4-5-20251101", True),
        ("openai", "gpt-5.4-2026-03-05", True),
        ("openai", "claude-opus-4-5", False),
        ("anthropic", "claude-opus-4-5-turbo", False),
    ],
)
def test_a_dated_name_has_the_price_of_its_model(provider: str, model: str, known: bool) -> None:
    assert (PRICES.find(provider, model) is not None) == known


def price(**about: Any) -> Any:
    entry = PRICES.models[0]
    return type(entry).model_validate({"provider": "x", "model": "y", "input": 2, "output": 10} | about)


@pytest.mark.parametrize(
    ("about", "usage", "dollars"),
    [
        ({}, Usage(1_000_000, 0), 2),
        ({}, Usage(0, 1_000_000), 10),
        ({}, Usage(1_000_000, 0, cached=500_000), 2),
        ({"cached": 0.2}, Usage(1_000_000, 0, cached=500_000), 1.1),
        ({"cached": 0.2, "written": 2.5}, Usage(1_000_000, 0, cached=500_000, written=100_000), 1.15),
        ({"above": {"tokens": 999, "input": 4, "output": 20}}, Usage(1_000, 1_000), 0.024),
        ({"above": {"tokens": 1_000, "input": 4, "output": 20}}, Usage(1_000, 1_000), 0.012),
        ({}, Usage(), 0),
    ],
)
def test_what_a_request_costs(about: dict[str, Any], usage: Usage, dollars: float) -> None:
    assert cost(price(**about), usage) == pytest.approx(dollars)


@pytest.mark.parametrize("day", ["yesterday", "2026-02-30", "2026", "November 2026"])
def test_a_price_table_of_no_day_is_refused(day: str, tmp_path: Path) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text(TABLE.read_text().replace(f"as_of: {PRICES.as_of}", f"as_of: '{day}'", 1))
    with pytest.raises(ContractError, match="a day is needed here"):
        load_prices(table)


def test_a_price_below_nought_is_refused(tmp_path: Path) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text(TABLE.read_text().replace("input: 10,", "input: -10,", 1))
    with pytest.raises(ContractError):
        load_prices(table)


# --- what an HTTP status means --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words", "kind"),
    [
        (401, "invalid x-api-key", "auth"),
        (403, "forbidden", "auth"),
        (400, "API key not valid. Please pass a valid API key.", "auth"),
        (400, "Your credit balance is too low to access the API", "quota"),
        (402, "", "quota"),
        (429, "insufficient_quota", "quota"),
        (429, "slow down", "rate"),
        (404, "model: x", "model"),
        (400, "The model `x` does not exist", "model"),
        (408, "", "unavailable"),
        (500, "", "unavailable"),
        (503, "The model is overloaded", "unavailable"),
        (529, "Overloaded", "unavailable"),
        (400, "temperature: Extra inputs are not permitted", "setting"),
        (400, "This model's maximum context length is 8192 tokens", "limit"),
        (400, "content_policy violation", "refused"),
        (400, "messages.1: unexpected role", "request"),
        (413, "request too large", "request"),
    ],
)
def test_a_status_has_one_meaning(status: int, words: str, kind: str) -> None:
    assert trouble_of_status(status, words).kind == kind


@pytest.mark.parametrize(
    ("header", "wait"), [("3", 3.0), ("99999", 300.0), ("-5", 0.0), ("soon", None), (None, None), ("nan", None)]
)
def test_the_wait_that_a_provider_wants_is_bounded(header: str | None, wait: float | None) -> None:
    trouble = trouble_of_status(429, "", retry_after=header)
    assert isinstance(trouble, ProviderTrouble)
    assert trouble.wait == wait


# --- doctor -------------------------------------------------------------------------------------------------------------


def told(findings: list[Finding]) -> dict[str, Finding]:
    assert all(KEY not in f"{finding}" for finding in findings)
    assert all(finding.remedy for finding in findings if finding.ok is False)
    return {finding.name.rpartition(": ")[2]: finding for finding in findings}


def at(tmp_path: Path, provider: str, url: str, model: str | None = None) -> str:
    return settings_file(tmp_path, f"provider: {provider}\nmodel: {model or MODELS[provider]}\nbase_url: {url}\n")


@EACH
def test_doctor_finds_everything_in_order(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, provider)
    with serving(provider, scripted()) as server:
        findings = told(doctor(at(tmp_path, provider, server.url)))
        assert server.requests == 0  # no model was asked, nothing was paid
    assert {name: finding.ok for name, finding in findings.items()} == {
        "SDK": True, "price": True, "key": True, "endpoint": True, "model": True,
    }  # fmt: skip


@EACH
def test_doctor_tells_a_wrong_key(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, provider, "sk-wrong-key-123456")
    with serving(provider, scripted()) as server:
        findings = doctor(at(tmp_path, provider, server.url))
    wrong = [finding for finding in findings if finding.ok is False]
    assert [finding.name.rpartition(": ")[2] for finding in wrong] == ["key"]
    assert KEY_VARIABLES[provider][0] in wrong[0].remedy
    assert "sk-wrong-key" not in f"{findings}"


@EACH
def test_doctor_tells_an_unknown_model_and_price(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(monkeypatch, provider)
    with serving(provider, scripted()) as server:
        findings = told(doctor(at(tmp_path, provider, server.url, "typo-5")))
    assert findings["model"].ok is False
    assert findings["price"].ok is None
    assert findings["endpoint"].ok is True


@EACH
def test_doctor_tells_an_endpoint_that_is_not_there(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(monkeypatch, provider)
    with serving(provider, scripted(act("screenshot"))) as server:
        url = server.url
    findings = told(doctor(at(tmp_path, provider, url)))
    assert findings["endpoint"].ok is False
    assert "network" in findings["endpoint"].remedy


@EACH
def test_doctor_tells_an_endpoint_that_is_another_server(
    provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_key(monkeypatch, provider)
    with serving(provider, scripted()) as server:
        server.page = "<!DOCTYPE html><title>Log in to the guest network</title>"
        findings = told(doctor(at(tmp_path, provider, server.url)))
    assert findings["endpoint"].ok is False
    assert "model" not in findings


@EACH
def test_doctor_tells_a_missing_sdk(provider: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_key(monkeypatch, provider)
    module = {"gemini": "google.genai", "compatible": "openai"}.get(provider, provider)
    monkeypatch.setitem(sys.modules, module, None)
    findings = told(doctor(f"{provider}/{MODELS[provider]}"))
    assert findings["SDK"].ok is False
    assert "pip install" in findings["SDK"].remedy
    assert "endpoint" not in findings


@pytest.mark.parametrize("provider", ["anthropic", "openai", "gemini"])
def test_doctor_tells_a_missing_key(provider: str) -> None:
    findings = told(doctor(f"{provider}/{MODELS[provider]}"))
    assert findings["key"].ok is False
    assert KEY_VARIABLES[provider][0] in findings["key"].message


def test_doctor_tells_a_missing_address() -> None:
    findings = told(doctor("compatible/x"))
    assert findings["endpoint"].ok is False
    assert "LEGACYPROOF_MODEL_URL" in findings["endpoint"].remedy


def test_doctor_tells_a_specification_that_is_none() -> None:
    assert [finding.ok for finding in doctor("acme/x")] == [False]
