/*
 * The user's session. Services, and what a guest agent starts, live in session 0, where none of the user's windows are
 * and nothing that is started is seen. There the probe starts itself anew in the session at the console, gives that
 * probe the request through a pipe and passes its answer on.
 */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 20000u

typedef struct {
    HANDLE pipe, event, child;
    DWORD began, most_ms;
} Relay;

/* Needs no right: of kernel32 since Windows XP. 0xFFFFFFFF: no session is at the console just now. */
static DWORD console_session(void)
{
    return WTSGetActiveConsoleSessionId();
}

static void *terminal_services(const char *name)
{
    return LoadLibraryW(L"wtsapi32.dll") ? proc_address(L"wtsapi32.dll", name) : NULL;
}

/* Before Vista the user may be in session 0 as well, at a window station of his own there. */
BOOL in_service_session(void)
{
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    WCHAR station[64] = L"";
    DWORD session, needed;

    if (!ProcessIdToSessionId(GetCurrentProcessId(), &session) || session != 0)
        return FALSE;
    GetVersionExW(&version);
    GetUserObjectInformationW(GetProcessWindowStation(), UOI_NAME, station, sizeof station, &needed);
    return version.dwMajorVersion >= 6 || lstrcmpiW(station, L"WinSta0") != 0;
}

/* ---- what the screen shows ------------------------------------------------------------------------------------------ */

/* 1 locked, 0 not, -1 not to be learned. Windows 7 has the two values the wrong way round (Microsoft's own note). */
static int session_locked(DWORD session)
{
    typedef BOOL(WINAPI * QueryFn)(HANDLE, DWORD, int, WCHAR **, DWORD *);
    typedef void(WINAPI * FreeFn)(void *);
    struct { /* WTSINFOEXW, level 1, as far as its flags */
        DWORD level, pad, session, state;
        LONG flags;
    } *info = NULL;
    QueryFn query = (QueryFn)terminal_services("WTSQuerySessionInformationW");
    FreeFn release = (FreeFn)terminal_services("WTSFreeMemory");
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    DWORD size = 0;
    int locked = -1;

    if (!query || !release || !query(NULL, session, 25 /* WTSSessionInfoEx */, (WCHAR **)&info, &size) || !info)
        return -1;
    if (size >= sizeof *info && info->level == 1 && (info->flags == 0 || info->flags == 1)) {
        GetVersionExW(&version);
        BOOL swapped = version.dwMajorVersion == 6 && version.dwMinorVersion == 1;
        locked = (info->flags == 0) != swapped;
    }
    release(info);
    return locked;
}

/*
 * `user`: our desktop has mouse and keyboard. Otherwise another one has: of a lock screen, of the prompt for consent
 * (both live on Winlogon, which a user may not open), of a screen saver.
 */
const char *screen_state(const WCHAR *desktop, const WCHAR *input_desktop)
{
    DWORD session = 0;

    if (in_service_session())
        return "service";
    if (desktop && input_desktop && lstrcmpiW(desktop, input_desktop) == 0)
        return "user";
    if (input_desktop && lstrcmpiW(input_desktop, L"Screen-saver") == 0)
        return "screen_saver";
    if (input_desktop && lstrcmpiW(input_desktop, L"Winlogon") != 0)
        return "other";
    ProcessIdToSessionId(GetCurrentProcessId(), &session);
    switch (session_locked(session)) {
    case 1:
        return "locked";
    case 0:
        return "secure";
    default:
        return "locked_or_secure";
    }
}

void header_session(Out *out, const WCHAR *desktop, const WCHAR *input_desktop)
{
    DWORD console = console_session();

    if (console == 0xFFFFFFFFu)
        rec_null(out, "console_session");
    else
        rec_uint(out, "console_session", console);
    rec_ascii(out, "screen", screen_state(desktop, input_desktop));
}

/* ---- starting the probe there --------------------------------------------------------------------------------------- */

