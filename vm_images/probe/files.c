/* Files: trees, hashes, contents. Nothing is ever opened for writing, and everything with full sharing. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define OPEN_NO_RECALL 0x00100000u      /* FILE_FLAG_OPEN_NO_RECALL: do not fetch from remote storage */
#define RECALL_ATTRIBUTES 0x00441000u   /* OFFLINE, RECALL_ON_OPEN, RECALL_ON_DATA_ACCESS */
#define CHUNK_BYTES (48u * 1024)
#define HASH_BUFFER_BYTES (256u * 1024)
#define STREAM_INFO_MOST (1u << 20)

typedef struct {
    Out *out;
    const Request *request;
    int root;
    WCHAR *path;            /* absolute, with the \\?\ prefix; grows and shrinks with the walk */
    size_t length;
    size_t relative;        /* where the part below the root begins */
    BOOL named_streams;     /* the volume can hold them */
    BOOL ask;               /* the listing is not enough */
    uint64_t read_left;     /* content that may still be read, in bytes */
    uint8_t *buffer;        /* for contents */
    uint8_t *stream_info;
    size_t stream_room;
} Walk;

typedef struct {
    DWORD attributes, tag;
    uint64_t size;
    FILETIME modified, created;
    BOOL listed;            /* known from the directory's listing only */
    WCHAR short_name[14];
} Facts;

/*
 * NTFS brings a directory's listing up to date only when a file's last handle is closed, and only for the name that
 * was used: a table that a program holds open shows an old size there. So files are asked themselves, except on Wine,
 * whose listings come from stat and are always exact.
 */
static BOOL listings_lag(void)
{
    return !proc_address(L"ntdll.dll", "wine_get_version");
}

static BOOL walk_init(Walk *walk, Out *out, const Request *request)
{
    memset(walk, 0, sizeof *walk);
    walk->out = out;
    walk->request = request;
    walk->read_left = request->max_read;
    walk->ask = request->exact || listings_lag();
    walk->buffer = malloc(HASH_BUFFER_BYTES);
    walk->path = malloc((MAX_PATH_CHARS + 1024) * sizeof *walk->path);
    if (walk->buffer && walk->path)
        return TRUE;
    out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
    return FALSE;
}

static void walk_free(Walk *walk)
{
    free(walk->buffer);
    free(walk->path);
    free(walk->stream_info);
}

static BOOL is_missing(DWORD code)
{
    return code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND;
}

/* What is not found where there is not even the drive is no absence: the user may have that drive. */
static DWORD own_code(const WCHAR *path, DWORD code)
{
    return code == ERROR_INVALID_DRIVE || (is_missing(code) && no_drive(path)) ? FAULT_NO_DRIVE : code;
}

/* NULL: the system has a text for it. */
static const WCHAR *own_message(DWORD code)
{
    switch (code) {
    case FAULT_CHANGED:
        return L"changed while it was being read";
    case FAULT_NOT_A_FILE:
        return L"not a file";
    case FAULT_NO_DRIVE:
        return in_service_session() ? L"no such drive here: session 0 does not see the drives that a user has mapped"
                                    : L"there is no such drive";
    default:
        return NULL;
    }
}

static BOOL fault(Walk *walk, const char *op, DWORD code)
{
    code = own_code(walk->path, code);
    const WCHAR *shown = plain_path(walk->path);
    BOOL go_on = rec_fault(walk->out, walk->root, shown, op, code, own_message(code));
    restore_path(walk->path);
    return go_on;
}

static BOOL set_path(Walk *walk, const WCHAR *path)
{
    WCHAR *full = long_path(path);

    if (!full)
        return FALSE;
    lstrcpynW(walk->path, full, MAX_PATH_CHARS);
    walk->length = (size_t)lstrlenW(walk->path);
    walk->relative = walk->length + (walk->path[walk->length - 1] != L'\\');
    free(full);
    return TRUE;
}

