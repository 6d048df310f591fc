#include "practice.h"

#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "dbf.h"
#include "memo.h"
#include "ndx.h"
#include "program.h"

#define PATIENT_TABLE L"DATA\\PATIENT.DBF"
#define COUNTER_TABLE L"DATA\\COUNTER.DBF"
#define CATALOG_TABLE L"DATA\\KATALOG.DBF"
#define TREATMENT_TABLE L"DATA\\LEISTUNG.DBF"
#define NOTE_TABLE L"DATA\\DOKU.DBF"
#define NOTE_MEMO L"DATA\\DOKU.DBT"
#define PATIENT_INDEX L"DATA\\PATIENT.NDX"

#define LAST_NUMBER 999999

static const char *const COLUMN_NAMES[P_COUNT] = {
    "PATNR", "NAME",   "VORNAME", "GEBDAT", "GESCHLECHT", "STRASSE",  "PLZ",       "ORT",
    "TELEFON", "KASSE", "VERSNR",  "BEMERK", "AKTIV",      "ANGELEGT", "GEAENDERT",
};

static BOOL fail(DWORD error)
{
    SetLastError(error);
    return FALSE;
}

static BOOL open_table(DbfTable *table, const WCHAR *name, BOOL writable)
{
    WCHAR path[MAX_PATH];
    program_path(name, path);
    return dbf_open(table, path, writable);
}

BOOL practice_check(void)
{
    static const WCHAR *const TABLES[] = {PATIENT_TABLE, COUNTER_TABLE, CATALOG_TABLE, TREATMENT_TABLE, NOTE_TABLE};
    size_t i;
    for (i = 0; i < sizeof TABLES / sizeof *TABLES; ++i) {
        DbfTable table;
        if (!open_table(&table, TABLES[i], FALSE))
            return FALSE;
        dbf_close(&table);
    }
    return TRUE;
}

/* Finds the row that is not deleted and whose column has this text, whatever the case of the letters. */
static BOOL find_row(const DbfTable *table, const char *column, const WCHAR *text, DWORD *number, BYTE *record)
{
    for (*number = 1; *number <= table->count; ++*number) {
        WCHAR value[DBF_MAX_TEXT];
        if (!dbf_read(table, *number, record))
            return FALSE;
        if (dbf_is_deleted(record))
            continue;
        dbf_get_text(table, record, column, value, DBF_MAX_TEXT);
        if (lstrcmpiW(value, text) == 0)
            return TRUE;
    }
    return fail(ERROR_NOT_FOUND);
}

static BOOL counter_read(const WCHAR *name, LONGLONG *last)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD number;
    BOOL ok;
    if (!open_table(&table, COUNTER_TABLE, FALSE))
        return FALSE;
    ok = find_row(&table, "NAME", name, &number, record) && dbf_get_number(&table, record, "LAST", last);
    dbf_close(&table);
    return ok;
}

static BOOL counter_write(const WCHAR *name, LONGLONG last)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD number;
    BOOL ok;
    if (!open_table(&table, COUNTER_TABLE, TRUE))
        return FALSE;
    ok = find_row(&table, "NAME", name, &number, record) && dbf_put_number(&table, record, "LAST", last) &&
         dbf_write(&table, number, record);
    dbf_close(&table);
    return ok;
}

static BOOL next_number(LONGLONG last, WCHAR number[NUMBER_CCH])
{
    if (last < 0 || last >= LAST_NUMBER)
        return fail(ERROR_ARITHMETIC_OVERFLOW);
    text_format(number, NUMBER_CCH, L"%06I64d", last + 1);
    return TRUE;
}

/* ---- patients ---- */

void patient_display_name(const Patient *patient, WCHAR *out, size_t cch)
{
    const WCHAR *first = patient->value[P_VORNAME];
    text_format(out, cch, L"%ls%ls%ls", patient->value[P_NAME], first[0] ? L", " : L"", first);
}

