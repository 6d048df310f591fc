"""Writes the initial data of the DSWin fixture: fictitious patients, treatments, notes, catalogue and counters.

``python seed.py OUTDIR`` makes ``OUTDIR`` what the program expects to find beside ``DSWIN.EXE``: ``DSWIN.INI`` and the
tables below ``DATA``. The output depends on nothing but this file: same bytes on every machine and on every day. All
persons are invented; the telephone numbers are from the ranges the Bundesnetzagentur keeps free for films.

Formats: dBase III+ (0x03, with memo 0x83) with language driver 0x02 (code page 850); DBT memo blocks of 512 bytes;
``PATIENT.NDX`` as described in ``src/ndx.h``. Written with the standard library only, independently of the program's own
C code, so that each checks the other.
"""

from __future__ import annotations

import argparse
import random
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import TypeVar

__all__ = ["Column", "main", "write_dbf", "write_seed"]

ENCODING = "cp850"
LANGUAGE_DRIVER = 0x02
WRITTEN = date(2024, 3, 15)  # the date in the table headers; nothing in the data is younger
MEMO_BLOCK = 512
CENT = Decimal("0.01")

T = TypeVar("T")
Value = str | int | Decimal | date | bool | None
Row = Mapping[str, Value]


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a dBase table: name, type letter, width in bytes, digits behind the point."""

    name: str
    kind: str
    width: int
    decimals: int = 0


def _list(words: str, separator: str = " ") -> tuple[str, ...]:
    return tuple(words.split(separator))


PATIENT = (
    Column("PATNR", "C", 6),
    Column("NAME", "C", 30),
    Column("VORNAME", "C", 30),
    Column("GEBDAT", "D", 8),
    Column("GESCHLECHT", "C", 1),
    Column("STRASSE", "C", 40),
    Column("PLZ", "C", 5),
    Column("ORT", "C", 30),
    Column("TELEFON", "C", 20),
    Column("KASSE", "C", 20),
    Column("VERSNR", "C", 12),
    Column("BEMERK", "C", 40),
    Column("SALDO", "N", 10, 2),
    Column("AKTIV", "L", 1),
    Column("ANGELEGT", "D", 8),
    Column("GEAENDERT", "D", 8),
)
DOKU = (
    Column("DOKNR", "C", 6),
    Column("PATNR", "C", 6),
    Column("DATUM", "D", 8),
    Column("KUERZEL", "C", 4),
    Column("TEXT", "M", 10),
)
LEISTUNG = (
    Column("LNR", "C", 6),
    Column("PATNR", "C", 6),
    Column("DATUM", "D", 8),
    Column("ZAHN", "C", 2),
    Column("ZIFFER", "C", 6),
    Column("ANZAHL", "N", 3),
    Column("FAKTOR", "N", 5, 2),
    Column("BETRAG", "N", 10, 2),
    Column("STATUS", "C", 1),
)
KATALOG = (Column("ZIFFER", "C", 6), Column("TEXT", "C", 50), Column("BETRAG", "N", 10, 2))
COUNTER = (Column("NAME", "C", 10), Column("LAST", "N", 8))

PATIENT_COUNT = 103
TREATMENT_COUNT = 150
NOTE_COUNT = 40
DELETED_PATIENTS = frozenset({17, 48, 77, 90})
INACTIVE_PATIENTS = frozenset({9, 33, 61})

# Patients whose names matter to tasks: number -> (name, first name, birth date, sex). 12 and 58 have the same name,
# 23/24 and 35/71 share the last name only, 42 is the one with umlauts in both names.
NAMED: Mapping[int, tuple[str, str, date, str]] = {
    12: ("Schmidt", "Andreas", date(1961, 4, 2), "M"),
    23: ("Öztürk", "Ayse", date(1985, 9, 30), "W"),
    24: ("Öztürk", "Mehmet", date(1982, 1, 17), "M"),
    35: ("Weiß", "Käthe", date(1938, 12, 24), "W"),
    42: ("Müller", "Jürgen", date(1957, 6, 11), "M"),
    58: ("Schmidt", "Andreas", date(1990, 11, 8), "M"),
    71: ("Weiß", "Günther", date(1936, 2, 29), "M"),
    86: ("Müller-Lüdenscheidt", "Björn", date(1974, 8, 5), "M"),
}
LAST_NAMES = _list(
    "Ackermann Bäcker Bergmann Böhm Brandt Busch Dörfler Ebert Engel Faßbender Fischer Förster Franke Friedrich Gärtner "
    "Geißler Graf Groß Günther Haas Hänsel Hartmann Heinrich Herrmann Hübner Jäger Jansen Kaiser Keller Köhler König "
    "Krämer Krüger Kühn Lange Lehmann Lindner Löffler Lorenz Maier Möller Neumann Nußbaum Oßwald Otto Peters Pfeiffer "
    "Plötz Pohl Richter Röder Rößler Sander Schäfer Scheffler Schönfeld Schröder Schütz Seidel Simon Sommer Stöcker "
    "Strauß Süß Thomas Töpfer Ulrich Vogel Voß Wagner Walter Weber Wörner Wünsche Zänker Ziegler Zöllner"
)
FEMALE = _list(
    "Anna Bärbel Brigitte Christa Dörte Elke Erika Franziska Gisela Grete Heike Ingrid Jana Karin Käthe Lena Lieselotte "
    "Margarete Monika Nadine Petra Renate Rosemarie Sabine Sigrün Susanne Tanja Ursula Vera Waltraud"
)
MALE = _list(
    "Achim Bernd Björn Christian Detlef Dieter Egon Frank Georg Götz Günter Hans Heinz Holger Ingo Jörg Jürgen Karl "
    "Klaus Lars Lutz Manfred Norbert Olaf Peter Rainer Rüdiger Sören Thomas Uwe Volker Wolfgang"
)
STREETS = _list(
    "Ahornweg;Am Mühlbach;An der Kirche;Bahnhofstraße;Birkenallee;Brückenstraße;Dorfstraße;Eichendorffstraße;Feldweg;"
    "Gartenstraße;Goethestraße;Grüner Weg;Hauptstraße;Höhenweg;Jägersteig;Kölner Straße;Lindenstraße;Marktplatz;"
    "Mühlgasse;Schloßstraße;Schulstraße;Sonnenhügel;Wiesengrund;Zum Fährhaus",
    ";",
)
# PLZ, place, dialling code and the range kept free for films in that code.
PLACES = (
    ("10115", "Berlin", "030 23125"),
    ("12043", "Berlin", "030 23125"),
    ("20095", "Hamburg", "040 66969"),
    ("50667", "Köln", "0221 4710"),
    ("50823", "Köln", "0221 4710"),
    ("60311", "Frankfurt am Main", "069 90009"),
    ("80331", "München", "089 99998"),
    ("81541", "München", "089 99998"),
)
INSURERS = ("AOK", "Barmer", "DAK-Gesundheit", "IKK classic", "Knappschaft", "Techniker", "Privat", "BKK Süd")
REMARKS = (
    "Penicillin-Allergie",
    "Angstpatient",
    "bitte früh anrufen",
    "Marcumar!",
    "Recall halbjährlich",
    "Rechnung an Betreuer",
    "nur nachmittags",
    "Hörgerät, laut sprechen",
)
CATALOGUE = (
    ("01", "Eingehende Untersuchung", "19.98"),
    ("Ä1", "Beratung eines Kranken", "9.99"),
    ("Ä925A", "Röntgendiagnostik bis zwei Aufnahmen", "13.32"),
    ("Ä935D", "Orthopantomogramm", "39.96"),
    ("02", "Hilfeleistung bei Ohnmacht oder Kollaps", "22.20"),
    ("03", "Zuschlag außerhalb der Sprechstunde", "16.65"),
    ("04", "Erhebung des PSI-Code", "13.32"),
    ("08", "Sensibilitätsprüfung", "6.66"),
    ("10", "Behandlung überempfindlicher Zahnflächen", "6.66"),
    ("11", "Exkavieren und provisorischer Verschluss", "21.09"),
    ("12", "Besondere Maßnahmen beim Präparieren", "11.10"),
    ("13A", "Füllung, einflächig", "36.63"),
    ("13B", "Füllung, zweiflächig", "45.51"),
    ("13C", "Füllung, dreiflächig", "57.72"),
    ("13D", "Füllung, mehr als dreiflächig", "64.38"),
    ("25", "Indirekte Überkappung", "6.66"),
    ("26", "Direkte Überkappung", "6.66"),
    ("28", "Exstirpation der vitalen Pulpa", "19.98"),
    ("31", "Trepanation eines pulpatoten Zahnes", "12.21"),
    ("32", "Aufbereiten eines Wurzelkanals", "32.19"),
    ("34", "Medikamentöse Einlage", "16.65"),
    ("35", "Füllung eines Wurzelkanals", "18.87"),
    ("38", "Nachbehandlung", "11.10"),
    ("40", "Infiltrationsanästhesie", "8.88"),
    ("41A", "Leitungsanästhesie intraoral", "13.32"),
    ("43", "Entfernen eines einwurzeligen Zahnes", "11.10"),
    ("44", "Entfernen eines mehrwurzeligen Zahnes", "16.65"),
    ("45", "Entfernen eines tieffrakturierten Zahnes", "44.40"),
    ("47A", "Entfernen durch Osteotomie", "64.38"),
    ("105", "Behandlung von Mundschleimhauterkrankungen", "8.88"),
    ("106", "Beseitigen scharfer Zahnkanten", "11.10"),
    ("107", "Entfernen harter Zahnbeläge", "17.76"),
    ("IP1", "Mundhygienestatus", "22.20"),
    ("IP4", "Lokale Fluoridierung", "13.32"),
    ("IP5", "Versiegelung von Fissuren", "17.76"),
    ("0010", "GOZ Eingehende Untersuchung mit Befund", "5.62"),
    ("1040", "GOZ Professionelle Zahnreinigung je Zahn", "1.57"),
    ("2060", "GOZ Kompositfüllung, einflächig", "29.64"),
    ("2210", "GOZ Vollkrone, Hohlkehlpräparation", "94.32"),
    ("9000", "GOZ Implantatbezogene Analyse", "49.71"),
)
NOTE_TEXTS = (
    "01, Befund o.B.",
    "Füllung 36 od gelegt, Kofferdam.\r\nPatient über Überempfindlichkeit aufgeklärt.",
    "Zahnstein entfernt, Mundhygiene mäßig.",
    "Schmerzen regio 46 seit gestern Abend.\r\nPerkussion +, Sensibilität -.\r\n\r\nTrepanation, Einlage, Termin in 3 Tagen.",
    "Röntgen OPG: Verdacht auf verlagerten 38.\r\nÜberweisung an Kieferchirurgie.",
    "Kontrolle nach Extraktion 26, Wunde reizlos.",
    "Patientin sagt Termin ab, ruft zurück.",
    "Beratung Zahnersatz:\r\n- Teleskopprothese\r\n- Brücke 13-23\r\nHeil- und Kostenplan mitgegeben, größere Bedenken wegen Kosten.",
    "Druckstelle UK links beseitigt.",
    "PZR durchgeführt, Fluoridlack. Recall in 6 Monaten.",
)
INITIALS = ("MÜ", "KS", "ZFA1", "HB")
TEETH = tuple(f"{quadrant}{tooth}" for quadrant in "1234" for tooth in "12345678")


class _Draw:
    """Draws values whose sequence is the same in every Python version: only ``Random.random`` promises that."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)  # noqa: S311 - reproducible test data, no secret

    def below(self, limit: int) -> int:
        return int(self._random.random() * limit)

    def one_of(self, values: Sequence[T]) -> T:
        return values[self.below(len(values))]

    def day(self, first: date, last: date) -> date:
        return first + timedelta(days=self.below((last - first).days + 1))


