"""Which connection strings PyMySQL can follow; what else there is in one is left to the ODBC driver."""

from __future__ import annotations

from typing import Any

import pytest

from runner.sql.streamed import NotStreamed, Streamed, _options

DRIVER = "DRIVER={MariaDB Unicode};"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Server=db;UID=u;PWD={a}}b;c};Database=d", {"host": "db", "user": "u", "password": "a}b;c", "database": "d"}),
        ("SERVERNAME=db;PORT=3307;USER=u;PASSWORD=x;DB=d;CHARSET=utf8", {"host": "db", "port": 3307, "user": "u", "password": "x", "database": "d"}),
        ("SOCKET=/run/s;UID=u;PWD=", {"unix_socket": "/run/s", "user": "u"}),
    ],
)  # fmt: skip
def test_what_a_connection_string_says(text: str, options: dict[str, Any]) -> None:
    assert _options(DRIVER + text) == options


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("DSN=practice;PWD=hush", "keyword DSN"),
        (DRIVER + "Server=db;SSLCA=/ca.pem;PWD=hush", "keyword SSLCA"),
        (DRIVER + "Server=db;INITSTMT=SET x;PWD=hush", "keyword INITSTMT"),
        (DRIVER + "UID=u;PWD=hush", "no server of its own"),
        (DRIVER + "Server=db;Port=x;PWD=hush", "port"),
        (DRIVER + "SOCKET=/nowhere/socket;UID=u;PWD=hush", "could not connect"),
    ],
)
def test_what_is_left_to_the_driver_is_said_without_a_secret(text: str, why: str) -> None:
    with pytest.raises(NotStreamed, match=why) as caught:
        Streamed(text)
    assert "hush" not in str(caught.value)