/* ---- one file ------------------------------------------------------------------------------------------------ */

/* By two small calls: GetFileInformationByHandle asks the volume as well, which on Wine takes ten times an open. */
static DWORD ask_handle(HANDLE file, uint64_t *size, FILETIME *created, FILETIME *modified)
{
    LARGE_INTEGER length;

    if (!GetFileSizeEx(file, &length) || !GetFileTime(file, created, NULL, modified))
        return GetLastError();
    *size = (uint64_t)length.QuadPart;
    return 0;
}

static HANDLE open_for_facts(const WCHAR *path)
{
    return CreateFileW(path, FILE_READ_ATTRIBUTES, SHARE_ALL, NULL, OPEN_EXISTING,
                       FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT, NULL);
}

static HANDLE open_for_content(const WCHAR *path)
{
    return CreateFileW(path, GENERIC_READ, SHARE_ALL, NULL, OPEN_EXISTING, FILE_FLAG_SEQUENTIAL_SCAN | OPEN_NO_RECALL, NULL);
}

typedef BOOL (*Consume)(void *context, uint64_t offset, const uint8_t *data, DWORD size);

/*
 * Reads a file from its begin to its end and hands out pieces. 0, or the fault's code: FAULT_CHANGED if size or time
 * of change moved meanwhile, so a hash is never that of a mixture.
 */
static DWORD read_content(Walk *walk, HANDLE file, Facts *facts, DWORD piece, Consume consume, void *context)
{
    FILETIME created, modified;
    uint64_t offset = 0, size = 0;
    DWORD got, code = ask_handle(file, &facts->size, &facts->created, &facts->modified);

    if (code)
        return code;
    facts->listed = FALSE;
    while (offset < facts->size) {
        if (!ReadFile(file, walk->buffer, piece, &got, NULL))
            return GetLastError();
        if (!got || got > facts->size - offset)
            return FAULT_CHANGED;
        if (got > walk->read_left)
            return FAULT_BOUND;
        walk->read_left -= got;
        if (!consume(context, offset, walk->buffer, got))
            return FAULT_BOUND;
        offset += got;
    }
    code = ask_handle(file, &size, &created, &modified);
    if (code)
        return code;
    return size != facts->size || CompareFileTime(&modified, &facts->modified) != 0 ? FAULT_CHANGED : 0;
}

static BOOL consume_hash(void *context, uint64_t offset, const uint8_t *data, DWORD size)
{
    (void)offset;
    sha256_update(context, data, size);
    return TRUE;
}

static DWORD hash_path(Walk *walk, const WCHAR *path, Facts *facts, char hex[65])
{
    Sha256 sha;
    HANDLE file = open_for_content(path);
    DWORD code;

    if (file == INVALID_HANDLE_VALUE)
        return GetLastError();
    sha256_init(&sha);
    code = read_content(walk, file, facts, HASH_BUFFER_BYTES, consume_hash, &sha);
    CloseHandle(file);
    if (!code)
        sha256_hex(&sha, hex);
    return code;
}

/* The fault of a content that could not be read; the bound on reading ends the whole answer. */
static BOOL content_fault(Walk *walk, const char *op, DWORD code)
{
    if (code == FAULT_BOUND) {
        out_stop(walk->out, STATUS_TRUNCATED, FAULT_BOUND, L"max-read of content reached");
        return FALSE;
    }
    return fault(walk, op, code);
}

/* ---- named streams ------------------------------------------------------------------------------------------- */

/* FILE_STREAM_INFORMATION of the driver kit; FindFirstStreamW, which wraps it, came only with Vista. */
typedef struct {
    ULONG next, name_bytes;
    LARGE_INTEGER size, allocated;
    WCHAR name[1];
} StreamInfo;

typedef LONG(WINAPI *QueryInformationFn)(HANDLE, void *status, void *info, ULONG size, ULONG kind);

