#include "dbf.h"

#include <string.h>

#include "text.h"

#define DESCRIPTOR_SIZE 32
#define HEADER_MARK 0x0D
#define END_MARK 0x1A
#define SHARING_RETRIES 10
#define SHARING_PAUSE_MS 30

static BOOL fail(DWORD error)
{
    SetLastError(error);
    return FALSE;
}

static WORD word_at(const BYTE *data)
{
    return (WORD)(data[0] | data[1] << 8);
}

static DWORD dword_at(const BYTE *data)
{
    return word_at(data) | (DWORD)word_at(data + 2) << 16;
}

HANDLE dbf_open_shared(const WCHAR *path, BOOL writable)
{
    DWORD access = writable ? GENERIC_READ | GENERIC_WRITE : GENERIC_READ;
    int attempt;
    for (attempt = 0;; ++attempt) {
        HANDLE file = CreateFileW(path, access, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING,
                                  FILE_ATTRIBUTE_NORMAL, NULL);
        if (file != INVALID_HANDLE_VALUE || GetLastError() != ERROR_SHARING_VIOLATION || attempt == SHARING_RETRIES)
            return file;
        Sleep(SHARING_PAUSE_MS);
    }
}

static BOOL seek(HANDLE file, LONGLONG offset)
{
    LARGE_INTEGER position;
    position.QuadPart = offset;
    return SetFilePointerEx(file, position, NULL, FILE_BEGIN);
}

BOOL dbf_read_at(HANDLE file, LONGLONG offset, void *data, DWORD size)
{
    DWORD done;
    if (!seek(file, offset) || !ReadFile(file, data, size, &done, NULL))
        return FALSE;
    return done == size ? TRUE : fail(ERROR_HANDLE_EOF);
}

BOOL dbf_write_at(HANDLE file, LONGLONG offset, const void *data, DWORD size)
{
    DWORD done;
    if (!seek(file, offset) || !WriteFile(file, data, size, &done, NULL))
        return FALSE;
    return done == size ? TRUE : fail(ERROR_WRITE_FAULT);
}

static LONGLONG record_offset(const DbfTable *table, DWORD number)
{
    return table->header_size + (LONGLONG)(number - 1) * table->record_size;
}

/* Reads the column descriptors; their lengths must add up to the record length. */
static BOOL read_fields(DbfTable *table)
{
    DWORD offset = 1;
    table->field_count = 0;
    for (;;) {
        BYTE raw[DESCRIPTOR_SIZE];
        LONGLONG at = DESCRIPTOR_SIZE + (LONGLONG)table->field_count * DESCRIPTOR_SIZE;
        DbfField *field;
        if (at >= table->header_size)
            return fail(ERROR_FILE_CORRUPT);
        if (!dbf_read_at(table->file, at, raw, 1))
            return FALSE;
        if (raw[0] == HEADER_MARK)
            break;
        if (table->field_count == DBF_MAX_FIELDS || at + DESCRIPTOR_SIZE > table->header_size)
            return fail(ERROR_FILE_CORRUPT);
        if (!dbf_read_at(table->file, at, raw, DESCRIPTOR_SIZE))
            return FALSE;
        field = &table->fields[table->field_count++];
        memcpy(field->name, raw, 10);
        field->name[10] = 0;
        field->type = (char)raw[11];
        field->length = raw[16];
        field->decimals = raw[17];
        field->offset = (WORD)offset;
        offset += field->length;
        if (field->length == 0 || field->decimals > 9 || offset > table->record_size)
            return fail(ERROR_FILE_CORRUPT);
    }
    return offset == table->record_size ? TRUE : fail(ERROR_FILE_CORRUPT);
}

static BOOL read_header(DbfTable *table)
{
    BYTE raw[DESCRIPTOR_SIZE];
    LARGE_INTEGER size;
    if (!dbf_read_at(table->file, 0, raw, sizeof raw))
        return FALSE;
    table->count = dword_at(raw + 4);
    table->header_size = word_at(raw + 8);
    table->record_size = word_at(raw + 10);
    if ((raw[0] != 0x03 && raw[0] != 0x83) || table->record_size < 2 || table->record_size > DBF_MAX_RECORD)
        return fail(ERROR_FILE_CORRUPT);
    if (!read_fields(table) || !GetFileSizeEx(table->file, &size))
        return FALSE;
    return record_offset(table, table->count + 1) <= size.QuadPart ? TRUE : fail(ERROR_FILE_CORRUPT);
}

BOOL dbf_open(DbfTable *table, const WCHAR *path, BOOL writable)
{
    table->file = dbf_open_shared(path, writable);
    if (table->file == INVALID_HANDLE_VALUE)
        return FALSE;
    if (!read_header(table)) {
        DWORD error = GetLastError();
        dbf_close(table);
        return fail(error);
    }
    return TRUE;
}