def _cell(column: Column, value: Value) -> bytes:
    """Encodes one value; None is a blank field. Raises ValueError for a value that does not fit its column."""
    if value is None:
        text = ""
    elif isinstance(value, bool):
        text = "T" if value else "F"
    elif isinstance(value, date):
        text = f"{value:%Y%m%d}"
    elif isinstance(value, int | Decimal):
        text = f"{value:.{column.decimals}f}".rjust(column.width)
    else:
        text = value
    raw = text.encode(ENCODING)
    if len(raw) > column.width:
        raise ValueError(f"{column.name}: {value!r} needs {len(raw)} bytes, the column has {column.width}")
    return raw.ljust(column.width)


def write_dbf(
    path: Path,
    columns: Sequence[Column],
    rows: Sequence[Row],
    deleted: frozenset[int] = frozenset(),
    *,
    version: int = 3,
) -> None:
    """Writes a dBase III+ table.

    Args:
        path: the file; replaced if it exists.
        columns: the table's columns in order.
        rows: one mapping per row; a missing or None value is a blank field.
        deleted: numbers (from 1) of the rows to flag as deleted.
        version: first byte, 0x03 or 0x83 (with memo file).

    Raises:
        ValueError: a value does not fit its column.
        UnicodeEncodeError: a text that code page 850 cannot hold.
    """
    header_size = 32 + 32 * len(columns) + 1
    record_size = 1 + sum(column.width for column in columns)
    header = bytearray(
        struct.pack(
            "<4BIHH17xB2x",
            version,
            WRITTEN.year - 1900,
            WRITTEN.month,
            WRITTEN.day,
            len(rows),
            header_size,
            record_size,
            LANGUAGE_DRIVER,
        )
    )
    for column in columns:
        header += struct.pack(
            "<11sc4xBB14x", column.name.encode("ascii"), column.kind.encode("ascii"), column.width, column.decimals
        )
    header += b"\r"
    body = bytearray()
    for number, row in enumerate(rows, 1):
        body += b"*" if number in deleted else b" "
        for column in columns:
            body += _cell(column, row.get(column.name))
    path.write_bytes(bytes(header) + bytes(body) + b"\x1a")


