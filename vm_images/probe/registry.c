/* Registry keys and values. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

#define KEY_NAME_CHARS 256u         /* 255 and the end */
#define VALUE_NAME_CHARS 16384u
#define VALUE_BYTES_MOST (2u << 20) /* a larger value is a fault record */
#define INDEX_MOST 1000000u         /* no enumeration goes on longer, whatever the system answers */

typedef struct {
    Out *out;
    const Request *request;
    int root;
    REGSAM access;
    WCHAR path[MAX_PATH_CHARS + 2];
    size_t length;
    WCHAR name[VALUE_NAME_CHARS];
    uint8_t *data;
    DWORD room;
} Scan;

static const struct {
    const WCHAR *name, *shown;
    HKEY key;
} ROOTS[] = {
    {L"HKLM", L"HKLM", HKEY_LOCAL_MACHINE},  {L"HKEY_LOCAL_MACHINE", L"HKLM", HKEY_LOCAL_MACHINE},
    {L"HKCU", L"HKCU", HKEY_CURRENT_USER},   {L"HKEY_CURRENT_USER", L"HKCU", HKEY_CURRENT_USER},
    {L"HKU", L"HKU", HKEY_USERS},            {L"HKEY_USERS", L"HKU", HKEY_USERS},
    {L"HKCR", L"HKCR", HKEY_CLASSES_ROOT},   {L"HKEY_CLASSES_ROOT", L"HKCR", HKEY_CLASSES_ROOT},
    {L"HKCC", L"HKCC", HKEY_CURRENT_CONFIG}, {L"HKEY_CURRENT_CONFIG", L"HKCC", HKEY_CURRENT_CONFIG},
};

static BOOL fault(Scan *scan, const char *op, DWORD code, const WCHAR *message)
{
    return rec_fault(scan->out, scan->root, scan->path, op, code, message);
}

/* What NtQueryKey tells beyond the documented calls. Windows XP answers four bytes without these bits. */
static BOOL key_flags(HKEY key, BOOL *is_volatile)
{
    typedef LONG(WINAPI * QueryKeyFn)(HANDLE, ULONG kind, void *info, ULONG size, ULONG *needed);
    static QueryKeyFn query;
    struct {
        ULONG wow64, key, control;
    } flags = {0, 0, 0};
    ULONG needed = 0;

    if (!query)
        query = (QueryKeyFn)proc_address(L"ntdll.dll", "NtQueryKey");
    if (!query || query(key, 5 /* KeyFlagsInformation */, &flags, sizeof flags, &needed) != 0 || needed < sizeof flags)
        return FALSE;
    *is_volatile = flags.key & 1;
    return TRUE;
}

/* Performance data is no state, costs seconds, and Wine enumerates its values without end. */
static BOOL is_performance_data(const Scan *scan)
{
    static const WCHAR tail[] = L"\\Windows NT\\CurrentVersion\\Perflib";
    const size_t size = ARRAYSIZE(tail) - 1;

    return scan->length > size && lstrcmpiW(scan->path + scan->length - size, tail) == 0;
}

static BOOL same_key(const FILETIME *before, const FILETIME *after)
{
    return CompareFileTime(before, after) == 0;
}

/* The value's data into scan->data. The buffer grows only to the bound. */
static LONG enum_value(Scan *scan, HKEY key, DWORD index, DWORD *name_length, DWORD *type, DWORD *size)
{
    for (;;) {
        *name_length = VALUE_NAME_CHARS;
        *size = scan->room;
        LONG code = RegEnumValueW(key, index, scan->name, name_length, NULL, type, scan->data, size);
        if (code != ERROR_MORE_DATA || scan->room >= VALUE_BYTES_MOST)
            return code;
        DWORD room = *size > scan->room * 2 ? *size : scan->room * 2;
        uint8_t *data = realloc(scan->data, room < VALUE_BYTES_MOST ? room : VALUE_BYTES_MOST);
        if (!data)
            return ERROR_NOT_ENOUGH_MEMORY;
        scan->data = data;
        scan->room = room < VALUE_BYTES_MOST ? room : VALUE_BYTES_MOST;
    }
}

