"""What makes a contract unusable although its parts have the right form: place and words of each."""

import pytest

from tests.contracts.helpers import edited, place, problems

_ALLOW = "    - modified: program\n      path: 'DSWIN.LOG'\n"
_EXPECT = "  expect:\n"
_RETURN = "  expect: {patient_number: {field: new_patient.PATNR}}"
_SCHEMA = "required: [patient_number], "


def expect(effect: str) -> tuple[str, str]:
    """A further expected effect, first in the list, as one flow mapping."""
    return _EXPECT, f"{_EXPECT}    - {effect}\n"


@pytest.mark.parametrize(
    ("changes", "at", "words"),
    [
        # names that lead nowhere
        ([("updated: counters", "updated: countrs")], "countrs", "effects.expect[1].updated: nothing is observed as `countrs`; did you mean `counters`?"),
        ([("rows: patients", "rows: patient")], "patient,", "initial_state.require[0].rows: nothing is observed as `patient`; did you mean `patients`?"),
        ([("rows: patients", "rows: program")], "program,", "initial_state.require[0].rows: `program` is a file tree, and a DBF table or an SQL table must be named here"),
        ([("changed: patients", "changed: patient")], "patient}", "stages.commit.changed: nothing is observed as `patient`"),
        ([("{field: new_patient.PATNR}}\n  allow", "{field: new_patients.PATNR}}\n  allow")], "new_patients.", "effects.expect[1].fields.LAST.field: no effect is named `new_patients`; did you mean `new_patient`?"),
        ([(_RETURN, "  expect: {patient_number: {field: nobody.X}}")], "nobody.", "returns.expect.patient_number.field: no effect is named `nobody`; possible here: `new_patient`"),
        ([(_RETURN, "  expect: {patient_number: {row: screen, where: {A: b}, field: C}}")], "screen, where", "returns.expect.patient_number.row: `screen` is windows, and a DBF table or an SQL table must be named here"),
        ([(_RETURN, "  expect: {patientnumber: x}")], "patientnumber", "returns.expect.patientnumber: `patientnumber` is not a property in `returns.schema`; did you mean `patient_number`?"),
        # verbs
        ([("- modified: program", "- updated: program")], "updated: program", "effects.allow[0].updated: `program` is a file tree, which cannot be `updated`; possible: `deleted`, `created`, `modified`, `renamed`, `attributes`"),
        ([expect("{opened: patients}")], "opened", "effects.expect[0].opened: `patients` is a DBF table, which cannot be `opened`"),
        # what belongs to files and rows
        ([expect("{updated: patients, path: x}")], "path: x", "effects.expect[0].path: `path` is for files and the registry only"),
        ([expect("{opened: screen, content: x}")], "content: x", "effects.expect[0].content: `content` is for files only"),
        ([expect("{modified: program, path: a, from: b}")], "from: b", "effects.expect[0].from: `from` is for `renamed` only"),
        ([expect("{deleted: program, path: a, content: x}")], "content: x", "effects.expect[0].content: `content` is what the file holds afterwards"),
        ([expect("{modified: program, where: {A: b}}")], "where: {A: b}", "effects.expect[0].where: `where` is for rows, windows and the registry only; select files by `path`"),
        ([expect("{created: patients, fields: {A: b}}")], "fields: {A: b}", "effects.expect[0].fields: `fields` is for rows, windows and the registry only"),
        # where, "*", and matchers that need two states
        ([expect('{deleted: patients, where: {"*": b}}')], '"*": b', 'effects.expect[0].where["*"]: `"*"` has no meaning in `where`'),
        ([expect('{deleted: patients, fields: {"*": b}}')], '"*": b', 'effects.expect[0].fields["*"]: `"*"` has no meaning for `deleted`'),
        ([expect("{deleted: patients, where: {A: {generated: next}}}")], "{generated: next}}}", "effects.expect[0].where.A: `generated` cannot select"),
        ([expect("{updated: patients, where: {A: {not: {is: changed}}}}")], "{is: changed}", "effects.expect[0].where.A.not: `{is: changed}` cannot select"),
        ([expect("{inserted: patients, fields: {A: {one_of: [b, {is: unchanged}]}}}")], "{is: unchanged}", "effects.expect[0].fields.A.one_of[1]: `{is: unchanged}` needs the states before and after"),
        ([expect("{deleted: patients, fields: {A: {generated: unique}}}")], "{generated: unique}", "effects.expect[0].fields.A: `generated` needs a row that is there afterwards"),
        ([expect("{modified: program, path: a, content: {text: {generated: unique}}}")], "{generated: unique}", "effects.expect[0].content.text: `generated` needs a row"),
        ([expect("{modified: program, path: a, content: {is: changed}}")], "{is: changed}", "effects.expect[0].content: `{is: changed}` is not for `content`"),
        ([("count: 0}", "count: 0}\n    - {rows: patients, where: {A: {returned: patient_number}}}")], "{returned:", "initial_state.require[1].where.A: this is known only after the run"),
        # references between effects
        ([expect("{inserted: patients, name: x, fields: {A: {field: x.B}}}")], "x.B", "effects.expect[0].fields.A.field: an effect cannot refer to itself"),
        ([expect("{inserted: patients, name: x, count: 2}"), (_RETURN, "  expect: {patient_number: {field: x.B}}")], "x.B", "returns.expect.patient_number.field: `x` may claim several changes"),
        ([expect("{inserted: patients, name: x, count: {min: 0, max: 1}}"), (_RETURN, "  expect: {patient_number: {field: x.B}}")], "x.B", "returns.expect.patient_number.field: `x` may claim several changes"),
        ([expect("{modified: program, path: a, name: x}"), (_RETURN, "  expect: {patient_number: {field: x.B}}")], "x.B", "returns.expect.patient_number.field: `x` speaks of `modified`, which has no fields"),
        ([("path: 'DSWIN.LOG'", "path: 'DSWIN.LOG'\n      name: log"), (_RETURN, "  expect: {patient_number: {field: log.B}}")], "log.B", "returns.expect.patient_number.field: `log` stands in `allow`"),
        ([("forbid: []", "forbid: [{deleted: patients, where: {A: {field: new_patient.A}}}]")], "new_patient.A}", "effects.forbid[0].where.A.field: a forbidden effect cannot refer to another"),
        ([expect("{inserted: patients, name: x, when: failure}"), (_RETURN, "  expect: {patient_number: {field: x.B}}")], "x.B", "returns.expect.patient_number.field: `x` holds for a failure only"),
        ([expect("{inserted: patients, name: x, fields: {A: {field: y.B}}}"), expect("{updated: patients, name: y, where: {A: {field: x.C}}}")], ("x.C", "y.B"), "effects refer to each other in a circle: `x`, `y`; remove one of the references"),
        ([expect("{inserted: counters, name: new_patient}")], "new_patient\n", "effects.expect[1].name: another effect is named `new_patient`"),
        # returned values
        ([expect("{inserted: counters, fields: {A: {returned: patient_numbr}}}")], "patient_numbr", "effects.expect[0].fields.A.returned: `patient_numbr` is not among the returned values; did you mean `patient_number`?"),
        ([("returns:\n", "x_returns:\n"), expect("{inserted: counters}")], "x_returns", "x_returns: unknown field `x_returns`; did you mean `returns`?"),
        ([(_RETURN, "  expect: {patient_number: {returned: patient_number}}")], "patient_number}}\nstages", "returns.expect.patient_number.returned: a returned value cannot be compared with itself"),
        ([(_RETURN, "  expect: {patient_number: {generated: next}}")], "{generated: next}}\nstages", "returns.expect.patient_number: `generated` speaks of a field of a row"),
        ([(_RETURN, "  expect: {patient_number: {is: unchanged}}")], "{is: unchanged}}\nstages", "returns.expect.patient_number: `{is: unchanged}` means nothing for a returned value"),
        ([(_SCHEMA, "required: patient_number, ")], "patient_number, ", "returns.schema.required: no valid JSON Schema: 'patient_number' is not of type 'array'"),
        ([("{type: string}", "{type: text}")], "text}", "returns.schema.properties.patient_number.type: no valid JSON Schema"),
        ([("{type: string}", "{type: string, pattern: '('}")], "'('", "returns.schema.properties.patient_number.pattern: no valid JSON Schema"),
        ([("{type: string}", "{$ref: 'https://example.org/x'}")], "'https", 'returns.schema.properties.patient_number["$ref"]: a reference to another document is not followed'),
        ([("{type: string}", "{$ref: '#/$defs/x'}")], "'#/$defs/x'", 'returns.schema.properties.patient_number["$ref"]: `#/$defs/x` is not in the schema'),
        ([(_SCHEMA, "allOf: [{$ref: '#'}], ")], "{type: object", "returns.schema: the JSON Schema refers to itself without end"),
        ([(_SCHEMA, "$schema: 'http://json-schema.org/draft-07/schema#', ")], "'http:", 'returns.schema["$schema"]: returned values are judged by JSON Schema 2020-12'),
        ([("schema: {type: object", "schema: {type: array")], "array", "returns.schema.type: returned values have names, so the type must be `object`"),
        # counts and final states
        ([expect("{inserted: counters, count: 0}")], "0}\n    - inserted", "effects.expect[0].count: an expected effect that claims nothing; what must not happen belongs to `forbid`"),
        ([expect("{inserted: counters, count: {max: 0}}")], "{max: 0}", "effects.expect[0].count: an expected effect that claims nothing"),
        ([expect("{present: screen, where: {title: x}, count: 1}")], "count: 1", "effects.expect[0].count: `present` is a state and has no `count`"),
        ([expect("{absent: screen, fields: {title: x}}")], "fields: {title", "effects.expect[0].fields: a window that is absent has no fields"),
        ([("- modified: program\n      path: 'DSWIN.LOG'", "- present: screen")], "present: screen", "effects.allow[0].present: `present` is a final state"),
        ([("forbid: []", "forbid: [{deleted: patients, count: 1}]")], "count: 1}]", "effects.forbid[0].count: what is forbidden is forbidden once and many times"),
        ([("      because: the program's own log\n", "")], "modified: program", "effects.allow[0]: an allowed effect needs `because: …`"),
        # observables
        ([("'C:\\DSWIN\\DATA\\COUNTER.DBF'", "'c:/dswin/data/patient.dbf'")], "'c:/dswin", "observe.counters.dbf: `patients` is the same table"),
        ([("  screen:", "  more: {files: 'c:/dswin/'}\n  screen:")], "'c:/dswin/'", "observe.more.files: `program` is the same folder"),
        ([("  screen:", "  more: {files: 'C:\\DSWIN\\DATA'}\n  screen:")], "'C:\\DSWIN\\DATA'}", "observe.more.files: this folder and that of `program` lie within each other"),
        ([("  screen:", "  more: {windows: {}}\n  screen:")], "{windows: {}}\neffects", "observe.screen: `more` observes the same windows"),
        ([("encoding: cp850", "encoding: cp85O")], "cp85O", "observe.patients.encoding: the encoding `cp85O` is not known; did you mean `cp850`?"),
        ([("encoding: cp850", "encoding: mazovja")], "mazovja", "observe.patients.encoding: the encoding `mazovja` is not known; did you mean `mazovia`?"),
        ([("encoding: cp850", "encoding: hex")], "hex", "observe.patients.encoding: the encoding `hex` is not known"),
        ([("encoding: cp850", "encoding: '../x'")], "'../x'", "observe.patients.encoding: the encoding `../x` is not known"),
        ([expect("{created: program, path: a, content: {text: x, encoding: cp9}}")], "cp9}", "effects.expect[0].content.encoding: the encoding `cp9` is not known"),
        ([("setup: []", "setup: [{copy: ../x, to: 'C:\\x'}]")], "../x", "initial_state.setup[0].copy: the path leaves the contract's folder"),
    ],
)  # fmt: skip
def test_unusable(changes: list[tuple[str, str]], at: str | tuple[str, str], words: str) -> None:
    text = edited(*changes)
    (found,) = problems(text)
    places = [place(text, part) for part in ((at,) if isinstance(at, str) else at)]
    assert any(found.startswith(start) for start in places), (found, places)
    assert words in found


