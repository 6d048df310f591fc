/*
 * The commands that act: run a program to its end, start one, put a file in its place. A token makes the first two
 * happen at most once: whoever lost the answer asks again with the same token and gets what the first time gave.
 */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

#define PIECE_BYTES (48u * 1024)
#define COMMAND_LINE_MOST 32767u
#define READERS_AFTER_END_MS 1000u      /* a child that lives on may hold the program's output open */
#define ENDING_MS 5000u
#define TOKEN_MOST 64

/* ---- command lines ----------------------------------------------------------------------------------------------- */

typedef struct {
    WCHAR text[COMMAND_LINE_MOST + 1];
    size_t used;
    BOOL full;
} Line;

static void add(Line *line, WCHAR c, size_t times)
{
    while (times--) {
        if (line->used >= COMMAND_LINE_MOST)
            line->full = TRUE;
        else
            line->text[line->used++] = c;
    }
}

/* One argument, so that CommandLineToArgvW and the C start-up code read it back: backslashes count before a mark only. */
static void add_argument(Line *line, const WCHAR *argument)
{
    size_t backslashes = 0;
    BOOL quoted = !*argument || wcspbrk(argument, L" \t\n\v\"");

    if (line->used)
        add(line, L' ', 1);
    if (quoted)
        add(line, L'"', 1);
    for (; *argument; argument++) {
        if (*argument == L'\\') {
            backslashes++;
            continue;
        }
        add(line, L'\\', *argument == L'"' ? 2 * backslashes + 1 : backslashes);
        add(line, *argument, 1);
        backslashes = 0;
    }
    add(line, L'\\', quoted ? 2 * backslashes : backslashes);
    if (quoted)
        add(line, L'"', 1);
}

static BOOL ends_with(const WCHAR *text, const WCHAR *end)
{
    size_t length = (size_t)lstrlenW(text), tail = (size_t)lstrlenW(end);
    return length >= tail && lstrcmpiW(text + length - tail, end) == 0;
}

/* NULL, or what is wrong. The program's own name knows no escapes: a mark in it cannot be written. */
static const WCHAR *command_line(Line *line, int argc, WCHAR **argv)
{
    line->used = 0;
    line->full = FALSE;
    if (!argv[0][0] || wcschr(argv[0], L'"'))
        return L"not the name of a program";
    if (ends_with(argv[0], L".bat") || ends_with(argv[0], L".cmd"))
        return L"a batch file has rules of its own for arguments: run it by cmd.exe /c";
    add(line, L'"', 1);
    for (const WCHAR *at = argv[0]; *at; at++)
        add(line, *at, 1);
    add(line, L'"', 1);
    for (int i = 1; i < argc; i++)
        add_argument(line, argv[i]);
    line->text[line->used] = 0;
    return line->full ? L"the command line is longer than 32,767 characters" : NULL;
}

/* ---- tokens -------------------------------------------------------------------------------------------------------- */

/* What is kept of a run, with the two outputs after it and their SHA-256 at the end. */
typedef struct {
    char magic[8];
    uint32_t error;         /* why it could not be started */
    uint32_t pid, status, timed_out;
    uint32_t size[2];       /* of what was kept of its outputs */
    uint32_t cut[2];        /* there was more */
} Result;

static const char MAGIC[8] = "lprun-1";

typedef struct {
    WCHAR claim[MAX_PATH + 96], done[MAX_PATH + 96], fresh[MAX_PATH + 96];
} Places;

static BOOL is_token(const WCHAR *token)
{
    if (!*token || lstrlenW(token) > TOKEN_MOST)
        return FALSE;
    for (; *token; token++)
        if (!(*token >= L'0' && *token <= L'9') && !((*token | 0x20) >= L'a' && (*token | 0x20) <= L'z') && *token != L'-')
            return FALSE;
    return TRUE;
}