static BOOL wants_more_room(LONG status)
{
    /* STATUS_BUFFER_OVERFLOW, STATUS_INFO_LENGTH_MISMATCH, STATUS_BUFFER_TOO_SMALL */
    return status == (LONG)0x80000005 || status == (LONG)0xC0000004 || status == (LONG)0xC0000023;
}

/* Fills walk->stream_info; answers the bytes used, 0 for none, -1 where the system cannot tell. */
static ptrdiff_t query_streams(Walk *walk)
{
    static QueryInformationFn query;
    struct {
        void *status;
        ULONG_PTR used;
    } result = {NULL, 0};
    LONG status = -1;

    if (!query)
        query = (QueryInformationFn)proc_address(L"ntdll.dll", "NtQueryInformationFile");
    HANDLE file = query ? open_for_facts(walk->path) : INVALID_HANDLE_VALUE;
    if (file == INVALID_HANDLE_VALUE)
        return -1;
    for (size_t room = walk->stream_room ? walk->stream_room : 4096; room <= STREAM_INFO_MOST; room *= 2) {
        if (room > walk->stream_room) {
            uint8_t *info = realloc(walk->stream_info, room);
            if (!info)
                break;
            walk->stream_info = info;
            walk->stream_room = room;
        }
        result.used = 0;
        status = query(file, &result, walk->stream_info, (ULONG)room, 22 /* FileStreamInformation */);
        if (!wants_more_room(status))
            break;
    }
    CloseHandle(file);
    if (status != 0)
        return -1;
    return (ptrdiff_t)(result.used < walk->stream_room ? result.used : walk->stream_room);
}

static BOOL is_default_stream(const StreamInfo *info)
{
    return info->name_bytes == 14 && memcmp(info->name, L"::$DATA", 14) == 0;
}

static void rec_streams(Walk *walk)
{
    Out *out = walk->out;
    ptrdiff_t used = walk->named_streams ? query_streams(walk) : 0;
    size_t at = 0;

    if (used < 0) {
        rec_null(out, "streams");
        return;
    }
    rec_open(out, "streams", '[');
    while (at + offsetof(StreamInfo, name) <= (size_t)used) {
        const StreamInfo *info = (const StreamInfo *)(walk->stream_info + at);
        if (info->name_bytes > (size_t)used - at - offsetof(StreamInfo, name))
            break;
        if (!is_default_stream(info)) {
            size_t chars = info->name_bytes / sizeof(WCHAR);
            Facts facts;
            char hex[65];

            rec_open(out, NULL, '{');
            rec_text_n(out, "name", info->name, chars);
            rec_uint(out, "size", (uint64_t)info->size.QuadPart);
            if (walk->request->hash && walk->length + chars < MAX_PATH_CHARS) {
                memcpy(walk->path + walk->length, info->name, info->name_bytes);
                walk->path[walk->length + chars] = 0;
                if (hash_path(walk, walk->path, &facts, hex) == 0)
                    rec_ascii(out, "sha256", hex);
                else
                    rec_null(out, "sha256");
                walk->path[walk->length] = 0;
            }
            rec_close(out, '}');
        }
        if (!info->next)
            break;
        at += info->next;
    }
    rec_close(out, ']');
}

/* ---- records ------------------------------------------------------------------------------------------------- */

/*
 * Deduplicated, compressed and hydrated cloud files are reparse points by their storage only: whoever opens them gets
 * the content. Everything else (junctions, symbolic links, mount points) leads elsewhere.
 */
static BOOL is_plain_storage(const Facts *facts)
{
    if (facts->attributes & (FILE_ATTRIBUTE_DIRECTORY | RECALL_ATTRIBUTES))
        return FALSE;
    return facts->tag == 0x80000013u || facts->tag == 0x80000007u || facts->tag == 0x80000017u ||
           (facts->tag & 0xFFFF0FFFu) == 0x9000001Au;
}

