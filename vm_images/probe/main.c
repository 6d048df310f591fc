/* Commands, options, and the resident mode. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

/* The C start-up must not expand `*` in arguments: they are paths to be taken as they are. */
int _dowildcard = 0;

#define GIB (1024ull * 1024 * 1024)

/* ---- requests -------------------------------------------------------------------------------------------------- */

enum {
    FILES = 1,
    HASH = 2,
    READ = 4,
    REGISTRY = 8,
    WINDOWS = 16,
    PROCESSES = 32,
    VERSION = 64,
    RUN = 128,
    START = 256,
    PUT = 512,
    ALL = 1023,
    /* What session 0 may have to leave to the user's session. */
    AT_THE_DESKTOP = FILES | HASH | READ | REGISTRY | WINDOWS | RUN | START,
    /* What the user's everyday token is for: drives are mapped for that one, and a program has its rights by a click. */
    BY_THE_USER = FILES | HASH | READ | START
};

static void run_version(Out *out, const Request *request)
{
    (void)out, (void)request; /* the header says it all */
}

static const struct {
    const WCHAR *name;
    const char *shown;
    int mask, least, most; /* arguments beside the options */
    void (*run)(Out *, const Request *);
} COMMANDS[] = {
    {L"files", "files", FILES, 1, 256, run_files},
    {L"hash", "hash", HASH, 0, MAX_ARGUMENTS, run_hash},
    {L"read", "read", READ, 1, 1, run_read},
    {L"registry", "registry", REGISTRY, 1, 256, run_registry},
    {L"windows", "windows", WINDOWS, 0, 0, run_windows},
    {L"processes", "processes", PROCESSES, 0, 0, run_processes},
    {L"version", "version", VERSION, 0, 0, run_version},
    {L"run", "run", RUN, 1, MAX_ARGUMENTS, run_run},
    {L"start", "start", START, 1, MAX_ARGUMENTS, run_start},
    {L"put", "put", PUT, 2, 2, run_put},
};

typedef enum { FLAG, NUMBER, TEXT } OptionKind;

static const struct {
    const WCHAR *name;
    int mask;
    OptionKind kind;
    size_t offset;
    uint64_t least, most;
} OPTIONS[] = {
    {L"--id", ALL, TEXT, offsetof(Request, id), 0, 0},
    {L"--hash", FILES, FLAG, offsetof(Request, hash), 0, 0},
    {L"--streams", FILES, FLAG, offsetof(Request, streams), 0, 0},
    {L"--exact", FILES, FLAG, offsetof(Request, exact), 0, 0},
    {L"--listing", FILES, FLAG, offsetof(Request, listing), 0, 0},
    {L"--flat", FILES, FLAG, offsetof(Request, flat), 0, 0},
    {L"--children", WINDOWS, FLAG, offsetof(Request, children), 0, 0},
    {L"--max-entries", ALL, NUMBER, offsetof(Request, max_entries), 0, 5000000},
    {L"--max-bytes", ALL, NUMBER, offsetof(Request, max_bytes), 0, 8 * GIB},
    {L"--max-depth", FILES | REGISTRY, NUMBER, offsetof(Request, max_depth), 1, 256},
    {L"--max-read", FILES | HASH, NUMBER, offsetof(Request, max_read), 0, 1024 * GIB},
    {L"--max", WINDOWS, NUMBER, offsetof(Request, max_windows), 1, 20000},
    {L"--timeout-ms", WINDOWS, NUMBER, offsetof(Request, timeout_ms), 1, 10000},
    {L"--view", REGISTRY, NUMBER, offsetof(Request, view), 32, 64},
    {L"--list", HASH, TEXT, offsetof(Request, list), 0, 0},
    {L"--in-session", AT_THE_DESKTOP, TEXT, offsetof(Request, session), 0, 0},
    {L"--token", RUN | START, TEXT, offsetof(Request, token), 0, 0},
    {L"--cwd", RUN | START, TEXT, offsetof(Request, cwd), 0, 0},
    {L"--limit", RUN, NUMBER, offsetof(Request, limit), 0, 16 * 1024 * 1024},
    {L"--wait-ms", RUN, NUMBER, offsetof(Request, wait_ms), 1, 24 * 3600 * 1000},
    {L"--sha256", PUT, TEXT, offsetof(Request, sha256), 0, 0},
};

