/* Text, numbers and paths. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

void *proc_address(const WCHAR *module, const char *name)
{
    HMODULE loaded = GetModuleHandleW(module);
    /* Through void(*)(void): the one function pointer type that converts to all others without a warning. */
    return loaded ? (void *)(uintptr_t)GetProcAddress(loaded, name) : NULL;
}

void system_message(DWORD code, WCHAR *text, size_t room)
{
    DWORD length = FormatMessageW(FORMAT_MESSAGE_FROM_SYSTEM | FORMAT_MESSAGE_IGNORE_INSERTS | FORMAT_MESSAGE_MAX_WIDTH_MASK,
                                  NULL, code, 0, text, (DWORD)room, NULL);
    while (length && (text[length - 1] == L' ' || text[length - 1] == L'\n' || text[length - 1] == L'\r'))
        length--;
    text[length] = 0;
}

uint64_t filetime(const FILETIME *time)
{
    return (uint64_t)time->dwHighDateTime << 32 | time->dwLowDateTime;
}

ptrdiff_t utf8_to_wide(const char *text, size_t size, WCHAR *wide, size_t room)
{
    static const uint32_t least[4] = {0, 0x80, 0x800, 0x10000};
    const uint8_t *at = (const uint8_t *)text, *end = at + size;
    size_t used = 0;

    while (at < end) {
        uint32_t c = *at++;
        int more = c < 0x80 ? 0 : c >> 5 == 6 ? 1 : c >> 4 == 14 ? 2 : c >> 3 == 30 ? 3 : -1;
        if (more < 0 || end - at < more)
            return -1;
        if (more)
            c &= 0x3Fu >> more;
        for (int i = 0; i < more; i++, at++) {
            if (*at >> 6 != 2)
                return -1;
            c = c << 6 | (*at & 63);
        }
        if (c < least[more] || c > 0x10FFFF || used + 3 > room)
            return -1;
        if (c >= 0x10000) {
            wide[used++] = (WCHAR)(0xD800 + ((c - 0x10000) >> 10));
            c = 0xDC00 + ((c - 0x10000) & 0x3FF);
        }
        wide[used++] = (WCHAR)c;
    }
    if (used >= room)
        return -1;
    wide[used] = 0;
    return (ptrdiff_t)used;
}

BOOL parse_uint(const WCHAR *text, uint64_t most, uint64_t *value)
{
    uint64_t sum = 0;

    if (!*text)
        return FALSE;
    for (; *text; text++) {
        if (*text < L'0' || *text > L'9' || sum > most / 10)
            return FALSE;
        sum = sum * 10 + (uint64_t)(*text - L'0');
        if (sum > most)
            return FALSE;
    }
    *value = sum;
    return TRUE;
}

/* ---- paths ------------------------------------------------------------------------------------------------- */

static BOOL is_separator(WCHAR c)
{
    return c == L'\\' || c == L'/';
}

static BOOL has_drive(const WCHAR *path)
{
    WCHAR letter = path[0] | 0x20;
    return letter >= L'a' && letter <= L'z' && path[1] == L':' && is_separator(path[2]);
}

/* Whether a component is `.` or `..`: under \\?\ Windows would look for files of that name. */
static BOOL has_dots(const WCHAR *path)
{
    for (const WCHAR *at = path; *at; at++) {
        if (at != path && !is_separator(at[-1]))
            continue;
        size_t dots = at[0] != L'.' ? 0 : at[1] != L'.' ? 1 : 2;
        if (dots && (!at[dots] || is_separator(at[dots])))
            return TRUE;
    }
    return FALSE;
}

/*
 * A path that is absolute and plain goes to the system as it stands, so that names which Win32 would normalise
 * (a trailing dot or blank, CON) mean the file that a listing showed. Anything else is resolved first. Devices and
 * pipes are refused: opening one has effects, and some block for ever.
 */
WCHAR *long_path(const WCHAR *path)
{
    WCHAR *full = malloc((MAX_PATH_CHARS + 16) * sizeof *full), *rest = full + 8;
    size_t length;

    if (!full) {
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return NULL;
    }
    if (wcsncmp(path, L"\\\\?\\UNC\\", 8) == 0) {
        rest[0] = rest[1] = L'\\';
        lstrcpynW(rest + 2, path + 8, MAX_PATH_CHARS - 8);
        length = (size_t)lstrlenW(path) - 6;
    } else {
        BOOL prefixed = wcsncmp(path, L"\\\\?\\", 4) == 0;
        path += prefixed ? 4 : 0;
        rest[0] = 0;
        if (has_drive(path) && !has_dots(path)) {
            lstrcpynW(rest, path, MAX_PATH_CHARS - 8);
            length = (size_t)lstrlenW(path);
        } else if (prefixed && !has_drive(path)) {
            length = 0; /* volumes and devices by their object names */
        } else {
            length = GetFullPathNameW(path, MAX_PATH_CHARS - 8, rest, NULL);
        }
    }
    BOOL unc = is_separator(rest[0]) && is_separator(rest[1]);
    if (!length || length >= MAX_PATH_CHARS - 8) {
        free(full);
        SetLastError(length ? ERROR_FILENAME_EXCED_RANGE : ERROR_INVALID_NAME);
        return NULL;
    }
    if ((!unc && !has_drive(rest)) || (unc && (rest[2] == L'.' || rest[2] == L'?')) ||
        wcspbrk(rest + 2, L"*?<>|\"")) {
        free(full);
        SetLastError(ERROR_INVALID_NAME);
        return NULL;
    }
    for (size_t i = 0; i < length; i++)
        if (rest[i] == L'/')
            rest[i] = L'\\';
    while (length > 3 && rest[length - 1] == L'\\')
        rest[--length] = 0;
    if (unc) {
        memmove(full + 8, rest + 2, (length - 1) * sizeof *full);
        memcpy(full, L"\\\\?\\UNC\\", 8 * sizeof *full);
    } else {
        memmove(full + 4, rest, (length + 1) * sizeof *full);
        memcpy(full, L"\\\\?\\", 4 * sizeof *full);
    }
    return full;
}

const WCHAR *plain_path(WCHAR *path)
{
    if (wcsncmp(path, L"\\\\?\\UNC\\", 8) != 0)
        return path + 4;
    path[6] = L'\\';
    return path + 6;
}

void restore_path(WCHAR *path)
{
    if (wcsncmp(path, L"\\\\?\\UN\\\\", 8) == 0)
        path[6] = L'C';
}

/* Letters that a user maps (net use, SUBST) belong to that logon session: other processes do not have these drives. */
BOOL no_drive(const WCHAR *path)
{
    WCHAR root[] = L"?:\\";

    path += wcsncmp(path, L"\\\\?\\", 4) == 0 ? 4 : 0;
    root[0] = path[0];
    return has_drive(path) && GetDriveTypeW(root) == DRIVE_NO_ROOT_DIR;
}
