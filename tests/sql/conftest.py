"""Database servers, started when the first test needs them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runner.sql import child, snapshot
from tests.peers import sql_servers
from tests.peers.sql_servers import SqlServer


@pytest.fixture(scope="session")
def postgres() -> Iterator[SqlServer]:
    with sql_servers.postgres() as server:
        yield server


@pytest.fixture(scope="session")
def mariadb() -> Iterator[SqlServer]:
    with sql_servers.mariadb() as server:
        yield server


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> SqlServer:
    """Each of the servers."""
    found: SqlServer = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are read in this process: many small readings without a start for each."""
    monkeypatch.setattr(snapshot, "_ask", lambda job, _: child.answer(job))
