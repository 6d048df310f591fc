"""For each rule of lint a contract that trips it and one that does not: shown in the reference, and tested.

An example is a piece of a contract; its top-level keys replace those of :data:`BASE`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from contracts.lint_rules.base import Known, KnownTable

BASE = r"""schema: 1
id: shop.add-customer
title: Add a customer
application: Shop
domain: retail
state_changing: true
image: counter
instruction: Add the customer {{name}} with the number {{number}}.
parameters: {number: '0007', name: Huber}
initial_state: {summary: The program shows its list of customers.}
goal_state: {summary: There is one new customer.}
observe:
  customers: {dbf: 'C:\SHOP\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\SHOP'}
  screen: {windows: {}}
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}'}
stages: {commit: {changed: customers}}
"""
"""A contract without a finding."""

_CUSTOMERS = KnownTable({"NR": "text", "NAME": "text", "BORN": "date"})
KNOWN = Known(
    tables={"customers": _CUSTOMERS},
    listings={"disk": ("CUSTOMER.DBF", "SHOP.EXE", "SHOP.LOG", "OUT", "OUT\\list.txt")},
)
"""What the image looks like when a run begins."""


@dataclass(frozen=True)
class Example:
    """A piece that trips a rule, and one that does not.

    Attributes:
        trips: The one.
        fixed: The other.
        known: What the image looks like for the first; ``None``: nobody looked.
        where: What the reader must know of it, in words.
        measured_quiet: The quiet time that was measured for both; ``None``: nobody measured.
    """

    trips: str
    fixed: str
    known: Known | None = None
    where: str = ""
    measured_quiet: float | None = None


def composed(piece: str) -> str:
    """A whole contract: the base with the parts that a piece gives anew."""
    sections = _sections(BASE) | _sections(piece)
    return "".join(sections.values())


def _sections(text: str) -> dict[str, str]:
    starts = [match.start() for match in re.finditer(r"^\w", text, re.MULTILINE)]
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return {piece.partition(":")[0]: piece for piece in pieces}


_ON_THE_DISK = r"The image's folder `C:\SHOP` holds `CUSTOMER.DBF`, `SHOP.EXE`, `SHOP.LOG` and `OUT\list.txt`."
_IN_THE_TABLE = "The image's table has the fields `NR` and `NAME`, texts, and `BORN`, a date."

EXAMPLES = {
    "existence-only": Example(
        """\
parameters: {}
instruction: Export the list.
effects:
  expect:
    - {created: disk, path: 'OUT\\new.txt'}
""",
        """\
parameters: {}
instruction: Export the list.
effects:
  expect:
    - {created: disk, path: 'OUT\\new.txt', content: {regex: '(?s)Customers.*Huber.*'}}
""",
    ),
    "repeats-where": Example(
        """\
effects:
  expect:
    - deleted: customers
      where: {NR: '{{number}}', NAME: '{{name}}'}
      fields: {NAME: '{{name}}'}
""",
        """\
effects:
  expect:
    - deleted: customers
      where: {NR: '{{number}}', NAME: '{{name}}'}
""",
    ),
    "never-fits": Example(
        """\
effects:
  expect:
    - inserted: customers
      where: {NR: '{{number}}'}
      fields: {NAME: '{{name}}'}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}'}
""",
    ),
    "covers-expected": Example(
        """\
parameters: {}
instruction: Export the list.
observe:
  disk: {files: 'C:\\SHOP', ignore: [{path: '*.txt', because: lists of other programs}]}
effects:
  expect:
    - {created: disk, path: 'OUT\\new.txt', content: {text: {regex: '(?s).*Huber.*'}}}
stages: {commit: {changed: disk}}
""",
        """\
parameters: {}
instruction: Export the list.
observe:
  disk: {files: 'C:\\SHOP', ignore: [{path: 'TEMP\\*.txt', because: lists of other programs}]}
effects:
  expect:
    - {created: disk, path: 'OUT\\new.txt', content: {text: {regex: '(?s).*Huber.*'}}}