static void patient_from_record(const DbfTable *table, const BYTE *record, Patient *patient)
{
    int column;
    for (column = 0; column < P_COUNT; ++column)
        dbf_get_text(table, record, COLUMN_NAMES[column], patient->value[column], VALUE_CCH);
}

/* German order, as the user's list has it everywhere: umlauts beside their vowels. */
static int compare_texts(const WCHAR *left, const WCHAR *right)
{
    LCID german = MAKELCID(MAKELANGID(LANG_GERMAN, SUBLANG_GERMAN), SORT_DEFAULT);
    return CompareStringW(german, NORM_IGNORECASE, left, -1, right, -1) - CSTR_EQUAL;
}

static int compare_patients(const void *left, const void *right)
{
    const Patient *l = left, *r = right;
    int order = compare_texts(l->value[P_NAME], r->value[P_NAME]);
    if (order == 0)
        order = compare_texts(l->value[P_VORNAME], r->value[P_VORNAME]);
    return order ? order : wcscmp(l->value[P_PATNR], r->value[P_PATNR]);
}

BOOL patient_load_all(PatientList *list)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD number;
    BOOL ok = TRUE;

    list->items = NULL;
    list->count = 0;
    if (!open_table(&table, PATIENT_TABLE, FALSE))
        return FALSE;
    list->items = calloc((size_t)table.count + 1, sizeof(Patient));
    if (!list->items)
        ok = fail(ERROR_NOT_ENOUGH_MEMORY);
    for (number = 1; ok && number <= table.count; ++number) {
        ok = dbf_read(&table, number, record);
        if (ok && !dbf_is_deleted(record))
            patient_from_record(&table, record, &list->items[list->count++]);
    }
    dbf_close(&table);
    if (!ok) {
        free(list->items);
        list->items = NULL;
        list->count = 0;
        return FALSE;
    }
    qsort(list->items, list->count, sizeof(Patient), compare_patients);
    return TRUE;
}

BOOL patient_load(const WCHAR *number, Patient *patient)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD row;
    BOOL ok;
    if (!open_table(&table, PATIENT_TABLE, FALSE))
        return FALSE;
    ok = find_row(&table, "PATNR", number, &row, record);
    if (ok)
        patient_from_record(&table, record, patient);
    dbf_close(&table);
    return ok;
}

BOOL patient_name_exists(const WCHAR *name, const WCHAR *first_name, BOOL *exists)
{
    PatientList list;
    DWORD i;
    if (!patient_load_all(&list))
        return FALSE;
    *exists = FALSE;
    for (i = 0; i < list.count && !*exists; ++i)
        *exists = lstrcmpiW(list.items[i].value[P_NAME], name) == 0 &&
                  lstrcmpiW(list.items[i].value[P_VORNAME], first_name) == 0;
    free(list.items);
    return TRUE;
}

static BOOL rewrite_index(const DbfTable *table)
{
    WCHAR path[MAX_PATH];
    program_path(PATIENT_INDEX, path);
    return ndx_rewrite(table, path);
}

/* The highest PATNR; a deleted row's number is never given out again. A number that is none does not count. */
static BOOL highest_number(const DbfTable *table, LONGLONG *highest)
{
    BYTE record[DBF_MAX_RECORD];
    DWORD row;
    *highest = 0;
    for (row = 1; row <= table->count; ++row) {
        WCHAR text[NUMBER_CCH];
        LONGLONG value;
        if (!dbf_read(table, row, record))
            return FALSE;
        dbf_get_text(table, record, "PATNR", text, NUMBER_CCH);
        if (decimal_parse(text, 0, &value) && value > *highest)
            *highest = value;
    }
    return TRUE;
}

static BOOL put_columns(const DbfTable *table, BYTE *record, const Patient *patient, DWORD columns)
{
    int column;
    for (column = 0; column < P_COUNT; ++column)
        if ((columns & (1u << column)) && !dbf_put_text(table, record, COLUMN_NAMES[column], patient->value[column]))
            return FALSE;
    return TRUE;
}