/* Beside the probe, in its folder `runs`. FALSE if there is no room for the names. */
static BOOL places_of(Places *places, const WCHAR *token)
{
    WCHAR folder[MAX_PATH];
    DWORD length = GetModuleFileNameW(NULL, folder, ARRAYSIZE(folder));
    WCHAR *last = length && length < ARRAYSIZE(folder) ? wcsrchr(folder, L'\\') : NULL;

    if (!last || last - folder + 8 > MAX_PATH) {
        SetLastError(ERROR_FILENAME_EXCED_RANGE);
        return FALSE;
    }
    lstrcpyW(last, L"\\runs");
    CreateDirectoryW(folder, NULL);
    wsprintfW(places->claim, L"%s\\%s.claim", folder, token);
    wsprintfW(places->done, L"%s\\%s.done", folder, token);
    wsprintfW(places->fresh, L"%s\\%s.new", folder, token);
    return TRUE;
}

static BOOL write_piece(HANDLE file, const void *data, DWORD size)
{
    DWORD done;
    return !size || (WriteFile(file, data, size, &done, NULL) && done == size);
}

/* Written aside and moved: whoever sees it sees it whole. */
static void keep(const Places *places, const Result *result, uint8_t *const data[2])
{
    Sha256 sha;
    char hex[65];
    HANDLE file = CreateFileW(places->fresh, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    BOOL whole = file != INVALID_HANDLE_VALUE;

    sha256_init(&sha);
    sha256_update(&sha, result, sizeof *result);
    for (int i = 0; i < 2; i++)
        sha256_update(&sha, data[i], result->size[i]);
    sha256_hex(&sha, hex);
    whole = whole && write_piece(file, result, sizeof *result) && write_piece(file, data[0], result->size[0]) &&
            write_piece(file, data[1], result->size[1]) && write_piece(file, hex, 64) && FlushFileBuffers(file);
    if (file != INVALID_HANDLE_VALUE)
        CloseHandle(file);
    if (whole)
        MoveFileExW(places->fresh, places->done, MOVEFILE_REPLACE_EXISTING);
}

static BOOL read_piece(HANDLE file, void *data, DWORD size)
{
    DWORD got;
    return !size || (ReadFile(file, data, size, &got, NULL) && got == size);
}

static BOOL recall(const Places *places, uint32_t most, Result *result, uint8_t *data[2])
{
    Sha256 sha;
    char hex[65], kept[64];
    HANDLE file = CreateFileW(places->done, GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_DELETE, NULL, OPEN_EXISTING, 0, NULL);

    if (file == INVALID_HANDLE_VALUE)
        return FALSE;
    BOOL whole = read_piece(file, result, sizeof *result) && memcmp(result->magic, MAGIC, sizeof MAGIC) == 0 &&
                 result->size[0] <= most && result->size[1] <= most;
    for (int i = 0; whole && i < 2; i++)
        whole = (data[i] || (data[i] = malloc(most + 1))) && read_piece(file, data[i], result->size[i]);
    whole = whole && read_piece(file, kept, sizeof kept);
    CloseHandle(file);
    if (!whole)
        return FALSE;
    sha256_init(&sha);
    sha256_update(&sha, result, sizeof *result);
    for (int i = 0; i < 2; i++)
        sha256_update(&sha, data[i], result->size[i]);
    sha256_hex(&sha, hex);
    return memcmp(hex, kept, sizeof kept) == 0;
}

/* ---- programs ------------------------------------------------------------------------------------------------------ */

typedef struct {
    HANDLE pipe, thread;
    uint8_t *data;
    uint32_t limit;
    volatile LONG used, cut;
} Reader;

static DWORD WINAPI read_on(void *context)
{
    Reader *reader = context;
    uint8_t piece[4096];
    DWORD got;

    while (ReadFile(reader->pipe, piece, sizeof piece, &got, NULL) && got) {
        uint32_t room = reader->limit - (uint32_t)reader->used, part = got < room ? got : room;
        memcpy(reader->data + reader->used, piece, part);
        InterlockedExchange(&reader->used, reader->used + (LONG)part);
        if (part < got)
            InterlockedExchange(&reader->cut, 1);
    }
    return 0;
}

/* The writing end, inheritable; the reading end goes to the reader. */
static HANDLE open_reader(Reader *reader, uint32_t limit)
{
    SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
    HANDLE write = NULL;

    memset(reader, 0, sizeof *reader);
    reader->limit = limit;
    reader->data = malloc(limit + 1);
    if (!reader->data || !CreatePipe(&reader->pipe, &write, &inherit, 0))
        return NULL;
    SetHandleInformation(reader->pipe, HANDLE_FLAG_INHERIT, 0);
    reader->thread = CreateThread(NULL, 0, read_on, reader, 0, NULL);
    return write;
}

/* What the caller gave us must not live on in a program: whoever waits for its end would wait for the program's. */
static void keep_own_handles(void)
{
    static const DWORD which[] = {STD_INPUT_HANDLE, STD_OUTPUT_HANDLE, STD_ERROR_HANDLE};

    for (size_t i = 0; i < ARRAYSIZE(which); i++)
        SetHandleInformation(GetStdHandle(which[i]), HANDLE_FLAG_INHERIT, 0);
}

static BOOL set_kill_on_close(HANDLE job, BOOL on)
{
    JOBOBJECT_EXTENDED_LIMIT_INFORMATION limits;

    memset(&limits, 0, sizeof limits);
    limits.BasicLimitInformation.LimitFlags = on ? JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE : 0;
    return SetInformationJobObject(job, JobObjectExtendedLimitInformation, &limits, sizeof limits);
}

/* In a job of its own from its first instruction, so that its children cannot escape the time limit. */
static DWORD wait_in_job(const PROCESS_INFORMATION *process, DWORD wait_ms, Result *result)
{
    HANDLE job = CreateJobObjectW(NULL, NULL);
    DWORD code = 0, status = 0;

    if (!job || !set_kill_on_close(job, TRUE) || !AssignProcessToJobObject(job, process->hProcess)) {
        code = GetLastError();
        TerminateProcess(process->hProcess, 1);
    } else {
        ResumeThread(process->hThread);
        if (WaitForSingleObject(process->hProcess, wait_ms) != WAIT_OBJECT_0) {
            result->timed_out = 1;
            TerminateJobObject(job, 1);
            WaitForSingleObject(process->hProcess, ENDING_MS);
        } else {
            set_kill_on_close(job, FALSE); /* what it left running was meant to run */
        }
        GetExitCodeProcess(process->hProcess, &status);
        result->status = status;
    }
    if (job)
        CloseHandle(job);
    return code;
}

static void run_program(const Request *request, Line *line, Result *result, Reader readers[2])
{
    SECURITY_ATTRIBUTES inherit = {sizeof inherit, NULL, TRUE};
    STARTUPINFOW startup = {.cb = sizeof startup, .dwFlags = STARTF_USESTDHANDLES};
    PROCESS_INFORMATION process;

    keep_own_handles();
    startup.hStdInput = CreateFileW(L"NUL", GENERIC_READ, FILE_SHARE_READ | FILE_SHARE_WRITE, &inherit, OPEN_EXISTING, 0, NULL);
    startup.hStdOutput = open_reader(&readers[0], (uint32_t)request->limit);
    startup.hStdError = open_reader(&readers[1], (uint32_t)request->limit);
    if (!startup.hStdOutput || !startup.hStdError) {
        result->error = ERROR_NOT_ENOUGH_MEMORY;
        return;
    }
    BOOL made = CreateProcessW(NULL, line->text, NULL, NULL, TRUE, CREATE_SUSPENDED | CREATE_NO_WINDOW, NULL, request->cwd,
                               &startup, &process);
    result->error = made ? 0 : GetLastError();
    CloseHandle(startup.hStdInput);
    CloseHandle(startup.hStdOutput);
    CloseHandle(startup.hStdError);
    if (made) {
        HANDLE threads[2] = {readers[0].thread, readers[1].thread};
        result->pid = process.dwProcessId;
        result->error = wait_in_job(&process, (DWORD)request->wait_ms, result);
        WaitForMultipleObjects(2, threads, TRUE, READERS_AFTER_END_MS);
        CloseHandle(process.hThread);
        CloseHandle(process.hProcess);
    }
    for (int i = 0; i < 2; i++) {
        result->size[i] = (uint32_t)readers[i].used;
        result->cut[i] = (uint32_t)readers[i].cut;
    }
}

static void start_program(const Request *request, Line *line, Result *result)
{
    STARTUPINFOW startup = {.cb = sizeof startup};
    PROCESS_INFORMATION process;

    keep_own_handles();
    if (!CreateProcessW(NULL, line->text, NULL, NULL, FALSE, CREATE_NEW_CONSOLE, NULL, request->cwd, &startup, &process)) {
        result->error = GetLastError();
        return;
    }
    result->pid = process.dwProcessId;
    CloseHandle(process.hThread);
    CloseHandle(process.hProcess);
}

/* ---- answers ------------------------------------------------------------------------------------------------------- */

static BOOL write_output(Out *out, const char *stream, const uint8_t *data, uint32_t size)
{
    for (uint32_t at = 0; at < size; at += PIECE_BYTES) {
        uint32_t part = size - at < PIECE_BYTES ? size - at : PIECE_BYTES;
        rec_begin(out, "output");
        rec_ascii(out, "stream", stream);
        rec_uint(out, "offset", at);
        rec_base64(out, "b64", data + at, part);
        if (!rec_end(out))
            return FALSE;
    }
    return TRUE;
}

static void write_result(Out *out, BOOL waited, const Result *result, uint8_t *const data[2])
{
    if (result->error) {
        out_stop(out, STATUS_ERROR, result->error, NULL);
        return;
    }
    if (!waited) {
        rec_begin(out, "started");
        rec_uint(out, "pid", result->pid);
        rec_end(out);
        return;
    }
    rec_begin(out, "ran");
    rec_uint(out, "pid", result->pid);
    rec_uint(out, "status", result->status);
    rec_bool(out, "timed_out", result->timed_out != 0);
    rec_bool(out, "stdout_cut", result->cut[0] != 0);
    rec_bool(out, "stderr_cut", result->cut[1] != 0);
    if (rec_end(out) && write_output(out, "stdout", data[0], result->size[0]))
        write_output(out, "stderr", data[1], result->size[1]);
}

/* The result of whoever was first, once it is there. */
static void wait_for_first(Out *out, const Request *request, BOOL waited, const Places *places, Result *result,
                           uint8_t *data[2])
{
    DWORD began = GetTickCount(), most = (waited ? (DWORD)request->wait_ms : 0) + 2 * ENDING_MS;

    for (;;) {
        /* It is moved there whole: one that is there and not whole was damaged, and will not get better. */
        BOOL there = GetFileAttributesW(places->done) != INVALID_FILE_ATTRIBUTES;
        if (recall(places, (uint32_t)request->limit, result, data))
            break;
        if (there || GetTickCount() - began > most) {
            out_stop(out, STATUS_ERROR, FAULT_RESULT_LOST, L"it was begun with this token, and its result is not there");
            return;
        }
        Sleep(20);
    }
    write_result(out, waited, result, data);
}

static void act_once(Out *out, const Request *request, BOOL waited)
{
    Result result;
    Places places;
    Reader readers[2];
    Line *line = malloc(sizeof *line);
    const WCHAR *wrong = !line                            ? L"no memory"
                         : !is_token(request->token)      ? L"--token of letters, digits and - is needed"
                                                          : command_line(line, request->argc, request->argv);

    memset(&result, 0, sizeof result);
    memcpy(result.magic, MAGIC, sizeof MAGIC);
    memset(readers, 0, sizeof readers);
    if (wrong) {
        out_stop(out, STATUS_USAGE, FAULT_USAGE, wrong);
        goto done;
    }
    HANDLE claim = places_of(&places, request->token)
                       ? CreateFileW(places.claim, GENERIC_WRITE, 0, NULL, CREATE_NEW, FILE_FLAG_WRITE_THROUGH, NULL)
                       : INVALID_HANDLE_VALUE;
    if (claim == INVALID_HANDLE_VALUE && GetLastError() != ERROR_FILE_EXISTS && GetLastError() != ERROR_SHARING_VIOLATION) {
        out_stop(out, STATUS_ERROR, GetLastError(), NULL);
        goto done;
    }
    uint8_t *data[2] = {NULL, NULL};
    if (claim == INVALID_HANDLE_VALUE) {
        wait_for_first(out, request, waited, &places, &result, data);
        free(data[0]);
        free(data[1]);
        goto done;
    }
    CloseHandle(claim);
    if (waited)
        run_program(request, line, &result, readers);
    else
        start_program(request, line, &result);
    data[0] = readers[0].data, data[1] = readers[1].data;
    keep(&places, &result, data);
    write_result(out, waited, &result, data);
done:
    free(line); /* not the readers' room: a child that lives on may still be read from */
}

void run_run(Out *out, const Request *request)
{
    act_once(out, request, TRUE);
}

void run_start(Out *out, const Request *request)
{
    act_once(out, request, FALSE);
}

/* ---- put ----------------------------------------------------------------------------------------------------------- */

/* Each folder above the file, from the top; that one is there already is no fault. */
static void make_folders(WCHAR *path)
{
    for (WCHAR *at = path + 7; *at; at++) { /* behind \\?\C:\ */
        if (*at != L'\\')
            continue;
        *at = 0;
        CreateDirectoryW(path, NULL);
        *at = L'\\';
    }
}

/* Hands the source's pieces to the target, if there is one, and gives their hash. */
static DWORD pass_on(HANDLE source, HANDLE target, uint8_t *buffer, char hex[65])
{
    LARGE_INTEGER start = {.QuadPart = 0};
    Sha256 sha;
    DWORD got;

    sha256_init(&sha);
    if (!SetFilePointerEx(source, start, NULL, FILE_BEGIN))
        return GetLastError();
    do {
        if (!ReadFile(source, buffer, PIECE_BYTES, &got, NULL))
            return GetLastError();
        sha256_update(&sha, buffer, got);
        if (target && !write_piece(target, buffer, got))
            return GetLastError();
    } while (got);
    sha256_hex(&sha, hex);
    return 0;
}

static BOOL is_hash(const char *hex, const WCHAR *wanted)
{
    for (int i = 0; i < 64; i++)
        if ((WCHAR)hex[i] != wanted[i])
            return FALSE;
    return TRUE;
}

/* Overwrites in place: rights and attributes of a file that is there stay, and programs that have it open may look on. */
static DWORD put_file(const Request *request, HANDLE source, WCHAR *target_path, uint8_t *buffer)
{
    char hex[65];
    DWORD code = pass_on(source, NULL, buffer, hex);

    if (code)
        return code;
    if (!is_hash(hex, request->sha256))
        return FAULT_CHANGED;
    make_folders(target_path);
    HANDLE target = CreateFileW(target_path, GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE, NULL,
                                OPEN_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (target == INVALID_HANDLE_VALUE)
        return GetLastError();
    code = pass_on(source, target, buffer, hex);
    if (!code && (!SetEndOfFile(target) || !FlushFileBuffers(target)))
        code = GetLastError();
    CloseHandle(target);
    return code;
}

void run_put(Out *out, const Request *request)
{
    Request again = *request;
    WCHAR *source_path = long_path(request->argv[0]), *target_path = source_path ? long_path(request->argv[1]) : NULL;
    uint8_t *buffer = malloc(PIECE_BYTES);
    DWORD code = !buffer || !target_path ? GetLastError() : 0;

    if (!request->sha256 || lstrlenW(request->sha256) != 64) {
        out_stop(out, STATUS_USAGE, FAULT_USAGE, L"--sha256 of the content is needed");
        goto done;
    }
    if (!code) {
        HANDLE source = CreateFileW(source_path, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING, 0, NULL);
        if (source != INVALID_HANDLE_VALUE) {
            code = put_file(request, source, target_path, buffer);
            CloseHandle(source);
            if (!code)
                DeleteFileW(source_path);
        } else if (GetLastError() != ERROR_FILE_NOT_FOUND) { /* asked a second time: what is there decides */
            code = GetLastError();
        }
    }
    if (code) {
        out_stop(out, STATUS_ERROR, code, code == FAULT_CHANGED ? L"the source is not what it should be" : NULL);
        goto done;
    }
    again.argc = 1;
    again.argv = &request->argv[1];
    run_hash(out, &again);
done:
    free(buffer);
    free(source_path);
    free(target_path);
}
