/*
 * A program for the probe's tests to look at: specimen.exe [hang] [lock FILE]. It shows a window with one control of each
 * kind and a modal dialog over it, writes "ready", and then either serves its windows or, for `hang`, never again does.
 */
#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#define LONG_TEXT_CHARS 40000 /* more than the 32,767 that the probe reads */

static HWND control(HWND parent, const WCHAR *class_name, const WCHAR *text, DWORD style, int id)
{
    return CreateWindowExW(0, class_name, text, WS_CHILD | WS_VISIBLE | style, 10, 10 + 30 * (id - 100), 200, 24, parent,
                           (HMENU)(intptr_t)id, GetModuleHandleW(NULL), NULL);
}

static void fill(HWND window)
{
    static WCHAR long_text[LONG_TEXT_CHARS + 1];

    control(window, L"Edit", L"Müller \xD83D\xDE00", 0, 100);
    control(window, L"Edit", L"geheim", ES_PASSWORD, 101);
    SendMessageW(control(window, L"Button", L"Privat", BS_AUTOCHECKBOX, 102), BM_SETCHECK, BST_CHECKED, 0);
    SendMessageW(control(window, L"Button", L"Kasse", BS_AUTO3STATE, 103), BM_SETCHECK, BST_INDETERMINATE, 0);
    control(window, L"Button", L"OK", BS_PUSHBUTTON | WS_DISABLED, 104);

    HWND list = control(window, L"ListBox", NULL, LBS_HASSTRINGS, 105);
    HWND combo = control(window, L"ComboBox", NULL, CBS_DROPDOWNLIST | CBS_HASSTRINGS, 106);
    static const WCHAR *const lines[] = {L"Eins", L"Zwei", L"Drei"};
    for (int i = 0; i < 3; i++) {
        SendMessageW(list, LB_ADDSTRING, 0, (LPARAM)lines[i]);
        SendMessageW(combo, CB_ADDSTRING, 0, (LPARAM)lines[i]);
    }
    SendMessageW(list, LB_SETCURSEL, 1, 0);
    SendMessageW(combo, CB_SETCURSEL, 2, 0);

    /* Lines of their own and no wrapping, which takes Wine minutes. */
    HWND memo = control(window, L"Edit", NULL, ES_MULTILINE | ES_AUTOHSCROLL | ES_AUTOVSCROLL, 107);
    for (int i = 0; i < LONG_TEXT_CHARS; i++)
        long_text[i] = i % 80 == 78 ? L'\r' : i % 80 == 79 ? L'\n' : (WCHAR)(L'a' + i % 26);
    SendMessageW(memo, EM_SETLIMITTEXT, LONG_TEXT_CHARS * 2, 0);
    SetWindowTextW(memo, long_text);
    ShowWindow(control(window, L"Static", L"verborgen", 0, 108), SW_HIDE);
}

int wmain(int argc, WCHAR **argv)
{
    WNDCLASSW class = {.lpfnWndProc = DefWindowProcW, .hInstance = GetModuleHandleW(NULL), .lpszClassName = L"Specimen"};
    BOOL hang = argc == 2 && lstrcmpW(argv[1], L"hang") == 0;
    MSG message;
    DWORD done;

    if (argc == 3) /* `lock`: nobody else may open the file */
        CreateFileW(argv[2], GENERIC_READ | GENERIC_WRITE, 0, NULL, OPEN_EXISTING, 0, NULL);
    RegisterClassW(&class);
    HWND window = CreateWindowExW(0, class.lpszClassName, L"Patient \xD800 ü", WS_OVERLAPPEDWINDOW | WS_VISIBLE, 50, 60, 400,
                                  420, NULL, NULL, class.hInstance, NULL);
    fill(window);
    if (!hang) {
        CreateWindowExW(0, class.lpszClassName, L"Frage", WS_POPUP | WS_CAPTION | WS_VISIBLE, 90, 90, 200, 100, window, NULL,
                        class.hInstance, NULL);
        EnableWindow(window, FALSE);
    }
    WriteFile(GetStdHandle(STD_OUTPUT_HANDLE), "ready\n", 6, &done, NULL);
    if (hang)
        Sleep(INFINITE);
    while (GetMessageW(&message, NULL, 0, 0) > 0)
        DispatchMessageW(&message);
    return 0;
}