BOOL patient_append(Patient *patient)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    LONGLONG highest;
    DWORD row;
    BOOL ok;
    if (!open_table(&table, PATIENT_TABLE, TRUE))
        return FALSE;
    dbf_blank(&table, record);
    lstrcpyW(patient->value[P_AKTIV], L"T");
    date_today(patient->value[P_ANGELEGT]);
    ok = highest_number(&table, &highest) && next_number(highest, patient->value[P_PATNR]) &&
         put_columns(&table, record, patient, (1u << P_COUNT) - 1) && dbf_append(&table, record, &row) &&
         rewrite_index(&table);
    dbf_close(&table);
    return ok;
}

BOOL patient_store_counter(const WCHAR *number)
{
    LONGLONG value;
    return decimal_parse(number, 0, &value) ? counter_write(L"PATIENT", value) : fail(ERROR_INVALID_DATA);
}

BOOL patient_write(const WCHAR *number, const Patient *patient, DWORD columns)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD row;
    BOOL ok;
    if (!open_table(&table, PATIENT_TABLE, TRUE))
        return FALSE;
    ok = find_row(&table, "PATNR", number, &row, record) && put_columns(&table, record, patient, columns) &&
         dbf_write(&table, row, record);
    if (ok && (columns & (1u << P_NAME | 1u << P_VORNAME)))
        ok = rewrite_index(&table);
    dbf_close(&table);
    return ok;
}

/* Adds to SALDO (a blank one counts as 0); with `write` FALSE only checks that the sum fits. */
static BOOL patient_add_balance(const WCHAR *number, LONGLONG amount, BOOL write)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    LONGLONG balance;
    DWORD row;
    BOOL ok;
    if (!open_table(&table, PATIENT_TABLE, write))
        return FALSE;
    ok = find_row(&table, "PATNR", number, &row, record) && dbf_get_number(&table, record, "SALDO", &balance) &&
         dbf_put_number(&table, record, "SALDO", balance + amount);
    if (ok && write)
        ok = dbf_write(&table, row, record);
    dbf_close(&table);
    return ok;
}

/* ---- catalogue and treatments ---- */

BOOL catalog_find(const WCHAR *code, CatalogItem *item)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD row;
    BOOL ok;
    if (!open_table(&table, CATALOG_TABLE, FALSE))
        return FALSE;
    ok = find_row(&table, "ZIFFER", code, &row, record) && dbf_get_number(&table, record, "BETRAG", &item->price);
    if (ok) {
        dbf_get_text(&table, record, "ZIFFER", item->code, 7);
        dbf_get_text(&table, record, "TEXT", item->text, 51);
    }
    dbf_close(&table);
    return ok;
}

static BOOL append_treatment_row(const Treatment *treatment)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD row;
    BOOL ok;
    if (!open_table(&table, TREATMENT_TABLE, TRUE))
        return FALSE;
    dbf_blank(&table, record);
    ok = dbf_put_text(&table, record, "LNR", treatment->number) &&
         dbf_put_text(&table, record, "PATNR", treatment->patient) &&
         dbf_put_text(&table, record, "DATUM", treatment->date) &&
         dbf_put_text(&table, record, "ZAHN", treatment->tooth) &&
         dbf_put_text(&table, record, "ZIFFER", treatment->code) &&
         dbf_put_number(&table, record, "ANZAHL", treatment->quantity) &&
         dbf_put_number(&table, record, "FAKTOR", treatment->factor) &&
         dbf_put_number(&table, record, "BETRAG", treatment->amount) &&
         dbf_put_text(&table, record, "STATUS", L"O") && dbf_append(&table, record, &row);
    dbf_close(&table);
    return ok;
}