static const char *kind_of(const Facts *facts)
{
    if (facts->attributes & FILE_ATTRIBUTE_REPARSE_POINT && !is_plain_storage(facts))
        return "link";
    return facts->attributes & FILE_ATTRIBUTE_DIRECTORY ? "dir" : "file";
}

static void rec_facts(Walk *walk, const char *kind, const WCHAR *path, const Facts *facts)
{
    Out *out = walk->out;

    rec_begin(out, kind);
    rec_int(out, "root", walk->root);
    rec_text(out, "path", path);
    if (kind[0] != 'd')
        rec_uint(out, "size", facts->size);
    rec_time(out, "mtime", &facts->modified);
    rec_time(out, "ctime", &facts->created);
    rec_uint(out, "attr", facts->attributes);
    if (facts->tag || kind[0] == 'l')
        rec_uint(out, "tag", facts->tag);
    if (facts->listed && kind[0] == 'f')
        rec_bool(out, "listed", TRUE);
    if (facts->short_name[0])
        rec_text(out, "short", facts->short_name);
}

static DWORD ask_file(Walk *walk, Facts *facts)
{
    HANDLE file = open_for_facts(walk->path);
    DWORD code = file == INVALID_HANDLE_VALUE ? GetLastError()
                                              : ask_handle(file, &facts->size, &facts->created, &facts->modified);

    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    return code;
}

static BOOL write_entry(Walk *walk, Facts *facts)
{
    const Request *request = walk->request;
    const char *kind = kind_of(facts), *op = "stat";
    char hex[65];
    DWORD code = 0, hashed = 1;

    if (kind[0] == 'f') {
        if (request->hash) {
            op = "hash";
            code = hashed = hash_path(walk, walk->path, facts, hex);
            if (code == FAULT_BOUND)
                return content_fault(walk, op, code);
        }
        if (facts->listed && !request->listing) {
            DWORD asked = walk->ask ? ask_file(walk, facts) : 0;
            facts->listed = asked != 0;
            if (is_missing(asked))
                return fault(walk, "stat", asked);
        }
    }
    rec_facts(walk, kind, walk->path + walk->relative, facts);
    if (kind[0] == 'f' && request->hash) {
        if (hashed == 0)
            rec_ascii(walk->out, "sha256", hex);
        else
            rec_null(walk->out, "sha256");
    }
    if (kind[0] != 'l' && request->streams)
        rec_streams(walk);
    return rec_end(walk->out) && (!code || content_fault(walk, op, code));
}

static void facts_of_listing(Facts *facts, const WIN32_FIND_DATAW *found)
{
    facts->attributes = found->dwFileAttributes;
    facts->tag = found->dwFileAttributes & FILE_ATTRIBUTE_REPARSE_POINT ? found->dwReserved0 : 0;
    facts->size = (uint64_t)found->nFileSizeHigh << 32 | found->nFileSizeLow;
    facts->modified = found->ftLastWriteTime;
    facts->created = found->ftCreationTime;
    facts->listed = TRUE;
    lstrcpynW(facts->short_name, found->cAlternateFileName, ARRAYSIZE(facts->short_name));
    if (lstrcmpW(facts->short_name, found->cFileName) == 0)
        facts->short_name[0] = 0;
}

/* Takes the path back to `length` characters. */
static void cut_path(Walk *walk, size_t length)
{
    walk->path[length] = 0;
    walk->length = length;
}

static BOOL walk_directory(Walk *walk, uint64_t depth);

