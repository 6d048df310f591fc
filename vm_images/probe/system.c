/* Who and where the probe is, and the processes beside it. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>
#include <tlhelp32.h>

#if defined(__x86_64__)
#define BUILD_ARCH "x86_64"
#else
#define BUILD_ARCH "i686"
#endif

/* Into `text`, which has room for 256; NULL if there is none. */
static const WCHAR *object_name(Out *out, const char *name, HANDLE object, WCHAR *text)
{
    DWORD needed;
    BOOL known = object && GetUserObjectInformationW(object, UOI_NAME, text, 256 * sizeof *text, &needed);

    rec_text(out, name, known ? text : NULL);
    return known ? text : NULL;
}

static void os_version(Out *out)
{
    /* GetVersionEx tells a program without a manifest that it runs on Windows 8; ntdll tells the truth. */
    typedef LONG(WINAPI * RtlGetVersionFn)(OSVERSIONINFOW *);
    RtlGetVersionFn rtl_get_version = (RtlGetVersionFn)proc_address(L"ntdll.dll", "RtlGetVersion");
    OSVERSIONINFOW version = {.dwOSVersionInfoSize = sizeof version};
    WCHAR text[64];

    if (!rtl_get_version || rtl_get_version(&version) != 0)
        GetVersionExW(&version);
    wsprintfW(text, L"%u.%u.%u", version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber);
    rec_text(out, "os", text);
}

static const char *os_arch(void)
{
    SYSTEM_INFO info;

    GetNativeSystemInfo(&info);
    switch (info.wProcessorArchitecture) {
    case PROCESSOR_ARCHITECTURE_AMD64:
        return "x86_64";
    case PROCESSOR_ARCHITECTURE_INTEL:
        return "i686";
    case 12: /* PROCESSOR_ARCHITECTURE_ARM64: newer than the headers' XP */
        return "aarch64";
    default:
        return "unknown";
    }
}

void header_fields(Out *out)
{
    TIME_ZONE_INFORMATION zone;
    FILETIME now;
    DWORD session = 0, size, kind;
    WCHAR text[257], other[257];
    const WCHAR *desktop, *input_desktop;

    rec_uint(out, "pid", GetCurrentProcessId());
    GetSystemTimeAsFileTime(&now);
    rec_time(out, "time", &now);
    kind = GetTimeZoneInformation(&zone);
    rec_int(out, "tz_bias_min", zone.Bias + (kind == TIME_ZONE_ID_DAYLIGHT   ? zone.DaylightBias
                                             : kind == TIME_ZONE_ID_STANDARD ? zone.StandardBias
                                                                             : 0));
    if (ProcessIdToSessionId(GetCurrentProcessId(), &session))
        rec_uint(out, "session", session);
    else
        rec_null(out, "session");
    object_name(out, "winsta", GetProcessWindowStation(), text);
    desktop = object_name(out, "desktop", GetThreadDesktop(GetCurrentThreadId()), text);
    /* Another desktop than ours, or none to be opened: the secure desktop, a lock screen, a screen saver. */
    HDESK input = OpenInputDesktop(0, FALSE, DESKTOP_READOBJECTS);
    input_desktop = object_name(out, "input_desktop", input, other);
    if (input)
        CloseDesktop(input);
    header_session(out, desktop, input_desktop);
    os_version(out);
    rec_ascii(out, "arch", BUILD_ARCH);
    rec_ascii(out, "os_arch", os_arch());
    rec_open(out, "codepage", '{');
    rec_uint(out, "ansi", GetACP());
    rec_uint(out, "oem", GetOEMCP());
    rec_close(out, '}');
    size = ARRAYSIZE(text);
    rec_text(out, "computer", GetComputerNameW(text, &size) ? text : NULL);
    size = ARRAYSIZE(text);
    rec_text(out, "user", GetUserNameW(text, &size) ? text : NULL);
}

/* ---- processes ----------------------------------------------------------------------------------------------- */