stages: {commit: {changed: disk}}
""",
    ),
    "may-cover-expected": Example(
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: {regex: '{{name}}( .*)?'}}
  allow:
    - inserted: customers
      fields: {NR: {regex: '.{4}'}, NAME: {regex: '.* AG'}}
      because: companies are added by the program itself
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: {regex: '{{name}}( .*)?'}}
  allow:
    - inserted: customers
      fields: {NR: {regex: '9.{3}'}, NAME: {regex: '.* AG'}}
      because: companies are added by the program itself
""",
    ),
    "no-identity": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF'}
effects:
  expect:
    - updated: customers
      where: {NR: '{{number}}'}
      fields: {NAME: '{{name}}'}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
effects:
  expect:
    - updated: customers
      where: {NR: '{{number}}'}
      fields: {NAME: '{{name}}'}
""",
    ),
    "bad-key": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR, NR]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
""",
    ),
    "confirm-each-other": Example(
        """\
parameters: {name: Huber}
instruction: Add the customer {{name}} and return the number.
effects:
  expect:
    - {inserted: customers, name: customer, fields: {NR: {returned: number}, NAME: '{{name}}'}}
returns:
  schema: {type: object, required: [number], properties: {number: {type: string}}}
  expect: {number: {field: customer.NR}}
""",
        """\
parameters: {name: Huber}
instruction: Add the customer {{name}} and return the number.
effects:
  expect:
    - {inserted: customers, name: customer, fields: {NR: {generated: next}, NAME: '{{name}}'}}
returns:
  schema: {type: object, required: [number], properties: {number: {type: string}}}
  expect: {number: {field: customer.NR}}
""",
    ),
    "broad-pattern": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\\SHOP', ignore: [{path: '*.*', because: the program writes there}]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\\SHOP', ignore: [{path: 'TEMP\\*.*', because: the program writes there}]}
""",
    ),
    "loose-key": Example(
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: {text: '{{number}}', normalise: [whitespace]}, NAME: '{{name}}'}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: {text: '{{name}}', normalise: [case]}}
""",
    ),
    "no-expected-change": Example(
        """\
parameters: {}
instruction: Add a customer.
effects:
  expect:
    - {present: screen, where: {title: Customers}}
""",
        """\
parameters: {}
instruction: Add the customer Huber.
effects:
  expect:
    - {inserted: customers, fields: {NR: {generated: next}, NAME: Huber}}
    - {present: screen, where: {title: Customers}}
""",
    ),
    "nothing-required": Example(
        """\
effects:
  expect:
    - {inserted: customers, count: {min: 0, max: 1}, fields: {NR: '{{number}}', NAME: '{{name}}'}}
""",
        """\
effects:
  expect:
    - {inserted: customers, count: {min: 1, max: 2}, fields: {NR: '{{number}}', NAME: '{{name}}'}}
""",
    ),
    "unexpected-change": Example(
        "state_changing: false\n",
        "state_changing: true\n",
    ),
    "unchecked-parameter": Example(
        """\
instruction: Add the customer {{name}} with the number {{number}}. Use the {{way}}.
parameters: {number: '0007', name: Huber, way: menu}
""",
        """\
instruction: Add the customer {{name}} with the number {{number}}. Use the {{way}}.
parameters: {number: '0007', name: Huber, way: {value: menu, unchecked: both ways lead to the same row}}
""",
    ),
    "goal-without-reason": Example(
        "on_failure: goal\n",
        "on_failure: {goal: the program shows no sign of having stored the row}\n",
    ),
    "require-contradicts": Example(
        """\
initial_state:
  summary: The program shows its list of customers.
  require:
    - {rows: customers, where: {NR: '{{number}}'}, count: 1}
""",
        """\
initial_state:
  summary: The program shows its list of customers.
  require:
    - {rows: customers, where: {NR: '{{number}}'}, count: 0}
""",
    ),
    "unspoken-observable": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  letters: {files: 'D:\\LETTERS'}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  orders: {dbf: 'C:\\SHOP\\ORDERS.DBF', key: [NR]}