static BOOL write_values(Scan *scan, HKEY key, BOOL *is_link)
{
    for (DWORD index = 0; index < INDEX_MOST; index++) {
        DWORD name_length, type = 0, size;
        LONG code = enum_value(scan, key, index, &name_length, &type, &size);

        if (code == ERROR_NO_MORE_ITEMS)
            return TRUE;
        if (code == ERROR_MORE_DATA) {
            if (!fault(scan, "value", FAULT_BOUND, L"a value is larger than 2 MiB"))
                return FALSE;
            continue;
        }
        if (code != ERROR_SUCCESS)
            return fault(scan, "value", (DWORD)code, NULL);
        if (type == REG_LINK && name_length == 17 && memcmp(scan->name, L"SymbolicLinkValue", 34) == 0)
            *is_link = TRUE;
        rec_begin(scan->out, "value");
        rec_int(scan->out, "root", scan->root);
        rec_text_n(scan->out, "key", scan->path, scan->length);
        rec_text_n(scan->out, "name", scan->name, name_length);
        rec_uint(scan->out, "type", type);
        rec_base64(scan->out, "data", scan->data, size);
        if (!rec_end(scan->out))
            return FALSE;
    }
    return fault(scan, "value", FAULT_BOUND, L"too many values");
}

static BOOL scan_key(Scan *scan, HKEY key, uint64_t depth);

static BOOL scan_subkeys(Scan *scan, HKEY key, uint64_t depth)
{
    size_t before = scan->length;

    for (DWORD index = 0; index < INDEX_MOST; index++) {
        WCHAR name[KEY_NAME_CHARS];
        DWORD length = KEY_NAME_CHARS;
        HKEY child;
        LONG code = RegEnumKeyExW(key, index, name, &length, NULL, NULL, NULL, NULL);

        if (code == ERROR_NO_MORE_ITEMS)
            return TRUE;
        if (code != ERROR_SUCCESS)
            return fault(scan, "enum", (DWORD)code, NULL);
        if (depth > scan->request->max_depth) {
            out_stop(scan->out, STATUS_TRUNCATED, FAULT_BOUND, L"max-depth reached");
            return FALSE;
        }
        if (before + 1 + length > MAX_PATH_CHARS)
            return fault(scan, "enum", ERROR_FILENAME_EXCED_RANGE, NULL);
        scan->path[before] = L'\\';
        memcpy(scan->path + before + 1, name, (length + 1) * sizeof *name);
        scan->length = before + 1 + length;

        BOOL go_on;
        if (is_performance_data(scan)) {
            rec_begin(scan->out, "skip");
            rec_int(scan->out, "root", scan->root);
            rec_text_n(scan->out, "path", scan->path, scan->length);
            rec_ascii(scan->out, "reason", "perflib");
            go_on = rec_end(scan->out);
        } else {
            /* A link is opened itself, not what it points to: links can lead in circles. */
            code = RegOpenKeyExW(key, name, REG_OPTION_OPEN_LINK, scan->access, &child);
            if (code == ERROR_SUCCESS) {
                go_on = scan_key(scan, child, depth);
                RegCloseKey(child);
            } else {
                go_on = fault(scan, "open", (DWORD)code, NULL);
            }
        }
        scan->path[scan->length = before] = 0;
        if (!go_on)
            return FALSE;
    }
    return fault(scan, "enum", FAULT_BOUND, L"too many keys");
}