static BOOL visit(Walk *walk, const WIN32_FIND_DATAW *found, uint64_t depth)
{
    size_t before = walk->length, name = (size_t)lstrlenW(found->cFileName);
    BOOL go_on, slash = walk->path[before - 1] != L'\\';
    Facts facts;

    if (depth > walk->request->max_depth) {
        out_stop(walk->out, STATUS_TRUNCATED, FAULT_BOUND, L"max-depth reached");
        return FALSE;
    }
    if (before + slash + name + 2 > MAX_PATH_CHARS)
        return fault(walk, "list", ERROR_FILENAME_EXCED_RANGE);
    if (slash)
        walk->path[before] = L'\\';
    memcpy(walk->path + before + slash, found->cFileName, (name + 1) * sizeof(WCHAR));
    walk->length = before + slash + name;

    facts_of_listing(&facts, found);
    go_on = write_entry(walk, &facts);
    if (go_on && !walk->request->flat && kind_of(&facts)[0] == 'd')
        go_on = walk_directory(walk, depth + 1);
    cut_path(walk, before);
    return go_on;
}

/* `depth` is that of the directory's entries; those of a root have 1. */
static BOOL walk_directory(Walk *walk, uint64_t depth)
{
    WIN32_FIND_DATAW found;
    size_t before = walk->length;
    BOOL slash = walk->path[before - 1] != L'\\', go_on = TRUE;

    lstrcpyW(walk->path + before, slash ? L"\\*" : L"*");
    HANDLE list = FindFirstFileW(walk->path, &found);
    DWORD code = list == INVALID_HANDLE_VALUE ? GetLastError() : 0;
    cut_path(walk, before);
    if (list == INVALID_HANDLE_VALUE) /* an empty drive has not even `.`: that alone is "file not found" */
        return own_code(walk->path, code) == ERROR_FILE_NOT_FOUND || fault(walk, "list", code);
    do {
        const WCHAR *name = found.cFileName;
        if (name[0] != L'.' || (name[1] && (name[1] != L'.' || name[2])))
            go_on = visit(walk, &found, depth);
    } while (go_on && FindNextFileW(list, &found));
    code = go_on ? GetLastError() : ERROR_NO_MORE_FILES;
    FindClose(list);
    return go_on && (code == ERROR_NO_MORE_FILES || fault(walk, "list", code));
}

/* ---- files ----------------------------------------------------------------------------------------------------- */

static BOOL ask_root(Walk *walk, Facts *facts, DWORD *code)
{
    WIN32_FIND_DATAW found;
    WIN32_FILE_ATTRIBUTE_DATA data;

    memset(facts, 0, sizeof *facts);
    *code = 0;
    BOOL known = GetFileAttributesExW(walk->path, GetFileExInfoStandard, &data);
    if (!known) {
        *code = own_code(walk->path, GetLastError());
        if (is_missing(*code) || *code == FAULT_NO_DRIVE)
            return FALSE;
    }
    if (known) {
        facts->attributes = data.dwFileAttributes;
        facts->size = (uint64_t)data.nFileSizeHigh << 32 | data.nFileSizeLow;
        facts->modified = data.ftLastWriteTime;
        facts->created = data.ftCreationTime;
        facts->listed = TRUE;
    }
    /* The parent's listing has tag and short name, and knows files that nobody may open; a drive's root has none. */
    HANDLE list = FindFirstFileW(walk->path, &found);
    if (list != INVALID_HANDLE_VALUE) {
        FindClose(list);
        facts_of_listing(facts, &found);
        known = TRUE;
    }
    return known;
}

static BOOL volume_has_streams(const WCHAR *path)
{
    WCHAR volume[512];
    DWORD flags = 0;

    /* A volume that does not say is asked file by file. */
    return !GetVolumePathNameW(path, volume, ARRAYSIZE(volume)) ||
           !GetVolumeInformationW(volume, NULL, 0, NULL, NULL, &flags, NULL, 0) || flags & FILE_NAMED_STREAMS;
}

static BOOL write_root(Walk *walk, const char *exists, const char *type)
{
    const WCHAR *shown = plain_path(walk->path);

    rec_begin(walk->out, "root");
    rec_int(walk->out, "root", walk->root);
    rec_text(walk->out, "path", shown);
    restore_path(walk->path);
    if (exists)
        rec_bool(walk->out, "exists", exists[0] == 'y');
    else
        rec_null(walk->out, "exists");
    if (type)
        rec_ascii(walk->out, "type", type);
    return rec_end(walk->out);
}