""",
    ),
    "no-stages": Example(
        "stages: {}\n",
        "stages: {commit: {changed: customers}}\n",
    ),
    "regex-matches-everything": Example(
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}', NOTE: {regex: '.*'}}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}', NOTE: {is: any, because: the program writes a remark of its own}}
""",
    ),
    "date-not-iso": Example(
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}', BORN: 12.08.1964}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}', BORN: 1964-08-12}
""",
        KNOWN, _IN_THE_TABLE,
    ),
    "maybe-date": Example(
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}', BORN: 12.08.1964}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}', BORN: 1964-08-12}
""",
    ),
    "look-alike": Example(
        "parameters: {number: '0007', name: H\u0443ber}\n",
        "parameters: {number: '0007', name: Huber}\n",
        where="The second letter of the first name is the Cyrillic `\u0443` (U+0443).",
    ),
    "normal-form": Example(
        "parameters: {number: '0007', name: Mu\u0308ller}\n",
        "parameters: {number: '0007', name: M\u00fcller}\n",
        where="The first `ü` is a `u` followed by U+0308.",
    ),
    "forward-slash": Example(
        """\
observe:
  customers: {dbf: 'C:/SHOP/CUSTOMER.DBF', key: [NR]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
""",
    ),
    "unknown-field": Example(
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAEM: '{{name}}'}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}'}
""",
        KNOWN, _IN_THE_TABLE,
    ),
    "key-not-unique": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NAME]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
""",
        Known(tables={"customers": KnownTable(_CUSTOMERS.fields, fault="NAME=Huber (records 3, 17)")}),
        "The image's table holds two customers of the name Huber, with different numbers.",
    ),
    "matches-nothing": Example(
        """\
initial_state:
  summary: The program shows its list of customers.
  require:
    - {files: disk, path: 'OTU\\list.txt', count: 1}
""",
        """\
initial_state:
  summary: The program shows its list of customers.
  require:
    - {files: disk, path: 'OUT\\list.txt', count: 1}
""",
        KNOWN, _ON_THE_DISK,
    ),
    "idle-rule": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\\SHOP', ignore: [{path: '*.LGO', because: the log of the program}]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\\SHOP', ignore: [{path: '*.LOG', because: the log of the program}]}
""",
        KNOWN, _ON_THE_DISK,
    ),
    "not-there": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMRE.DBF', key: [NR]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
""",
        Known(absent=frozenset({"customers"})), _ON_THE_DISK,
    ),
    "unreadable": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\SHOP.EXE', key: [NR]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
""",
        Known(unreadable={"customers": "no DBF file: its first byte is 0x4D"}), _ON_THE_DISK,
    ),
    "quiet-too-short": Example(
        "limits: {quiet: 500ms}\n",
        "limits: {quiet: 4s}\n",
        where="Good runs were measured, and 2.5 s of quiet follow from them.",
        measured_quiet=2.5,
    ),
    "cannot-load": Example(
        "parameters: {number: 0007, name: Huber}\n",
        "parameters: {number: '0007', name: Huber}\n",
    ),
    "missing-reason": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\\SHOP', ignore: [{path: '*.TMP'}]}
""",
        """\
observe:
  customers: {dbf: 'C:\\SHOP\\CUSTOMER.DBF', key: [NR]}
  disk: {files: 'C:\\SHOP', ignore: [{path: '*.TMP', because: scratch files of the program}]}
""",
    ),
    "bad-reference": Example(
        """\
effects:
  expect:
    - {inserted: customers, name: customer, count: 2, fields: {NR: {generated: next}, NAME: '{{name}}'}}
    - {created: disk, path: '{{number}}.txt', content: {field: customer.NR}}
""",
        """\
effects:
  expect:
    - {inserted: customers, name: customer, fields: {NR: {generated: next}, NAME: '{{name}}'}}
    - {created: disk, path: '{{number}}.txt', content: {field: customer.NR}}
""",
    ),
    "unknown-observable": Example(
        """\
effects:
  expect:
    - inserted: costumers
      fields: {NR: '{{number}}', NAME: '{{name}}'}
""",
        """\
effects:
  expect:
    - inserted: customers
      fields: {NR: '{{number}}', NAME: '{{name}}'}
""",
    ),
    "odd-value": Example(
        """\
observe:
  customers: {dbf: 'C:\\SHOPPR~1\\CUSTOMER.DBF', key: [NR]}
""",
        """\
observe:
  customers: {dbf: 'C:\\Shop Program\\CUSTOMER.DBF', key: [NR]}
""",
    ),
}  # fmt: skip
"""By the rule's id."""
