/* LATE.EXE: a real Win32 program that stores its record some time after the click that asks for it.
 *
 *   LATE.EXE WAY MILLISECONDS
 *
 * Its window ("Late") has one button (id 1), which asks for it in one of these ways:
 *
 *   timer     a timer of the window's own stores it
 *   process   a second process, which has no window, stores it
 *   box       a box says "Saved"; it closes by itself, and then the record is stored
 *   restless  the counter's table is written anew every so often, for as long as the program runs
 *   pairs     a hundred records one after the other, each a row and its counter, without a pause between the two
 *
 * A record is a row in C:\LATE\PATIENT.DBF and the number of rows in the only row of C:\LATE\COUNTER.DBF. It is written as old
 * programs write: rows first, then the header's count, through one handle each, shared with everybody.
 */
#include <windows.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>

static char way[32];
static DWORD delay;
static HWND window;

static HANDLE table(const char *path)
{
    return CreateFileA(path, GENERIC_READ | GENERIC_WRITE, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_EXISTING, 0, NULL);
}

static void at(HANDLE file, DWORD place, void *data, DWORD size, BOOL write)
{
    DWORD done;
    SetFilePointer(file, place, NULL, FILE_BEGIN);
    if (write) WriteFile(file, data, size, &done, NULL);
    else ReadFile(file, data, size, &done, NULL);
}

static void store(void)
{
    char row[16];
    BYTE head[12];
    HANDLE patients = table("C:\\LATE\\PATIENT.DBF"), counters = table("C:\\LATE\\COUNTER.DBF");
    DWORD count, start, length;

    at(patients, 0, head, sizeof head, FALSE);
    count = *(DWORD *)(head + 4);
    start = *(WORD *)(head + 8);
    length = *(WORD *)(head + 10);
    snprintf(row, sizeof row, " %04lu\x1a", count + 1);
    at(patients, start + count * length, row, 6, TRUE);
    count++;
    at(patients, 4, &count, 4, TRUE);
    at(counters, 0, head, sizeof head, FALSE);
    at(counters, *(WORD *)(head + 8) + 1, row + 1, 4, TRUE);
    CloseHandle(patients);
    CloseHandle(counters);
}

static void beat(void)
{
    static int number;
    char digits[8];
    BYTE head[12];
    HANDLE counters = table("C:\\LATE\\COUNTER.DBF");

    snprintf(digits, sizeof digits, "%04d", ++number % 10000);
    at(counters, 0, head, sizeof head, FALSE);
    at(counters, *(WORD *)(head + 8) + 1, digits, 4, TRUE);
    CloseHandle(counters);
}

static void CALLBACK close_box(HWND unused, UINT message, UINT_PTR id, DWORD time)
{
    HWND box = FindWindowA("#32770", "Saved");
    (void)unused, (void)message, (void)time;
    KillTimer(NULL, id);
    if (box) PostMessageA(box, WM_COMMAND, IDOK, 0);
}

static void asked(void)
{
    if (!strcmp(way, "timer") || !strcmp(way, "restless")) SetTimer(window, 1, delay, NULL);
    else if (!strcmp(way, "process"))
    {
        STARTUPINFOA start = {0};
        PROCESS_INFORMATION process;
        char line[64];
        start.cb = sizeof start;
        snprintf(line, sizeof line, "C:\\LATE\\LATE.EXE worker %lu", delay);
        if (CreateProcessA(NULL, line, NULL, NULL, FALSE, 0, NULL, NULL, &start, &process))
        {
            CloseHandle(process.hThread);
            CloseHandle(process.hProcess);
        }
    }
    else if (!strcmp(way, "box"))
    {
        SetTimer(NULL, 0, delay, close_box);
        MessageBoxA(window, "The record is being stored.", "Saved", MB_OK);
        store();
    }
    else if (!strcmp(way, "pairs"))
        for (int number = 0; number < 100; number++)
        {
            store();
            Sleep(delay);
        }
}

static LRESULT CALLBACK receive(HWND target, UINT message, WPARAM w, LPARAM l)
{
    if (message == WM_COMMAND && LOWORD(w) == 1) asked();
    else if (message == WM_TIMER && w == 1)
    {
        if (!strcmp(way, "restless")) beat();
        else
        {
            KillTimer(target, 1);
            store();
        }
    }
    else if (message == WM_DESTROY) PostQuitMessage(0);
    else return DefWindowProcA(target, message, w, l);
    return 0;
}

int WINAPI WinMain(HINSTANCE instance, HINSTANCE before, LPSTR line, int show)
{
    WNDCLASSA about = {0};
    MSG message;
    (void)before, (void)show;

    sscanf(line, "%31s %lu", way, &delay);
    if (!strcmp(way, "worker"))
    {
        Sleep(delay);
        store();
        return 0;
    }
    about.lpfnWndProc = receive;
    about.hInstance = instance;
    about.lpszClassName = "Late";
    about.hbrBackground = (HBRUSH)(COLOR_WINDOW + 1);
    RegisterClassA(&about);
    window = CreateWindowA("Late", "Late", WS_OVERLAPPEDWINDOW, 50, 50, 400, 200, NULL, NULL, instance, NULL);
    CreateWindowA("BUTTON", "Store", WS_CHILD | WS_VISIBLE, 20, 20, 120, 40, window, (HMENU)1, instance, NULL);
    ShowWindow(window, SW_SHOW);
    while (GetMessageA(&message, NULL, 0, 0) > 0)
    {
        TranslateMessage(&message);
        DispatchMessageA(&message);
    }
    return 0;
}
