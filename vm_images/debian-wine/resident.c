// Starts Wine's desktop and keeps it: a process with a hidden window that never ends. As long as it lives, Wine's services and
// the desktop live too, which otherwise end with the last program.
//
// Wine starts the desktop by itself for the first program that wants a window, but waits only ten seconds for it and then makes
// do without, for good: on a slow machine nothing would ever be drawn. So this is the first program, and asks for a window only
// when the desktop has some of its own.
#include <windows.h>

#define PATIENCE 600 /* seconds */

static BOOL CALLBACK found_one(HWND window, LPARAM found)
{
    (void)window;
    *(BOOL *)found = TRUE;
    return FALSE;
}

static BOOL start_desktop(void)
{
    static wchar_t command[] = L"C:\\windows\\system32\\explorer.exe /desktop";
    STARTUPINFOW start = {.cb = sizeof start};
    PROCESS_INFORMATION process;
    BOOL found = FALSE;

    if (!CreateProcessW(NULL, command, NULL, NULL, FALSE, 0, NULL, NULL, &start, &process))
        return FALSE;
    // Does not make Wine start a desktop, as looking for a window by name would.
    for (int waited = 0; !found && waited < PATIENCE * 4; waited++) {
        Sleep(250);
        EnumDesktopWindows(GetThreadDesktop(GetCurrentThreadId()), found_one, (LPARAM)&found);
    }
    CloseHandle(process.hThread);
    CloseHandle(process.hProcess);
    return found;
}

int WINAPI wWinMain(HINSTANCE instance, HINSTANCE previous, PWSTR line, int show)
{
    MSG message;

    (void)previous, (void)line, (void)show;
    if (!start_desktop())
        return 1;
    if (!CreateWindowExW(0, L"STATIC", L"legacyproof resident", WS_POPUP, 0, 0, 1, 1, NULL, NULL, instance, NULL))
        return 2;
    while (GetMessageW(&message, NULL, 0, 0) > 0)
        DispatchMessageW(&message);
    return 0;
}
