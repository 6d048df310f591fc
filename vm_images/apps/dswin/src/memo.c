#include "memo.h"

#include <stdlib.h>
#include <string.h>

#include "dbf.h"

#define BLOCK_SIZE 512
#define END_MARK 0x1A

static DWORD blocks_for(LONGLONG bytes)
{
    return (DWORD)((bytes + BLOCK_SIZE - 1) / BLOCK_SIZE);
}

/* The free block by the header, but never inside what the file already holds. */
static BOOL next_free_block(HANDLE file, DWORD *block)
{
    BYTE raw[4];
    LARGE_INTEGER size;
    DWORD behind;
    if (!dbf_read_at(file, 0, raw, sizeof raw) || !GetFileSizeEx(file, &size))
        return FALSE;
    *block = raw[0] | (DWORD)raw[1] << 8 | (DWORD)raw[2] << 16 | (DWORD)raw[3] << 24;
    behind = blocks_for(size.QuadPart);
    if (*block == 0 || *block > behind) {
        SetLastError(ERROR_FILE_CORRUPT);
        return FALSE;
    }
    return TRUE;
}

static BOOL write_text(HANDLE file, const BYTE *data, DWORD size, DWORD *block)
{
    DWORD next;
    BYTE raw[4];
    if (!next_free_block(file, block) || !dbf_write_at(file, (LONGLONG)*block * BLOCK_SIZE, data, size))
        return FALSE;
    next = *block + size / BLOCK_SIZE;
    raw[0] = (BYTE)next;
    raw[1] = (BYTE)(next >> 8);
    raw[2] = (BYTE)(next >> 16);
    raw[3] = (BYTE)(next >> 24);
    return dbf_write_at(file, 0, raw, sizeof raw) && FlushFileBuffers(file);
}

BOOL memo_append(const WCHAR *path, const WCHAR *text, DWORD *block)
{
    int length = WideCharToMultiByte(DBF_CODE_PAGE, 0, text, -1, NULL, 0, NULL, NULL) - 1; /* without the terminator */
    DWORD size, error;
    BYTE *data;
    HANDLE file;
    BOOL ok;

    if (length <= 0 || length > 2 * MEMO_MAX_TEXT) {
        SetLastError(ERROR_INVALID_PARAMETER);
        return FALSE;
    }
    size = blocks_for(length + 2) * BLOCK_SIZE;
    data = calloc(size, 1);
    if (!data) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return FALSE;
    }
    WideCharToMultiByte(DBF_CODE_PAGE, 0, text, lstrlenW(text), (char *)data, (int)size, NULL, NULL);
    data[length] = data[length + 1] = END_MARK;
    file = dbf_open_shared(path, TRUE);
    ok = file != INVALID_HANDLE_VALUE && write_text(file, data, size, block);
    error = GetLastError();
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    free(data);
    SetLastError(error);
    return ok;
}

/* Reads on from `block` until the end mark, the end of the file or the limit; the number of bytes, -1 for a failure. */
static int read_bytes(HANDLE file, DWORD block, char *data)
{
    LARGE_INTEGER position;
    DWORD done = 0;
    BYTE *end;
    position.QuadPart = (LONGLONG)block * BLOCK_SIZE;
    if (block == 0 || !SetFilePointerEx(file, position, NULL, FILE_BEGIN) ||
        !ReadFile(file, data, MEMO_MAX_TEXT, &done, NULL))
        return -1;
    end = memchr(data, END_MARK, done);
    return end ? (int)((char *)end - data) : (int)done;
}

WCHAR *memo_read(const WCHAR *path, DWORD block)
{
    HANDLE file = dbf_open_shared(path, FALSE);
    char *data = malloc(MEMO_MAX_TEXT);
    WCHAR *text = malloc((MEMO_MAX_TEXT + 1) * sizeof(WCHAR));
    int length = file != INVALID_HANDLE_VALUE && data && text ? read_bytes(file, block, data) : -1;
    if (length >= 0) {
        length = length ? MultiByteToWideChar(DBF_CODE_PAGE, 0, data, length, text, MEMO_MAX_TEXT) : 0;
        text[length] = 0;
    } else {
        free(text);
        text = NULL;
    }
    free(data);
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    return text;
}