static BOOL walk_root(Walk *walk, const WCHAR *path)
{
    Facts facts;
    DWORD code;

    if (!set_path(walk, path)) {
        code = GetLastError();
        rec_begin(walk->out, "root");
        rec_int(walk->out, "root", walk->root);
        rec_text(walk->out, "path", path);
        rec_null(walk->out, "exists");
        return rec_end(walk->out) && rec_fault(walk->out, walk->root, path, "stat", code, NULL);
    }
    if (!ask_root(walk, &facts, &code)) {
        if (is_missing(code))
            return write_root(walk, "no", NULL);
        return write_root(walk, NULL, NULL) && fault(walk, "stat", code);
    }
    const char *kind = kind_of(&facts);
    if (walk->request->streams)
        walk->named_streams = volume_has_streams(walk->path);
    if (!write_root(walk, "yes", kind))
        return FALSE;
    if (kind[0] == 'd')
        return walk_directory(walk, 1);
    walk->relative = walk->length; /* its path below the root is empty */
    return write_entry(walk, &facts);
}

void run_files(Out *out, const Request *request)
{
    Walk walk;

    if (walk_init(&walk, out, request))
        while (walk.root < request->argc && walk_root(&walk, request->argv[walk.root]))
            walk.root++;
    walk_free(&walk);
}

/* ---- hash ------------------------------------------------------------------------------------------------------ */

static BOOL hash_one(Walk *walk, const WCHAR *path)
{
    Facts facts;
    char hex[65];
    DWORD code;

    memset(&facts, 0, sizeof facts);
    if (!set_path(walk, path))
        return rec_fault(walk->out, walk->root, path, "open", GetLastError(), NULL);
    facts.attributes = GetFileAttributesW(walk->path);
    if (facts.attributes == INVALID_FILE_ATTRIBUTES)
        return fault(walk, "open", GetLastError());
    if (facts.attributes & FILE_ATTRIBUTE_DIRECTORY)
        return fault(walk, "hash", FAULT_NOT_A_FILE);
    code = hash_path(walk, walk->path, &facts, hex);
    if (code)
        return content_fault(walk, "hash", code);
    rec_facts(walk, "file", plain_path(walk->path), &facts);
    restore_path(walk->path);
    rec_ascii(walk->out, "sha256", hex);
    return rec_end(walk->out);
}

static BOOL hash_line(Walk *walk, const char *line, size_t size, WCHAR *wide)
{
    BOOL go_on = TRUE;

    if (size && line[size - 1] == '\r')
        size--;
    if (!size)
        return TRUE;
    if (utf8_to_wide(line, size, wide, MAX_PATH_CHARS) < 0 || memchr(line, 0, size))
        go_on = rec_fault(walk->out, walk->root, L"", "decode", FAULT_ENCODING, L"not a path in UTF-8");
    else
        go_on = hash_one(walk, wide);
    walk->root++;
    return go_on;
}