/* A primary token of who is logged on at the console; with `elevated` the full one of an administrator, if there is one. */
static HANDLE user_token(BOOL elevated)
{
    typedef BOOL(WINAPI * TokenFn)(ULONG, HANDLE *);
    TokenFn query = (TokenFn)terminal_services("WTSQueryUserToken");
    HANDLE token = NULL, linked = NULL, primary = NULL;
    DWORD size, code;

    if (!query || !query(console_session(), &token))
        return NULL;
    /* TokenLinkedToken came with Vista; before, and for users without two tokens, the call fails. */
    if (elevated && GetTokenInformation(token, (TOKEN_INFORMATION_CLASS)19, &linked, sizeof linked, &size) && linked) {
        TOKEN_STATISTICS about;
        DWORD groups = 0;
        /* The link leads both ways: from the full token to the limited one as well. Type 3 is limited. */
        if (GetTokenInformation(token, (TOKEN_INFORMATION_CLASS)18 /* TokenElevationType */, &groups, sizeof groups, &size) &&
            groups == 3 && GetTokenInformation(linked, TokenStatistics, &about, sizeof about, &size)) {
            HANDLE limited = token;
            token = linked;
            linked = limited;
        }
        CloseHandle(linked);
    }
    if (!DuplicateTokenEx(token, MAXIMUM_ALLOWED, NULL, SecurityIdentification, TokenPrimary, &primary))
        primary = NULL;
    code = GetLastError();
    CloseHandle(token);
    SetLastError(code);
    return primary;
}

/* The user's own environment, not the service's. */
static void *environment_of(HANDLE token)
{
    typedef BOOL(WINAPI * CreateFn)(void **, HANDLE, BOOL);
    CreateFn create = LoadLibraryW(L"userenv.dll") ? (CreateFn)proc_address(L"userenv.dll", "CreateEnvironmentBlock") : NULL;
    void *block = NULL;

    return create && create(&block, token, FALSE) ? block : NULL;
}

/* Handles cannot be inherited into another session (CreateProcessAsUser's documentation), so the pipe has a name. */
static HANDLE make_pipe(WCHAR name[128])
{
    typedef BOOL(WINAPI * ConvertFn)(const WCHAR *, DWORD, PSECURITY_DESCRIPTOR *, ULONG *);
    typedef BOOLEAN(WINAPI * RandomFn)(void *, ULONG);
    RandomFn random = (RandomFn)proc_address(L"advapi32.dll", "SystemFunction036"); /* RtlGenRandom */
    ConvertFn convert = (ConvertFn)proc_address(L"advapi32.dll", "ConvertStringSecurityDescriptorToSecurityDescriptorW");
    SECURITY_ATTRIBUTES who = {.nLength = sizeof who};
    unsigned secret[4] = {0};

    if (!random || !random(secret, sizeof secret) || !convert)
        return INVALID_HANDLE_VALUE;
    /* The system and administrators, and whoever is logged on interactively. */
    if (!convert(L"D:P(A;;GA;;;SY)(A;;GA;;;BA)(A;;GRGW;;;IU)", 1, &who.lpSecurityDescriptor, NULL))
        return INVALID_HANDLE_VALUE;
    wsprintfW(name, L"\\\\.\\pipe\\legacyproof-%08x%08x%08x%08x", secret[0], secret[1], secret[2], secret[3]);
    HANDLE pipe = CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED | FILE_FLAG_FIRST_PIPE_INSTANCE,
                                   PIPE_TYPE_BYTE | PIPE_WAIT, 1, 65536, 65536, 0, &who);
    LocalFree(who.lpSecurityDescriptor);
    return pipe;
}

static BOOL start_there(Relay *relay, const WCHAR *pipe_name, BOOL elevated)
{
    static WCHAR line[MAX_PATH + 256];
    WCHAR exe[MAX_PATH], desktop[] = L"winsta0\\default";
    /* A user's own desktop may have another name, as on Wine: who is there already keeps to where he is. */
    STARTUPINFOW startup = {.cb = sizeof startup, .lpDesktop = in_service_session() ? desktop : NULL};
    PROCESS_INFORMATION process;
    DWORD length = GetModuleFileNameW(NULL, exe, ARRAYSIZE(exe)), code;
    HANDLE token = length && length < ARRAYSIZE(exe) ? user_token(elevated) : NULL;

    if (!token)
        return FALSE;
    wsprintfW(line, L"\"%s\" attach %s", exe, pipe_name);
    void *environment = environment_of(token);
    BOOL made = CreateProcessAsUserW(token, exe, line, NULL, NULL, FALSE, CREATE_UNICODE_ENVIRONMENT | CREATE_NO_WINDOW,
                                     environment, NULL, &startup, &process);
    code = GetLastError();
    CloseHandle(token);
    if (made) {
        CloseHandle(process.hThread);
        relay->child = process.hProcess;
    }
    SetLastError(code);
    return made;
}

/* ---- talking to it --------------------------------------------------------------------------------------------------- */