BOOL treatment_append(Treatment *treatment)
{
    LONGLONG last;
    return patient_add_balance(treatment->patient, treatment->amount, FALSE) && counter_read(L"LEISTUNG", &last) &&
           next_number(last, treatment->number) && append_treatment_row(treatment) &&
           counter_write(L"LEISTUNG", last + 1) && patient_add_balance(treatment->patient, treatment->amount, TRUE);
}

/* ---- notes ---- */

/* The memo's first line, or why there is none to show. */
static void first_line(const DbfTable *table, const BYTE *record, WCHAR *out, int cch)
{
    WCHAR path[MAX_PATH], *text, *end;
    WCHAR digits[DBF_MAX_TEXT];
    LONGLONG block = 0;
    out[0] = 0;
    dbf_get_text(table, record, "TEXT", digits, DBF_MAX_TEXT);
    if (!digits[0])
        return;
    program_path(NOTE_MEMO, path);
    text = decimal_parse(digits, 0, &block) && block > 0 && block <= 0x7fffffff ? memo_read(path, (DWORD)block) : NULL;
    if (!text) {
        lstrcpynW(out, L"(Text nicht lesbar)", cch);
        return;
    }
    end = wcspbrk(text, L"\r\n");
    if (end)
        *end = 0;
    lstrcpynW(out, text, cch);
    free(text);
}

BOOL note_load(const WCHAR *patient, NoteList *list)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    DWORD row;
    BOOL ok = TRUE;

    list->items = NULL;
    list->count = 0;
    if (!open_table(&table, NOTE_TABLE, FALSE))
        return FALSE;
    list->items = calloc((size_t)table.count + 1, sizeof(Note));
    if (!list->items)
        ok = fail(ERROR_NOT_ENOUGH_MEMORY);
    for (row = table.count; ok && row >= 1; --row) {
        WCHAR owner[NUMBER_CCH];
        Note *note;
        ok = dbf_read(&table, row, record);
        dbf_get_text(&table, record, "PATNR", owner, NUMBER_CCH);
        if (!ok || dbf_is_deleted(record) || wcscmp(owner, patient) != 0)
            continue;
        note = &list->items[list->count++];
        dbf_get_text(&table, record, "DATUM", note->date, DATE_CCH);
        dbf_get_text(&table, record, "KUERZEL", note->initials, 5);
        first_line(&table, record, note->first_line, 81);
    }
    dbf_close(&table);
    if (!ok) {
        free(list->items);
        list->items = NULL;
        list->count = 0;
    }
    return ok;
}

static BOOL append_note_row(const WCHAR *number, const WCHAR *patient, const WCHAR *initials, DWORD block)
{
    DbfTable table;
    BYTE record[DBF_MAX_RECORD];
    WCHAR today[DATE_CCH], pointer[11];
    DWORD row;
    BOOL ok;
    if (!open_table(&table, NOTE_TABLE, TRUE))
        return FALSE;
    dbf_blank(&table, record);
    date_today(today);
    text_format(pointer, 11, L"%10lu", block); /* dBase III: the block number right-aligned in ten characters */
    ok = dbf_put_text(&table, record, "DOKNR", number) && dbf_put_text(&table, record, "PATNR", patient) &&
         dbf_put_text(&table, record, "DATUM", today) && dbf_put_text(&table, record, "KUERZEL", initials) &&
         dbf_put_text(&table, record, "TEXT", pointer) && dbf_append(&table, record, &row);
    dbf_close(&table);
    return ok;
}

BOOL note_append(const WCHAR *patient, const WCHAR *initials, const WCHAR *text, WCHAR number[NUMBER_CCH])
{
    WCHAR path[MAX_PATH];
    LONGLONG last;
    DWORD block;
    program_path(NOTE_MEMO, path);
    return counter_read(L"DOKU", &last) && next_number(last, number) && memo_append(path, text, &block) &&
           append_note_row(number, patient, initials, block) && counter_write(L"DOKU", last + 1);
}