static int command_of(const WCHAR *name)
{
    for (size_t i = 0; i < ARRAYSIZE(COMMANDS); i++)
        if (lstrcmpW(name, COMMANDS[i].name) == 0)
            return (int)i;
    return -1;
}

/* One option at argv[at] into the request; answers how many arguments it took, 0 if it is wrong. */
static int take_option(Request *request, int mask, int argc, WCHAR **argv, int at)
{
    for (size_t i = 0; i < ARRAYSIZE(OPTIONS); i++) {
        void *target = (char *)request + OPTIONS[i].offset;
        if (lstrcmpW(argv[at], OPTIONS[i].name) != 0 || !(OPTIONS[i].mask & mask))
            continue;
        if (OPTIONS[i].kind == FLAG) {
            *(BOOL *)target = TRUE;
            return 1;
        }
        if (at + 1 >= argc)
            return 0;
        if (OPTIONS[i].kind == TEXT) {
            *(const WCHAR **)target = argv[at + 1];
            return 2;
        }
        uint64_t value;
        if (!parse_uint(argv[at + 1], OPTIONS[i].most, &value) || value < OPTIONS[i].least)
            return 0;
        *(uint64_t *)target = value;
        return 2;
    }
    return 0;
}

/* NULL, or what is wrong. `rest` has room for argc strings. */
static const WCHAR *parse_request(Request *request, int command, int argc, WCHAR **argv, WCHAR **rest)
{
    BOOL options = TRUE;

    request->argv = rest;
    for (int at = 1; at < argc;) {
        if (options && lstrcmpW(argv[at], L"--") == 0) {
            options = FALSE;
            at++;
        } else if (options && argv[at][0] == L'-' && argv[at][1] == L'-') {
            int taken = take_option(request, COMMANDS[command].mask, argc, argv, at);
            if (!taken)
                return L"unknown option, or a value that is missing or out of bounds";
            at += taken;
        } else {
            rest[request->argc++] = argv[at++];
        }
    }
    if (request->argc < COMMANDS[command].least || request->argc > COMMANDS[command].most)
        return L"wrong number of arguments";
    if ((size_t)lstrlenW(request->id) > MAX_ID_CHARS)
        return L"the id is too long";
    if (request->resident && !request->id[0])
        return L"a resident probe needs --id";
    if (request->resident && request->list && lstrcmpW(request->list, L"-") == 0)
        return L"standard input is the request channel";
    if (COMMANDS[command].mask == HASH && !request->list && !request->argc)
        return L"no paths";
    if (request->session && lstrcmpW(request->session, L"here") != 0 && lstrcmpW(request->session, L"user") != 0)
        return L"--in-session is here or user";
    if (request->view && request->view != 32 && request->view != 64)
        return L"the view is 32 or 64";
    return NULL;
}

/* The id even of a request that is wrong elsewhere, so that its sender knows the answer. */
static const WCHAR *find_id(int argc, WCHAR **argv)
{
    for (int i = 1; i + 1 < argc; i++)
        if (lstrcmpW(argv[i], L"--id") == 0)
            return (size_t)lstrlenW(argv[i + 1]) <= MAX_ID_CHARS ? argv[i + 1] : L"";
    return L"";
}

static void write_header(Out *out, const char *command, const WCHAR *id)
{
    rec_begin(out, "header");
    rec_ascii(out, "probe", "legacyproof");
    rec_uint(out, "version", PROBE_VERSION);
    rec_ascii(out, "cmd", command);
    rec_text(out, "id", id);
    header_fields(out);
    out_header_done(out);
}

/*
 * A 32-bit program on 64-bit Windows is shown SysWOW64 in the place of System32. Switched off while files are read,
 * and on again after, because DLLs that load meanwhile would be looked for in the wrong place.
 */
static void run_command(int command, Out *out, const Request *request)
{
    typedef BOOL(WINAPI * DisableFn)(void **);
    typedef BOOL(WINAPI * RevertFn)(void *);
    DisableFn disable = (DisableFn)proc_address(L"kernel32.dll", "Wow64DisableWow64FsRedirection");
    RevertFn revert = (RevertFn)proc_address(L"kernel32.dll", "Wow64RevertWow64FsRedirection");
    void *old = NULL;
    BOOL redirected = COMMANDS[command].mask & (FILES | HASH | READ) && disable && revert && disable(&old);

    COMMANDS[command].run(out, request);
    if (redirected)
        revert(old);
}

