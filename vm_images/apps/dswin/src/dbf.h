/* dBase III+ tables, read and changed in place the way the old programs do it.
 *
 * Every function that returns BOOL leaves the reason of a failure in GetLastError(). Files are opened with full sharing
 * and should be kept open only for the one operation. Texts are code page 850. Record numbers start at 1. */
#ifndef DSWIN_DBF_H
#define DSWIN_DBF_H

#include <windows.h>

#define DBF_CODE_PAGE 850
#define DBF_MAX_FIELDS 128
#define DBF_MAX_RECORD 4000 /* the limit of dBase III+ */
#define DBF_MAX_TEXT 256    /* longest field and the terminator */

typedef struct {
    char name[11];
    char type;
    BYTE length;
    BYTE decimals;
    WORD offset; /* in the record, behind the deletion flag */
} DbfField;

typedef struct {
    HANDLE file;
    DWORD count;
    WORD header_size;
    WORD record_size;
    int field_count;
    DbfField fields[DBF_MAX_FIELDS];
} DbfTable;

/* Opens an existing file for reading (and writing) with full sharing; waits a moment for a reader that does not share. */
HANDLE dbf_open_shared(const WCHAR *path, BOOL writable);

/* Reads or writes exactly `size` bytes at `offset`; ERROR_HANDLE_EOF for a file that ends before. */
BOOL dbf_read_at(HANDLE file, LONGLONG offset, void *data, DWORD size);
BOOL dbf_write_at(HANDLE file, LONGLONG offset, const void *data, DWORD size);

/* ERROR_FILE_CORRUPT for a header that is not dBase III, contradicts itself or promises more rows than there are. */
BOOL dbf_open(DbfTable *table, const WCHAR *path, BOOL writable);
void dbf_close(DbfTable *table);

BOOL dbf_read(const DbfTable *table, DWORD number, BYTE *record);

/* Writes the row, then the header (date), then flushes. */
BOOL dbf_write(DbfTable *table, DWORD number, const BYTE *record);

/* Writes the row and the end mark behind the last one, then the header (count and date), then flushes. */
BOOL dbf_append(DbfTable *table, const BYTE *record, DWORD *number);

BOOL dbf_is_deleted(const BYTE *record);

/* A record of spaces: every field blank. */
void dbf_blank(const DbfTable *table, BYTE *record);

/* NULL, with ERROR_FILE_CORRUPT, for a column the table does not have. */
const DbfField *dbf_field(const DbfTable *table, const char *name);

/* The field's text without the blanks behind it; empty if the column is missing. */
void dbf_get_text(const DbfTable *table, const BYTE *record, const char *name, WCHAR *out, int cch);

/* Puts a text, left-aligned and cut to the field; also right for D (YYYYMMDD) and L (T, F or a blank). */
BOOL dbf_put_text(const DbfTable *table, BYTE *record, const char *name, const WCHAR *text);

/* Numbers are integers scaled by the column's decimals. A blank field reads as 0; ERROR_INVALID_DATA for one that is no
 * number; ERROR_ARITHMETIC_OVERFLOW for a number too wide for its field. */
BOOL dbf_get_number(const DbfTable *table, const BYTE *record, const char *name, LONGLONG *value);
BOOL dbf_put_number(const DbfTable *table, BYTE *record, const char *name, LONGLONG value);

#endif