@pytest.mark.parametrize(
    "changes",
    [
        [("encoding: cp850", "encoding: kamenicky")],
        [("  screen:", "  more: {files: 'C:\\DSWIN2'}\n  screen:")],
        [
            ("'*.TMP', because: scratch files}", "'DATA\\**', because: seen by more}"),
            ("  screen:", "  more: {files: 'C:\\DSWIN\\DATA'}\n  screen:"),
        ],
        [expect("{updated: patients, where: {A: {returned: patient_number}}, fields: {B: {is: changed}}}")],
        [expect("{present: screen, where: {title: x}}")],
        [expect("{inserted: counters, count: {min: 1}}")],
        [("because: the program's own log", "noise: dswin-7")],
        [(_SCHEMA, "$defs: {x: {type: object, properties: {y: {$ref: '#/$defs/x'}}}}, allOf: [{$ref: '#/$defs/x'}], ")],
        [(_RETURN, "  expect: {patient_number: {row: patients, where: {NAME: x}, field: PATNR}}")],
        [("setup: []", "setup: [{copy: data/x.dbf, to: 'C:\\x.dbf'}, {run: ['C:\\a.exe'], timeout: 5s}]")],
        [("{type: string}", "{enum: [null, a]}")],
    ],
)
def test_usable(changes: list[tuple[str, str]]) -> None:
    assert problems(edited(*changes)) == []
