#include "program.h"

#include <string.h>
#include <wchar.h>

#include "text.h"

#define SHARE_ALL (FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE)
#define LONGEST_NAME 32 /* room kept behind the folder for the longest file name of the program */

static WCHAR folder[MAX_PATH];

BOOL program_find_folder(void)
{
    DWORD length = GetModuleFileNameW(NULL, folder, MAX_PATH);
    WCHAR *slash;
    if (length == 0 || length >= MAX_PATH - LONGEST_NAME)
        return FALSE;
    slash = wcsrchr(folder, L'\\');
    if (!slash)
        return FALSE;
    *slash = 0;
    return TRUE;
}

void program_path(const WCHAR *name, WCHAR out[MAX_PATH])
{
    text_format(out, MAX_PATH, L"%ls\\%ls", folder, name);
}

BOOL program_claim_single_instance(void)
{
    WCHAR name[MAX_PATH + 8], *cursor;
    text_format(name, MAX_PATH + 8, L"DSWin:%ls", folder);
    for (cursor = name; *cursor; ++cursor) /* a backslash would name another object directory */
        if (*cursor == L'\\')
            *cursor = L'/';
    CharUpperW(name);
    return CreateMutexW(NULL, FALSE, name) && GetLastError() != ERROR_ALREADY_EXISTS;
}

/* Replaces a small text file. The texts are computer names and times, so plain ASCII in practice. */
static BOOL write_text_file(const WCHAR *name, const WCHAR *text)
{
    WCHAR path[MAX_PATH];
    char bytes[128];
    DWORD written;
    BOOL ok;
    HANDLE file;
    int length = WideCharToMultiByte(850, 0, text, -1, bytes, sizeof bytes, NULL, NULL);
    if (length <= 0)
        return FALSE;
    program_path(name, path);
    file = CreateFileW(path, GENERIC_WRITE, SHARE_ALL, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return FALSE;
    ok = WriteFile(file, bytes, (DWORD)length - 1, &written, NULL) && written == (DWORD)length - 1;
    ok = FlushFileBuffers(file) && ok;
    CloseHandle(file);
    return ok;
}

BOOL program_lock(BOOL *stale)
{
    WCHAR path[MAX_PATH], computer[MAX_COMPUTERNAME_LENGTH + 1] = L"?", stamp[TIMESTAMP_CCH], line[96];
    DWORD length = MAX_COMPUTERNAME_LENGTH + 1;
    program_path(L"DSWIN.LCK", path);
    *stale = GetFileAttributesW(path) != INVALID_FILE_ATTRIBUTES;
    GetComputerNameW(computer, &length);
    timestamp_now(stamp);
    text_format(line, 96, L"%ls %ls\r\n", computer, stamp);
    return write_text_file(L"DSWIN.LCK", line);
}

void program_unlock(void)
{
    WCHAR path[MAX_PATH];
    program_path(L"DSWIN.LCK", path);
    DeleteFileW(path);
}

void program_practice_name(WCHAR out[PRACTICE_NAME_CCH])
{
    WCHAR path[MAX_PATH];
    program_path(L"DSWIN.INI", path);
    GetPrivateProfileStringW(L"Praxis", L"Name", L"", out, PRACTICE_NAME_CCH, path);
}

static VOID CALLBACK beat(HWND window, UINT message, UINT_PTR timer, DWORD ticks)
{
    WCHAR stamp[TIMESTAMP_CCH], line[32];
    (void)window, (void)message, (void)timer, (void)ticks;
    timestamp_now(stamp);
    text_format(line, 32, L"%ls\r\n", stamp);
    write_text_file(L"HEARTBEAT.DAT", line);
}

void program_start_heartbeat(void)
{
    WCHAR path[MAX_PATH];
    UINT seconds;
    program_path(L"DSWIN.INI", path);
    seconds = GetPrivateProfileIntW(L"Noise", L"Heartbeat", 0, path);
    if (seconds > 0 && seconds <= 86400)
        SetTimer(NULL, 0, seconds * 1000, beat); /* no window: it also ticks while a message box is open */
}