def _write_memos(path: Path, texts: Sequence[str]) -> list[int]:
    """Writes a dBase III memo file and returns the first block of each text."""
    blocks = bytearray()
    starts = []
    for text in texts:
        starts.append(1 + len(blocks) // MEMO_BLOCK)
        raw = text.encode(ENCODING) + b"\x1a\x1a"
        blocks += raw.ljust(-(-len(raw) // MEMO_BLOCK) * MEMO_BLOCK, b"\0")
    header = bytearray(MEMO_BLOCK)
    struct.pack_into("<I", header, 0, 1 + len(blocks) // MEMO_BLOCK)
    header[16] = 0x03  # dBase III
    path.write_bytes(bytes(header) + bytes(blocks))
    return starts


def _write_index(path: Path, rows: Sequence[Row], deleted: frozenset[int]) -> None:
    """Writes PATIENT.NDX, see ``src/ndx.h``."""
    name, first_name = PATIENT[1], PATIENT[2]
    entries = sorted(
        (_cell(name, row["NAME"]) + _cell(first_name, row["VORNAME"]), number)
        for number, row in enumerate(rows, 1)
        if number not in deleted
    )
    header = struct.pack("<4sHHII12s", b"DSNX", 1, name.width + first_name.width, len(entries), 0, b"NAME+VORNAME")
    path.write_bytes(header.ljust(512, b"\0") + b"".join(key + struct.pack("<I", number) for key, number in entries))


def _patients(draw: _Draw) -> list[dict[str, Value]]:
    """Makes the patients but for SALDO, which follows from the treatments."""
    rows: list[dict[str, Value]] = []
    taken = {(name, first) for name, first, _, _ in NAMED.values()}
    for number in range(1, PATIENT_COUNT + 1):
        sex = draw.one_of("MW")
        name, first = draw.one_of(LAST_NAMES), draw.one_of(MALE if sex == "M" else FEMALE)
        while (name, first) in taken:  # only the pair in NAMED may share both names
            name = draw.one_of(LAST_NAMES)
        taken.add((name, first))
        born = draw.day(date(1931, 1, 1), date(2015, 12, 31))
        if number in NAMED:
            name, first, born, sex = NAMED[number]
        plz, place, code = draw.one_of(PLACES)
        created = date(2001, 1, 8) + timedelta(days=number * 78 + draw.below(60))
        rows.append(
            {
                "PATNR": f"{number:06}",
                "NAME": name,
                "VORNAME": first,
                "GEBDAT": born,
                "GESCHLECHT": sex,
                "STRASSE": f"{draw.one_of(STREETS)} {1 + draw.below(120)}",
                "PLZ": plz,
                "ORT": place,
                "TELEFON": f"{code}{draw.below(900) + 100}" if draw.below(10) else None,
                "KASSE": draw.one_of(INSURERS),
                "VERSNR": f"{draw.one_of('ABCDEFGHKLMNPRSTUVWXYZ')}{draw.below(900000000) + 100000000}",
                "BEMERK": draw.one_of(REMARKS) if draw.below(3) == 0 else None,
                "AKTIV": number not in INACTIVE_PATIENTS,
                "ANGELEGT": max(created, born),
                "GEAENDERT": draw.day(max(created, born), WRITTEN) if draw.below(2) else None,
            }
        )
    return rows


def _living(draw: _Draw) -> int:
    """Draws the number of a patient that is not deleted."""
    while (number := 1 + draw.below(PATIENT_COUNT)) in DELETED_PATIENTS:
        pass
    return number


def _treatments(draw: _Draw) -> list[dict[str, Value]]:
    """Makes the treatments in order of their dates; O is open, B is paid."""
    rows: list[dict[str, Value]] = []
    for number in range(1, TREATMENT_COUNT + 1):
        code, _, price = draw.one_of(CATALOGUE)
        count = 1 if draw.below(5) else 2
        factor = draw.one_of((Decimal("2.30"), Decimal("3.50"))) if len(code) == 4 else Decimal("1.00")
        rows.append(
            {
                "LNR": f"{number:06}",
                "PATNR": f"{_living(draw):06}",
                "DATUM": date(2022, 1, 10) + timedelta(days=number * 5),
                "ZAHN": draw.one_of(TEETH) if draw.below(3) else None,
                "ZIFFER": code,
                "ANZAHL": count,
                "FAKTOR": factor,
                "BETRAG": (Decimal(price) * count * factor).quantize(CENT, ROUND_HALF_UP),
                "STATUS": "O" if draw.below(3) == 0 else "B",
            }
        )
    return rows


def _notes(draw: _Draw) -> list[dict[str, Value]]:
    """Makes the notes; TEXT still holds the text itself. Patient 42 has the first three."""
    return [
        {
            "DOKNR": f"{number:06}",
            "PATNR": f"{42 if number <= 3 else _living(draw):06}",
            "DATUM": date(2022, 2, 1) + timedelta(days=number * 19),
            "KUERZEL": draw.one_of(INITIALS),
            "TEXT": NOTE_TEXTS[(number * 3) % len(NOTE_TEXTS)],
        }
        for number in range(1, NOTE_COUNT + 1)
    ]


def write_seed(folder: Path) -> None:
    r"""Writes ``DSWIN.INI`` and ``DATA`` into a folder, which is created if need be.

    Args:
        folder: what becomes ``C:\DSWIN``. Other files in it are left alone.

    Raises:
        OSError: the folder cannot be written.
    """
    draw = _Draw(1991)
    patients, treatments, notes = _patients(draw), _treatments(draw), _notes(draw)
    balances = {str(row["PATNR"]): Decimal(0) for row in patients}
    for row in treatments:
        if row["STATUS"] == "O" and isinstance(row["BETRAG"], Decimal):
            balances[str(row["PATNR"])] += row["BETRAG"]
    for patient in patients:
        patient["SALDO"] = balances[str(patient["PATNR"])]

    data = folder / "DATA"
    data.mkdir(parents=True, exist_ok=True)
    ini = "[Praxis]\r\nName=Zahnarztpraxis Dr. Bärbel Wöhler\r\n\r\n[Noise]\r\nHeartbeat=0\r\n"
    (folder / "DSWIN.INI").write_bytes(ini.encode("cp1252"))
    write_dbf(data / "PATIENT.DBF", PATIENT, patients, DELETED_PATIENTS)
    _write_index(data / "PATIENT.NDX", patients, DELETED_PATIENTS)
    write_dbf(data / "LEISTUNG.DBF", LEISTUNG, treatments)
    starts = _write_memos(data / "DOKU.DBT", [str(row["TEXT"]) for row in notes])
    note_rows: list[Row] = [{**row, "TEXT": f"{start:>10}"} for row, start in zip(notes, starts, strict=True)]
    write_dbf(data / "DOKU.DBF", DOKU, note_rows, version=0x83)
    catalogue: list[Row] = [{"ZIFFER": code, "TEXT": text, "BETRAG": Decimal(price)} for code, text, price in CATALOGUE]
    write_dbf(data / "KATALOG.DBF", KATALOG, catalogue)
    counters: list[Row] = [
        {"NAME": "PATIENT", "LAST": PATIENT_COUNT},
        {"NAME": "LEISTUNG", "LAST": TREATMENT_COUNT},
        {"NAME": "DOKU", "LAST": NOTE_COUNT},
    ]
    write_dbf(data / "COUNTER.DBF", COUNTER, counters)


def main() -> None:
    """Command line: ``seed.py OUTDIR``."""
    parser = argparse.ArgumentParser(description="Write the initial data of the DSWin fixture.")
    parser.add_argument("folder", type=Path, metavar="OUTDIR", help="folder that gets DSWIN.INI and DATA")
    write_seed(parser.parse_args().folder)


if __name__ == "__main__":
    main()
