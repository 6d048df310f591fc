"""What the keys of model vendors look like, for texts in which a key may stand that nobody has told us."""

from __future__ import annotations

import re

KEYS: re.Pattern[str] = re.compile(
    r"""
      (?: (?<![A-Za-z0-9_]) | (?<=\\[nrt]) | (?<=%[0-9A-Fa-f]{2}) | (?<=\\u[0-9A-Fa-f]{4}) )  # a word begins, also after an escape
      (?:
          (?:sk|pk|rk|api|key)-(?=[A-Za-z0-9_.-]{0,200}[0-9*])[A-Za-z0-9_*.-]{6,}  # OpenAI, Anthropic and most gateways
        | sk-(?:[a-z]{2,8}-)?[A-Za-z0-9_]{20,}  # the same without any digit by chance: no word is so long
        | (?:AKIA|ASIA)[0-9A-Z]{16}  # AWS
        | AIza[A-Za-z0-9_-]{10,} | AQ\.[A-Za-z0-9_-]{20,}  # Google
      )
    | (?i:\bbearer)\s{1,8}(?:(?=[A-Za-z0-9._~+/=-]{0,200}[0-9*])[A-Za-z0-9._~+/=*-]{6,}|[A-Za-z0-9._~+/=-]{20,})
    | (?<=[?&;]key=)[^&\s"']+  # Google's key in an address; after a semicolon where the address is quoted for HTML
    """,
    re.VERBOSE,
)
"""A vendor's key or a bearer token, also partly hidden by asterisks as the vendors' error messages show it.

The prefixes are short and stand before ordinary words too (``key-combination``, ``api-version``), so that they count only in lower case and
before something with a digit or an asterisk. How far is looked ahead is bounded: the texts are others' and can be long.
"""