/* `depth` is the key's; a root has 0. */
static BOOL scan_key(Scan *scan, HKEY key, uint64_t depth)
{
    DWORD keys, values, keys_after, values_after;
    FILETIME modified, modified_after;
    BOOL is_volatile, is_link = FALSE;
    LONG code;

    code = RegQueryInfoKeyW(key, NULL, NULL, NULL, &keys, NULL, NULL, &values, NULL, NULL, NULL, &modified);
    if (code != ERROR_SUCCESS)
        return fault(scan, "query", (DWORD)code, NULL);
    rec_begin(scan->out, "key");
    rec_int(scan->out, "root", scan->root);
    rec_text_n(scan->out, "path", scan->path, scan->length);
    rec_time(scan->out, "mtime", &modified);
    if (key_flags(key, &is_volatile))
        rec_bool(scan->out, "volatile", is_volatile);
    if (!rec_end(scan->out) || !write_values(scan, key, &is_link))
        return FALSE;
    if (!is_link && !scan_subkeys(scan, key, depth + 1))
        return FALSE;
    /* Enumeration goes by index: an insertion or deletion meanwhile shifts entries past it unseen. */
    code = RegQueryInfoKeyW(key, NULL, NULL, NULL, &keys_after, NULL, NULL, &values_after, NULL, NULL, NULL,
                            &modified_after);
    if (code != ERROR_SUCCESS)
        return fault(scan, "query", (DWORD)code, NULL);
    if (keys != keys_after || values != values_after || !same_key(&modified, &modified_after))
        return fault(scan, "query", FAULT_CHANGED, L"changed while it was being read");
    return TRUE;
}

static BOOL write_root(Scan *scan, const char *exists)
{
    rec_begin(scan->out, "root");
    rec_int(scan->out, "root", scan->root);
    rec_text(scan->out, "path", scan->path);
    if (exists)
        rec_bool(scan->out, "exists", exists[0] == 'y');
    else
        rec_null(scan->out, "exists");
    if (exists && exists[0] == 'y')
        rec_ascii(scan->out, "type", "key");
    return rec_end(scan->out);
}

static BOOL scan_root(Scan *scan, const WCHAR *path)
{
    const WCHAR *below = wcschr(path, L'\\');
    size_t length = below ? (size_t)(below - path) : (size_t)lstrlenW(path);
    HKEY hive = NULL, key;

    lstrcpynW(scan->path, path, MAX_PATH_CHARS);
    for (size_t i = 0; i < ARRAYSIZE(ROOTS) && !hive; i++)
        if (length == (size_t)lstrlenW(ROOTS[i].name) && _wcsnicmp(path, ROOTS[i].name, length) == 0) {
            hive = ROOTS[i].key;
            lstrcpyW(scan->path, ROOTS[i].shown);
        }
    if (!hive)
        return write_root(scan, NULL) && fault(scan, "open", ERROR_INVALID_NAME, NULL);
    while (below && *below == L'\\')
        below++;
    if (below && *below) {
        size_t at = (size_t)lstrlenW(scan->path);
        scan->path[at++] = L'\\';
        lstrcpynW(scan->path + at, below, (int)(MAX_PATH_CHARS - at));
    }
    scan->length = (size_t)lstrlenW(scan->path);
    while (scan->length && scan->path[scan->length - 1] == L'\\')
        scan->path[--scan->length] = 0;
    const WCHAR *opened = wcschr(scan->path, L'\\');
    LONG code = RegOpenKeyExW(hive, opened ? opened + 1 : NULL, 0, scan->access, &key);
    if (code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND)
        return write_root(scan, "no");
    if (code != ERROR_SUCCESS)
        return write_root(scan, NULL) && fault(scan, "open", (DWORD)code, NULL);
    BOOL go_on = write_root(scan, "yes") && scan_key(scan, key, 0);
    RegCloseKey(key);
    return go_on;
}

static REGSAM view_flag(const Request *request)
{
    SYSTEM_INFO info;

    if (request->view)
        return request->view == 64 ? KEY_WOW64_64KEY : KEY_WOW64_32KEY;
    /* By default the system's own view, so that both builds of the probe answer alike. */
    GetNativeSystemInfo(&info);
    return info.wProcessorArchitecture == PROCESSOR_ARCHITECTURE_INTEL ? 0 : KEY_WOW64_64KEY;
}

void run_registry(Out *out, const Request *request)
{
    Scan *scan = calloc(1, sizeof *scan);

    if (scan && (scan->data = malloc(scan->room = 4096))) {
        scan->out = out;
        scan->request = request;
        scan->access = KEY_QUERY_VALUE | KEY_ENUMERATE_SUB_KEYS | view_flag(request);
        for (; scan->root < request->argc; scan->root++)
            if (!scan_root(scan, request->argv[scan->root]))
                break;
        free(scan->data);
    } else {
        out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
    }
    free(scan);
}