/* Waits for one overlapped call, at most until the deadline or, where `child_matters`, the child's end. */
static BOOL finish(Relay *relay, OVERLAPPED *call, BOOL at_once, BOOL child_matters, DWORD *moved)
{
    HANDLE both[2] = {relay->event, relay->child};
    DWORD spent = GetTickCount() - relay->began, left = spent < relay->most_ms ? relay->most_ms - spent : 0;

    if (!at_once) {
        if (GetLastError() == ERROR_PIPE_CONNECTED)
            return TRUE;
        if (GetLastError() != ERROR_IO_PENDING)
            return FALSE;
        if (child_matters && left > CONNECT_MS)
            left = CONNECT_MS;
        if (WaitForMultipleObjects(child_matters ? 2 : 1, both, FALSE, left) != WAIT_OBJECT_0) {
            CancelIo(relay->pipe);
            GetOverlappedResult(relay->pipe, call, moved, TRUE);
            SetLastError(ERROR_TIMEOUT);
            return FALSE;
        }
    }
    return GetOverlappedResult(relay->pipe, call, moved, TRUE);
}

static BOOL ask_there(Relay *relay, const char *request, size_t size)
{
    OVERLAPPED call = {.hEvent = relay->event};
    DWORD moved = 0;

    if (!finish(relay, &call, ConnectNamedPipe(relay->pipe, &call), TRUE, &moved))
        return FALSE;
    while (size) {
        memset(&call, 0, sizeof call);
        call.hEvent = relay->event;
        if (!finish(relay, &call, WriteFile(relay->pipe, request, (DWORD)size, NULL, &call), FALSE, &moved) || !moved)
            return FALSE;
        request += moved, size -= moved;
    }
    return TRUE;
}

/* Passes the answer on. TRUE: at least a part of it came, so that nothing of our own may follow. */
static BOOL pass_answer(Relay *relay, Out *out)
{
    static char piece[65536];
    BOOL any = FALSE;

    for (;;) {
        OVERLAPPED call = {.hEvent = relay->event};
        DWORD got = 0;
        if (!finish(relay, &call, ReadFile(relay->pipe, piece, sizeof piece, NULL, &call), FALSE, &got) || !got)
            return any;
        any = TRUE;
        out_pass(out, piece, got);
    }
}

static const WCHAR *why_not(DWORD code)
{
    switch (code) {
    case ERROR_NO_TOKEN: /* 1008 */
    case ERROR_FILE_NOT_FOUND:
        return L"session 0: nobody is logged on at the console; have the machine log a user on by itself (autologon)";
    case ERROR_PRIVILEGE_NOT_HELD:
        return L"session 0, without the right to enter the user's session; run the guest agent as LocalSystem, or the probe "
               L"by a scheduled task \"only when the user is logged on\"";
    case ERROR_TIMEOUT:
        return L"session 0: the probe started in the user's session did not answer in time";
    default:
        return NULL;
    }
}

BOOL relay_request(Out *out, int argc, WCHAR **argv, BOOL elevated, DWORD most_ms, Status *status)
{
    Relay relay = {.event = CreateEventW(NULL, TRUE, FALSE, NULL), .began = GetTickCount(), .most_ms = most_ms};
    WCHAR name[128], text[256];
    DWORD ended = 1, code;
    BOOL answered = FALSE;

    relay.pipe = relay.event ? make_pipe(name) : INVALID_HANDLE_VALUE;
    if (relay.pipe != INVALID_HANDLE_VALUE && start_there(&relay, name, elevated)) {
        rec_strings(out, argc, argv);
        answered = !out->lost && out->used <= MAX_LINE_BYTES && ask_there(&relay, out->line, out->used) &&
                   pass_answer(&relay, out);
    }
    code = GetLastError();
    if (relay.child) {
        if (WaitForSingleObject(relay.child, answered ? 5000 : 0) != WAIT_OBJECT_0)
            TerminateProcess(relay.child, 1);
        GetExitCodeProcess(relay.child, &ended);
        CloseHandle(relay.child);
    }
    if (relay.pipe != INVALID_HANDLE_VALUE)
        CloseHandle(relay.pipe);
    if (relay.event)
        CloseHandle(relay.event);
    if (answered) {
        *status = ended == 0 ? STATUS_OK_ : ended == 3 ? STATUS_TRUNCATED : ended == 2 ? STATUS_USAGE : STATUS_ERROR;
        return TRUE;
    }
    const WCHAR *known = why_not(code);
    if (!known) {
        wsprintfW(text, L"session 0, and the probe could not be started in the user's session (code %u)", code);
        known = text;
    }
    out_stop(out, STATUS_ERROR, FAULT_SESSION, known);
    return FALSE;
}