static BOOL is_of_the_user(const WCHAR *key)
{
    static const WCHAR *const hives[] = {L"HKCU", L"HKEY_CURRENT_USER", L"HKCR", L"HKEY_CLASSES_ROOT"};

    for (size_t i = 0; i < ARRAYSIZE(hives); i++) {
        size_t length = (size_t)lstrlenW(hives[i]);
        if (_wcsnicmp(key, hives[i], length) == 0 && (!key[length] || key[length] == L'\\'))
            return TRUE;
    }
    return FALSE;
}

static BOOL is_on_no_drive(const WCHAR *path)
{
    WCHAR *full = long_path(path);
    BOOL gone = full && no_drive(full);

    free(full);
    return gone;
}

/* Whether the request is for the user's session, and we are not in it. A list of paths is not looked into before. */
static BOOL belongs_elsewhere(int command, const Request *request)
{
    int mask = COMMANDS[command].mask;
    BOOL needs = (mask & (WINDOWS | RUN | START)) != 0;

    if (!(mask & AT_THE_DESKTOP) || (request->session && lstrcmpW(request->session, L"here") == 0))
        return FALSE;
    if (request->session)
        return TRUE;
    if (!in_service_session())
        return FALSE;
    for (int i = 0; !needs && !request->list && i < request->argc; i++)
        needs = mask == REGISTRY ? is_of_the_user(request->argv[i]) : is_on_no_drive(request->argv[i]);
    return needs;
}

/*
 * The same request to a probe in the user's session, with the mark that it is to stay there. `windows`, `registry` and
 * `run`, which is for set-up, have an administrator's full rights, the others (BY_THE_USER) those of the user's clicks.
 */
static BOOL relay(int command, Out *out, const Request *request, int argc, WCHAR **argv, Status *status)
{
    int mask = COMMANDS[command].mask;
    DWORD most_ms = mask == RUN ? (DWORD)request->wait_ms + 30000 : mask & (WINDOWS | START) ? 45000 : 120000;
    WCHAR **there = malloc((size_t)(argc + 2) * sizeof *there);
    BOOL done;
    int count = 0;

    if (!there) {
        out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
        return FALSE;
    }
    there[count++] = argv[0];
    there[count++] = L"--in-session";
    there[count++] = L"here";
    for (int i = 1; i < argc; i++) {
        if (lstrcmpW(argv[i], L"--") == 0) { /* no options of ours any more */
            while (i < argc)
                there[count++] = argv[i++];
        } else if (lstrcmpW(argv[i], L"--in-session") == 0) {
            i++;
        } else {
            there[count++] = argv[i];
        }
    }
    done = relay_request(out, count, there, !(mask & BY_THE_USER), most_ms, status);
    free(there);
    return done;
}

/* Answers one request, right or wrong, with a header, its records and an end. */
static Status answer(Out *out, int argc, WCHAR **argv, BOOL resident)
{
    Request request = {
        .id = L"",
        .max_entries = 200000,
        .max_depth = 64,
        .max_bytes = GIB,
        .max_read = 16 * GIB,
        .max_windows = 2000,
        .timeout_ms = 250,
        .limit = 1024 * 1024,
        .wait_ms = 60000,
        .token = L"",
        .resident = resident,
    };
    Status relayed;
    int command = argc ? command_of(argv[0]) : -1;
    WCHAR **rest = malloc((size_t)(argc + 1) * sizeof *rest);
    const WCHAR *id = find_id(argc, argv), *wrong;

    out_begin(out);
    if (!rest) {
        out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
    } else if (command < 0) {
        out_stop(out, STATUS_USAGE, FAULT_USAGE, L"unknown command");
    } else if ((wrong = parse_request(&request, command, argc, argv, rest))) {
        out_stop(out, STATUS_USAGE, FAULT_USAGE, wrong);
    } else if (belongs_elsewhere(command, &request) && relay(command, out, &request, argc, argv, &relayed)) {
        free(rest);
        return relayed;
    }
    write_header(out, command < 0 ? "?" : COMMANDS[command].shown, id);
    if (out->status == STATUS_OK_) {
        out->max_count = request.max_entries;
        out->max_bytes = request.max_bytes;
        if (COMMANDS[command].mask == READ) { /* there the bound is on content, and base64 needs its third more */
            request.max_read = request.max_bytes;
            out->max_bytes = UINT64_MAX;
        }
        run_command(command, out, &request);
    }
    free(rest);
    out_end(out, id);
    return out->status;
}