void dbf_close(DbfTable *table)
{
    DWORD error = GetLastError(); /* of the operation before, which the caller may be about to report */
    CloseHandle(table->file);
    table->file = INVALID_HANDLE_VALUE;
    SetLastError(error);
}

BOOL dbf_read(const DbfTable *table, DWORD number, BYTE *record)
{
    if (number == 0 || number > table->count)
        return fail(ERROR_INVALID_PARAMETER);
    return dbf_read_at(table->file, record_offset(table, number), record, table->record_size);
}

/* The date of the last change (year since 1900, month, day) and the number of rows lie side by side in the header. */
static BOOL write_header(DbfTable *table)
{
    BYTE raw[7];
    SYSTEMTIME now;
    GetLocalTime(&now);
    raw[0] = (BYTE)(now.wYear - 1900);
    raw[1] = (BYTE)now.wMonth;
    raw[2] = (BYTE)now.wDay;
    raw[3] = (BYTE)table->count;
    raw[4] = (BYTE)(table->count >> 8);
    raw[5] = (BYTE)(table->count >> 16);
    raw[6] = (BYTE)(table->count >> 24);
    return dbf_write_at(table->file, 1, raw, sizeof raw) && FlushFileBuffers(table->file);
}

BOOL dbf_write(DbfTable *table, DWORD number, const BYTE *record)
{
    if (number == 0 || number > table->count)
        return fail(ERROR_INVALID_PARAMETER);
    return dbf_write_at(table->file, record_offset(table, number), record, table->record_size) && write_header(table);
}

BOOL dbf_append(DbfTable *table, const BYTE *record, DWORD *number)
{
    BYTE end_mark = END_MARK;
    LONGLONG offset = record_offset(table, table->count + 1);
    if (!dbf_write_at(table->file, offset, record, table->record_size) ||
        !dbf_write_at(table->file, offset + table->record_size, &end_mark, 1))
        return FALSE;
    *number = ++table->count;
    return write_header(table);
}

BOOL dbf_is_deleted(const BYTE *record)
{
    return record[0] == '*';
}

void dbf_blank(const DbfTable *table, BYTE *record)
{
    memset(record, ' ', table->record_size);
}

const DbfField *dbf_field(const DbfTable *table, const char *name)
{
    int i;
    for (i = 0; i < table->field_count; ++i)
        if (strcmp(table->fields[i].name, name) == 0)
            return &table->fields[i];
    SetLastError(ERROR_FILE_CORRUPT);
    return NULL;
}

void dbf_get_text(const DbfTable *table, const BYTE *record, const char *name, WCHAR *out, int cch)
{
    const DbfField *field = dbf_field(table, name);
    int length = field ? field->length : 0;
    out[0] = 0;
    while (length > 0 && (record[field->offset + length - 1] == ' ' || record[field->offset + length - 1] == 0))
        --length;
    if (length == 0)
        return;
    if (length >= cch) /* code page 850 has one byte for each character */
        length = cch - 1;
    length = MultiByteToWideChar(DBF_CODE_PAGE, 0, (const char *)record + field->offset, length, out, cch - 1);
    out[length] = 0;
}

BOOL dbf_put_text(const DbfTable *table, BYTE *record, const char *name, const WCHAR *text)
{
    char bytes[2 * DBF_MAX_TEXT];
    const DbfField *field = dbf_field(table, name);
    int length = lstrlenW(text);
    if (!field)
        return FALSE;
    if (length > field->length)
        length = field->length;
    if (length > 0)
        length = WideCharToMultiByte(DBF_CODE_PAGE, 0, text, length, bytes, sizeof bytes, NULL, NULL);
    if (length > field->length)
        length = field->length;
    memset(record + field->offset, ' ', field->length);
    memcpy(record + field->offset, bytes, (size_t)length);
    return TRUE;
}

BOOL dbf_get_number(const DbfTable *table, const BYTE *record, const char *name, LONGLONG *value)
{
    WCHAR text[DBF_MAX_TEXT];
    const DbfField *field = dbf_field(table, name);
    if (!field)
        return FALSE;
    dbf_get_text(table, record, name, text, DBF_MAX_TEXT);
    text_trim(text);
    *value = 0;
    if (!text[0])
        return TRUE;
    return decimal_parse(text, field->decimals, value) ? TRUE : fail(ERROR_INVALID_DATA);
}

BOOL dbf_put_number(const DbfTable *table, BYTE *record, const char *name, LONGLONG value)
{
    WCHAR digits[32], padded[DBF_MAX_TEXT];
    const DbfField *field = dbf_field(table, name);
    if (!field)
        return FALSE;
    decimal_show(value, field->decimals, L'.', digits, 32);
    if (lstrlenW(digits) > field->length)
        return fail(ERROR_ARITHMETIC_OVERFLOW);
    text_format(padded, DBF_MAX_TEXT, L"%*ls", field->length, digits);
    return dbf_put_text(table, record, name, padded);
}