static WCHAR *image_path(HANDLE process)
{
    typedef BOOL(WINAPI * QueryFn)(HANDLE, DWORD, WCHAR *, DWORD *);
    typedef DWORD(WINAPI * ModuleFn)(HANDLE, HMODULE, WCHAR *, DWORD);
    QueryFn query = (QueryFn)proc_address(L"kernel32.dll", "QueryFullProcessImageNameW");
    DWORD room = 1024, length = 0;
    WCHAR *path = malloc(room * sizeof *path);

    if (path && query) {
        length = room;
        if (!query(process, 0, path, &length))
            length = 0;
    } else if (path && LoadLibraryW(L"psapi.dll")) {
        ModuleFn module_file_name = (ModuleFn)proc_address(L"psapi.dll", "GetModuleFileNameExW");
        length = module_file_name ? module_file_name(process, NULL, path, room) : 0;
    }
    if (path && length && length < room) {
        path[length] = 0;
        return path;
    }
    free(path);
    return NULL;
}

static HANDLE open_process(DWORD pid)
{
    /* PROCESS_QUERY_LIMITED_INFORMATION came with Vista and reaches processes of higher integrity as well. */
    HANDLE process = OpenProcess(0x1000, FALSE, pid);
    return process ? process : OpenProcess(PROCESS_QUERY_INFORMATION | PROCESS_VM_READ, FALSE, pid);
}

WCHAR *process_path(DWORD pid)
{
    HANDLE process = open_process(pid);
    WCHAR *path = process ? image_path(process) : NULL;

    if (process)
        CloseHandle(process);
    return path;
}

static HANDLE process_list(void)
{
    HANDLE list;
    int tries = 8;

    /* The call fails with ERROR_BAD_LENGTH when the list changes under it: its documentation says to repeat. */
    do
        list = CreateToolhelp32Snapshot(TH32CS_SNAPPROCESS, 0);
    while (list == INVALID_HANDLE_VALUE && GetLastError() == ERROR_BAD_LENGTH && --tries);
    return list;
}

BOOL process_name(DWORD pid, WCHAR *name, size_t room)
{
    PROCESSENTRY32W entry = {.dwSize = sizeof entry};
    HANDLE list = process_list();
    BOOL found = FALSE;

    if (list == INVALID_HANDLE_VALUE)
        return FALSE;
    for (BOOL more = Process32FirstW(list, &entry); more && !found; more = Process32NextW(list, &entry)) {
        if (entry.th32ProcessID == pid) {
            lstrcpynW(name, entry.szExeFile, (int)room);
            found = TRUE;
        }
    }
    CloseHandle(list);
    return found;
}

static BOOL write_process(Out *out, const PROCESSENTRY32W *entry)
{
    FILETIME started, ended, kernel, user;
    DWORD session;
    HANDLE process = open_process(entry->th32ProcessID);
    WCHAR *path = process ? image_path(process) : NULL;

    rec_begin(out, "process");
    rec_uint(out, "pid", entry->th32ProcessID);
    rec_uint(out, "ppid", entry->th32ParentProcessID);
    rec_text(out, "name", entry->szExeFile);
    if (ProcessIdToSessionId(entry->th32ProcessID, &session))
        rec_uint(out, "session", session);
    else
        rec_null(out, "session");
    rec_text(out, "path", path);
    if (process && GetProcessTimes(process, &started, &ended, &kernel, &user))
        rec_time(out, "started", &started);
    else
        rec_null(out, "started");
    free(path);
    if (process)
        CloseHandle(process);
    return rec_end(out);
}

void run_processes(Out *out, const Request *request)
{
    PROCESSENTRY32W entry = {.dwSize = sizeof entry};
    HANDLE list = process_list();
    BOOL more;

    (void)request;
    if (list == INVALID_HANDLE_VALUE) {
        out_stop(out, STATUS_ERROR, GetLastError(), NULL);
        return;
    }
    for (more = Process32FirstW(list, &entry); more; more = Process32NextW(list, &entry))
        if (!write_process(out, &entry))
            break;
    if (!more && GetLastError() != ERROR_NO_MORE_FILES)
        out_stop(out, STATUS_ERROR, GetLastError(), NULL);
    CloseHandle(list);
}