/* ---- resident mode --------------------------------------------------------------------------------------------- */

/* A window of its own keeps the interactive desktop alive: without one Wine ends it with the last program. */
static DWORD WINAPI window_thread(void *ready)
{
    WNDCLASSW class = {.lpfnWndProc = DefWindowProcW, .hInstance = GetModuleHandleW(NULL), .lpszClassName = L"LegacyproofProbe"};
    MSG message;

    GetDesktopWindow();
    RegisterClassW(&class);
    CreateWindowExW(0, class.lpszClassName, L"", WS_POPUP, 0, 0, 0, 0, NULL, NULL, class.hInstance, NULL);
    SetEvent(ready);
    while (GetMessageW(&message, NULL, 0, 0) > 0)
        DispatchMessageW(&message);
    return 0;
}

static const char *skip_blanks(const char *at, const char *end)
{
    while (at < end && (*at == ' ' || *at == '\t' || *at == '\r'))
        at++;
    return at;
}

static int hex4(const char *at, const char *end)
{
    int value = 0;

    if (end - at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = at[i] | 0x20;
        int digit = at[i] >= '0' && at[i] <= '9' ? at[i] - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (digit < 0)
            return -1;
        value = value << 4 | digit;
    }
    return value;
}

/*
 * A JSON string at `at` (after its quotation mark) to UTF-16 at *to. The place after the closing mark, or NULL.
 * UTF-16 never needs more units than the JSON text has bytes, so `to` needs no bound of its own.
 */
static const char *json_string(const char *at, const char *end, WCHAR **to)
{
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";

    while (at < end && *at != '"') {
        if ((unsigned char)*at < 0x20)
            return NULL;
        if (*at != '\\') {
            const char *run = at;
            while (at < end && *at != '"' && *at != '\\' && (unsigned char)*at >= 0x20)
                at++;
            ptrdiff_t got = utf8_to_wide(run, (size_t)(at - run), *to, (size_t)(at - run) + 2);
            if (got < 0)
                return NULL;
            *to += got;
            continue;
        }
        if (++at == end)
            return NULL;
        if (*at == 'u') {
            int unit = hex4(at + 1, end);
            if (unit <= 0) /* no argument can hold NUL */
                return NULL;
            *(*to)++ = (WCHAR)unit;
            at += 5;
        } else {
            const char *known = memchr(escapes, *at, sizeof escapes - 1);
            if (!known)
                return NULL;
            *(*to)++ = (WCHAR)meant[known - escapes];
            at++;
        }
    }
    if (at >= end)
        return NULL;
    *(*to)++ = 0;
    return at + 1;
}

/* A JSON array of strings to argv, whose texts go to `arena`. The count, or -1. */
static int json_arguments(const char *line, size_t size, WCHAR *arena, WCHAR **argv)
{
    const char *end = line + size, *at = skip_blanks(line, end);
    int argc = 0;

    if (at == end || *at++ != '[')
        return -1;
    at = skip_blanks(at, end);
    if (at < end && *at == ']')
        return skip_blanks(at + 1, end) == end ? 0 : -1;
    for (;;) {
        if (at == end || *at != '"' || argc == MAX_ARGUMENTS)
            return -1;
        argv[argc++] = arena;
        at = json_string(at + 1, end, &arena);
        if (!at)
            return -1;
        at = skip_blanks(at, end);
        if (at == end || (*at != ',' && *at != ']'))
            return -1;
        if (*at++ == ']')
            return skip_blanks(at, end) == end ? argc : -1;
        at = skip_blanks(at, end);
    }
}

static void answer_wrong(Out *out, const WCHAR *what)
{
    out_begin(out);
    write_header(out, "?", L"");
    out_stop(out, STATUS_USAGE, FAULT_USAGE, what);
    out_end(out, L"");
}

static void answer_line(Out *out, const char *line, size_t size, WCHAR *arena, WCHAR **argv)
{
    int argc = json_arguments(line, size, arena, argv);

    if (argc < 0)
        answer_wrong(out, L"the request is not a JSON array of strings");
    else
        answer(out, argc, argv, TRUE);
}

