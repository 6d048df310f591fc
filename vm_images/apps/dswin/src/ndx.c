#include "ndx.h"

#include <stdlib.h>
#include <string.h>

#define HEADER_SIZE 512
#define KEY_SIZE 60
#define ENTRY_SIZE (KEY_SIZE + 4)

static void put_dword(BYTE *at, DWORD value)
{
    at[0] = (BYTE)value;
    at[1] = (BYTE)(value >> 8);
    at[2] = (BYTE)(value >> 16);
    at[3] = (BYTE)(value >> 24);
}

static DWORD entry_number(const BYTE *entry)
{
    const BYTE *at = entry + KEY_SIZE;
    return at[0] | (DWORD)at[1] << 8 | (DWORD)at[2] << 16 | (DWORD)at[3] << 24;
}

static int compare_entries(const void *left, const void *right)
{
    int order = memcmp(left, right, KEY_SIZE);
    DWORD l = entry_number(left), r = entry_number(right);
    return order ? order : (l > r) - (l < r);
}

static void put_key_part(BYTE *at, const BYTE *record, const DbfField *field)
{
    memset(at, ' ', KEY_SIZE / 2);
    memcpy(at, record + field->offset, field->length < KEY_SIZE / 2 ? field->length : KEY_SIZE / 2);
}

/* Fills header and entries; `data` has room for every row. FALSE if a row cannot be read. */
static BOOL fill(const DbfTable *table, const DbfField *name, const DbfField *first, BYTE *data, DWORD *entries)
{
    BYTE record[DBF_MAX_RECORD];
    DWORD number;
    *entries = 0;
    for (number = 1; number <= table->count; ++number) {
        BYTE *entry = data + HEADER_SIZE + (size_t)*entries * ENTRY_SIZE;
        if (!dbf_read(table, number, record))
            return FALSE;
        if (dbf_is_deleted(record))
            continue;
        put_key_part(entry, record, name);
        put_key_part(entry + KEY_SIZE / 2, record, first);
        put_dword(entry + KEY_SIZE, number);
        ++*entries;
    }
    qsort(data + HEADER_SIZE, *entries, ENTRY_SIZE, compare_entries);
    memcpy(data, "DSNX", 4);
    data[4] = 1;
    data[6] = KEY_SIZE;
    put_dword(data + 8, *entries);
    memcpy(data + 16, "NAME+VORNAME", 12);
    return TRUE;
}

static BOOL replace_file(const WCHAR *path, const BYTE *data, DWORD size)
{
    DWORD error;
    BOOL ok;
    HANDLE file = CreateFileW(path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, CREATE_ALWAYS,
                              FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return FALSE;
    ok = dbf_write_at(file, 0, data, size) && FlushFileBuffers(file);
    error = GetLastError();
    CloseHandle(file);
    SetLastError(error);
    return ok;
}

BOOL ndx_rewrite(const DbfTable *table, const WCHAR *path)
{
    const DbfField *name = dbf_field(table, "NAME"), *first = dbf_field(table, "VORNAME");
    DWORD entries, error;
    BYTE *data;
    BOOL ok;
    if (!name || !first)
        return FALSE;
    data = calloc(1, HEADER_SIZE + (size_t)table->count * ENTRY_SIZE);
    if (!data) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return FALSE;
    }
    ok = fill(table, name, first, data, &entries) && replace_file(path, data, HEADER_SIZE + entries * ENTRY_SIZE);
    error = GetLastError();
    free(data);
    SetLastError(error);
    return ok;
}
