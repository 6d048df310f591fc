/* The practice's data: patients, catalogue, treatments and notes, each read from and written to the tables on disk.
 *
 * Functions that return BOOL leave the reason of a failure in GetLastError(); ERROR_NOT_FOUND means that there is no
 * such row. The order of the writes is part of the program's behaviour: a run that is cut short leaves exactly the
 * writes before that point. */
#ifndef DSWIN_PRACTICE_H
#define DSWIN_PRACTICE_H

#include <windows.h>

#include "text.h"

#define NUMBER_CCH 7 /* PATNR, LNR, DOKNR: six digits */
#define VALUE_CCH 41 /* the widest column of PATIENT and the terminator */

/* The columns of PATIENT that the program shows or writes as texts (SALDO is kept apart). */
typedef enum {
    P_PATNR,
    P_NAME,
    P_VORNAME,
    P_GEBDAT,
    P_GESCHLECHT,
    P_STRASSE,
    P_PLZ,
    P_ORT,
    P_TELEFON,
    P_KASSE,
    P_VERSNR,
    P_BEMERK,
    P_AKTIV,
    P_ANGELEGT,
    P_GEAENDERT,
    P_COUNT
} PatientColumn;

typedef struct {
    WCHAR value[P_COUNT][VALUE_CCH]; /* as in the table: dates YYYYMMDD, blank is empty */
} Patient;

typedef struct {
    Patient *items;
    DWORD count;
} PatientList;

typedef struct {
    WCHAR code[7];
    WCHAR text[51];
    LONGLONG price; /* cents */
} CatalogItem;

typedef struct {
    WCHAR number[NUMBER_CCH]; /* LNR, filled when saved */
    WCHAR patient[NUMBER_CCH];
    WCHAR date[DATE_CCH];
    WCHAR tooth[3];
    WCHAR code[7];
    LONGLONG quantity;
    LONGLONG factor; /* hundredths */
    LONGLONG amount; /* cents */
} Treatment;

typedef struct {
    WCHAR date[DATE_CCH];
    WCHAR initials[5];
    WCHAR first_line[81];
} Note;

typedef struct {
    Note *items;
    DWORD count;
} NoteList;

/* Every table the program needs can be opened. */
BOOL practice_check(void);

/* "NAME, VORNAME" for titles and searching. */
void patient_display_name(const Patient *patient, WCHAR *out, size_t cch);

/* All rows that are not deleted, by name, first name and number. The items must be freed with free(). */
BOOL patient_load_all(PatientList *list);
BOOL patient_load(const WCHAR *number, Patient *patient);

/* Is there a row with this name and first name, whatever the case of the letters? */
BOOL patient_name_exists(const WCHAR *name, const WCHAR *first_name, BOOL *exists);

/* Appends the row with the highest number of the table (deleted rows too) plus one, AKTIV and ANGELEGT, and rewrites the
 * index. Puts the number into the patient. Does not touch the counter. */
BOOL patient_append(Patient *patient);

/* Puts the number given out into COUNTER. */
BOOL patient_store_counter(const WCHAR *number);

/* Writes the columns whose bit (1 << PatientColumn) is set; rewrites the index if that changes a name. */
BOOL patient_write(const WCHAR *number, const Patient *patient, DWORD columns);

/* Looks a code up, whatever the case of its letters. */
BOOL catalog_find(const WCHAR *code, CatalogItem *item);

/* Row, then counter, then the patient's SALDO. ERROR_ARITHMETIC_OVERFLOW before anything is written if the new SALDO would
 * not fit. */
BOOL treatment_append(Treatment *treatment);

/* The patient's notes, newest first. The items must be freed with free(). */
BOOL note_load(const WCHAR *patient, NoteList *list);

/* Memo text, then the row, then the counter. */
BOOL note_append(const WCHAR *patient, const WCHAR *initials, const WCHAR *text, WCHAR number[NUMBER_CCH]);

#endif