static int serve(Out *out)
{
    char *line = malloc(MAX_LINE_BYTES);
    /* Twice: a string's terminator has its closing mark, but utf8_to_wide wants a spare unit besides. */
    WCHAR *arena = malloc(2 * MAX_LINE_BYTES * sizeof *arena), **argv = malloc(MAX_ARGUMENTS * sizeof *argv);
    HANDLE input = GetStdHandle(STD_INPUT_HANDLE), ready = CreateEventW(NULL, TRUE, FALSE, NULL), thread;
    size_t used = 0;
    BOOL skipping = FALSE;
    DWORD got;

    if (!line || !arena || !argv || !ready)
        return 1;
    thread = CreateThread(NULL, 0, window_thread, ready, 0, NULL);
    if (thread)
        WaitForSingleObject(ready, 10000);
    while (!out->broken && ReadFile(input, line + used, (DWORD)(MAX_LINE_BYTES - used), &got, NULL) && got) {
        size_t start = 0;
        used += got;
        for (char *newline; (newline = memchr(line + start, '\n', used - start)); start = (size_t)(newline - line) + 1) {
            if (skipping)
                answer_wrong(out, L"the request is longer than 64 KiB");
            else
                answer_line(out, line + start, (size_t)(newline - line) - start, arena, argv);
            skipping = FALSE;
        }
        used -= start;
        memmove(line, line + start, used);
        if (used == MAX_LINE_BYTES) {
            skipping = TRUE;
            used = 0;
        }
    }
    return out->broken;
}

/* One request from `input`, answered: for those who can give a program input but no arguments that they trust. */
static Status ask(Out *out, HANDLE input, BOOL resident)
{
    char *line = malloc(MAX_LINE_BYTES);
    WCHAR *arena = malloc(2 * MAX_LINE_BYTES * sizeof *arena), **argv = malloc(MAX_ARGUMENTS * sizeof *argv);
    size_t used = 0;
    DWORD got;

    if (!line || !arena || !argv)
        return STATUS_ERROR;
    while (used < MAX_LINE_BYTES && !memchr(line, '\n', used) &&
           ReadFile(input, line + used, (DWORD)(MAX_LINE_BYTES - used), &got, NULL) && got)
        used += got;
    const char *newline = memchr(line, '\n', used);
    int argc = newline ? json_arguments(line, (size_t)(newline - line), arena, argv) : -1;
    if (argc >= 0)
        return answer(out, argc, argv, resident);
    answer_wrong(out, newline ? L"the request is not a JSON array of strings" : L"no request of one line and at most 64 KiB");
    return STATUS_USAGE;
}

/* At the other end of another probe's pipe, in the user's session. */
static Status attach(Out *out, const WCHAR *name)
{
    HANDLE pipe = CreateFileW(name, GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING,
                              SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION, NULL);

    if (pipe == INVALID_HANDLE_VALUE)
        return STATUS_ERROR;
    out->to = pipe;
    Status status = ask(out, pipe, TRUE);
    FlushFileBuffers(pipe); /* until it has been read: what is unread goes with the pipe */
    return status;
}

int wmain(int argc, WCHAR **argv)
{
    static const int exit_codes[] = {0, 3, 1, 2};
    Out out;

    /* No message box for an empty drive or a fault: nobody is there to close it, and it would be a window. */
    SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX | SEM_NOOPENFILEERRORBOX);
    if (!out_init(&out, GetStdHandle(STD_OUTPUT_HANDLE)))
        return 1;
    if (argc == 2 && lstrcmpW(argv[1], L"serve") == 0)
        return serve(&out);
    Status status;
    if (argc == 3 && lstrcmpW(argv[1], L"attach") == 0) {
        status = attach(&out, argv[2]);
    } else if (argc >= 2 && argc <= 3 && lstrcmpW(argv[1], L"ask") == 0) {
        if (argc == 3 && !out_spill_to(&out, argv[2]))
            return 1;
        status = ask(&out, GetStdHandle(STD_INPUT_HANDLE), TRUE);
        if (argc == 3)
            out_spill_done(&out);
    } else {
        status = answer(&out, argc - 1, argv + 1, FALSE);
    }
    return out.broken ? 1 : exit_codes[status];
}