/* Paths line by line. A line longer than any path can be is a fault of its own and skipped. */
static void hash_list(Walk *walk, HANDLE list)
{
    enum { ROOM = 3 * MAX_PATH_CHARS };
    char *data = malloc(ROOM);
    WCHAR *wide = malloc((MAX_PATH_CHARS + 1) * sizeof *wide);
    size_t used = 0;
    BOOL go_on = data && wide, skipping = FALSE, at_begin = TRUE;
    DWORD got;

    if (!go_on)
        out_stop(walk->out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
    while (go_on) {
        if (!ReadFile(list, data + used, (DWORD)(ROOM - used), &got, NULL)) {
            if (GetLastError() != ERROR_BROKEN_PIPE) {
                out_stop(walk->out, STATUS_ERROR, GetLastError(), NULL);
                break;
            }
            got = 0;
        }
        used += got;
        if (at_begin && (used >= 3 || !got)) {
            at_begin = FALSE;
            if (used >= 3 && memcmp(data, "\xEF\xBB\xBF", 3) == 0)
                memmove(data, data + 3, used -= 3);
        }
        size_t start = 0;
        for (char *newline; go_on && (newline = memchr(data + start, '\n', used - start)); start = (size_t)(newline - data) + 1) {
            if (!skipping)
                go_on = hash_line(walk, data + start, (size_t)(newline - data) - start, wide);
            skipping = FALSE;
        }
        used -= start;
        memmove(data, data + start, used);
        if (!got) {
            if (go_on && used && !skipping)
                hash_line(walk, data, used, wide);
            break;
        }
        if (used == ROOM) {
            if (!skipping)
                go_on = rec_fault(walk->out, walk->root++, L"", "decode", ERROR_FILENAME_EXCED_RANGE, NULL);
            skipping = TRUE;
            used = 0;
        }
    }
    free(data);
    free(wide);
}

void run_hash(Out *out, const Request *request)
{
    Walk walk;
    BOOL go_on = walk_init(&walk, out, request);

    for (int i = 0; go_on && i < request->argc; i++, walk.root++)
        go_on = hash_one(&walk, request->argv[i]);
    if (go_on && request->list) {
        BOOL standard = lstrcmpW(request->list, L"-") == 0;
        HANDLE list = standard ? GetStdHandle(STD_INPUT_HANDLE) : open_for_content(request->list);
        if (list == INVALID_HANDLE_VALUE || !list)
            out_stop(out, STATUS_ERROR, GetLastError(), NULL);
        else
            hash_list(&walk, list);
        if (!standard && list != INVALID_HANDLE_VALUE)
            CloseHandle(list);
    }
    walk_free(&walk);
}

/* ---- read ------------------------------------------------------------------------------------------------------ */

typedef struct {
    Out *out;
    Sha256 sha;
} Reading;

static BOOL consume_data(void *context, uint64_t offset, const uint8_t *data, DWORD size)
{
    Reading *reading = context;

    sha256_update(&reading->sha, data, size);
    rec_begin(reading->out, "data");
    rec_uint(reading->out, "offset", offset);
    rec_base64(reading->out, "b64", data, size);
    return rec_end(reading->out);
}

void run_read(Out *out, const Request *request)
{
    Walk walk;
    Reading reading = {.out = out};
    Facts facts;
    char hex[65];
    HANDLE file;
    DWORD code;

    if (!walk_init(&walk, out, request))
        goto done;
    memset(&facts, 0, sizeof facts);
    sha256_init(&reading.sha);
    if (!set_path(&walk, request->argv[0])) {
        out_stop(out, STATUS_ERROR, GetLastError(), NULL);
        goto done;
    }
    file = open_for_content(walk.path);
    if (file == INVALID_HANDLE_VALUE) {
        code = own_code(walk.path, GetLastError());
        out_stop(out, STATUS_ERROR, code, own_message(code));
        goto done;
    }
    code = read_content(&walk, file, &facts, CHUNK_BYTES, consume_data, &reading);
    CloseHandle(file);
    facts.attributes = GetFileAttributesW(walk.path);
    if (!code && facts.attributes == INVALID_FILE_ATTRIBUTES)
        code = own_code(walk.path, GetLastError()); /* deleted while its handle was open */
    if (code == FAULT_BOUND)
        out_stop(out, STATUS_TRUNCATED, code, L"max-bytes of content reached");
    else if (code)
        out_stop(out, STATUS_ERROR, code, own_message(code));
    if (code)
        goto done;
    sha256_hex(&reading.sha, hex);
    rec_facts(&walk, "file", plain_path(walk.path), &facts);
    restore_path(walk.path);
    rec_ascii(out, "sha256", hex);
    rec_end(out);
done:
    walk_free(&walk);
}
