#include "ui.h"

#include "text.h"

#define ACCELERATORS_PROPERTY L"DSWinAccelerators"
#define DISCARD_TITLE L"DSWin"

void ui_attach_keys(HWND window, HINSTANCE instance, int accelerators)
{
    SetPropW(window, ACCELERATORS_PROPERTY, (HANDLE)LoadAcceleratorsW(instance, MAKEINTRESOURCEW(accelerators)));
}

int ui_run(void)
{
    MSG message;
    while (GetMessageW(&message, NULL, 0, 0) > 0) {
        HWND root = message.hwnd ? GetAncestor(message.hwnd, GA_ROOT) : NULL;
        HACCEL accelerators = root ? (HACCEL)GetPropW(root, ACCELERATORS_PROPERTY) : NULL;
        if (accelerators &&
            (TranslateAcceleratorW(root, accelerators, &message) || IsDialogMessageW(root, &message)))
            continue;
        TranslateMessage(&message);
        DispatchMessageW(&message);
    }
    return (int)message.wParam;
}

typedef struct {
    HWND keep;
    UiDisabled *disabled;
} DisableRequest;

static BOOL CALLBACK disable_one(HWND window, LPARAM parameter)
{
    DisableRequest *request = (DisableRequest *)parameter;
    UiDisabled *disabled = request->disabled;
    if (window != request->keep && IsWindowVisible(window) && IsWindowEnabled(window) &&
        disabled->count < UI_MAX_WINDOWS) {
        EnableWindow(window, FALSE);
        disabled->windows[disabled->count++] = window;
    }
    return TRUE;
}

void ui_disable_others(HWND window, UiDisabled *disabled)
{
    DisableRequest request = {window, disabled};
    disabled->count = 0;
    EnumThreadWindows(GetCurrentThreadId(), disable_one, (LPARAM)&request);
}

void ui_enable_others(const UiDisabled *disabled)
{
    int i;
    for (i = 0; i < disabled->count; ++i)
        if (IsWindow(disabled->windows[i]))
            EnableWindow(disabled->windows[i], TRUE);
}

/* Message boxes take their button texts from the system; this program is German wherever it runs. */
static LRESULT CALLBACK translate_buttons(int code, WPARAM wparam, LPARAM lparam)
{
    if (code == HCBT_ACTIVATE) {
        SetDlgItemTextW((HWND)wparam, IDYES, L"&Ja"); /* nothing happens where there is no such button */
        SetDlgItemTextW((HWND)wparam, IDNO, L"&Nein");
    }
    return CallNextHookEx(NULL, code, wparam, lparam);
}

int ui_message(HWND owner, const WCHAR *title, const WCHAR *text, UINT flags)
{
    UiDisabled disabled;
    int answer;
    HHOOK hook = SetWindowsHookExW(WH_CBT, translate_buttons, NULL, GetCurrentThreadId());
    ui_disable_others(owner, &disabled);
    answer = MessageBoxW(owner, text, title, flags);
    if (hook)
        UnhookWindowsHookEx(hook);
    ui_enable_others(&disabled);
    return answer;
}

void ui_io_error(HWND owner, DWORD error)
{
    WCHAR text[160];
    if (error == ERROR_NOT_FOUND)
        lstrcpyW(text, L"Der Datensatz wurde nicht gefunden.");
    else if (error == ERROR_ARITHMETIC_OVERFLOW)
        lstrcpyW(text, L"Der Wert ist zu groß für das Feld.");
    else
        text_format(text, 160, L"Die Daten können nicht gelesen oder geschrieben werden (Fehler %lu).", error);
    ui_message(owner, L"Datenfehler", text, MB_OK | MB_ICONERROR);
}

BOOL ui_confirm_discard(HWND owner)
{
    return ui_message(owner, DISCARD_TITLE, L"Änderungen verwerfen?", MB_YESNO | MB_ICONQUESTION) == IDYES;
}

void ui_get_text(HWND window, int control, WCHAR *out, int cch)
{
    if (!GetDlgItemTextW(window, control, out, cch))
        out[0] = 0;
    text_trim(out);
}

void ui_place(HWND window, HWND owner, int step)
{
    RECT work, frame, own;
    int x, y;
    SystemParametersInfoW(SPI_GETWORKAREA, 0, &work, 0);
    GetWindowRect(owner, &frame);
    GetWindowRect(window, &own);
    x = frame.left + 120 + 28 * step;
    y = frame.top + 110 + 28 * step;
    if (x + own.right - own.left > work.right)
        x = work.right - (own.right - own.left);
    if (y + own.bottom - own.top > work.bottom)
        y = work.bottom - (own.bottom - own.top);
    SetWindowPos(window, NULL, x < work.left ? work.left : x, y < work.top ? work.top : y, 0, 0,
                 SWP_NOSIZE | SWP_NOZORDER | SWP_NOACTIVATE);
}

BOOL ui_register_dialog(HINSTANCE instance, const WCHAR *class_name)
{
    WNDCLASSW window_class = {0};
    window_class.lpfnWndProc = DefDlgProcW;
    window_class.cbWndExtra = DLGWINDOWEXTRA;
    window_class.hInstance = instance;
    window_class.hIcon = LoadIconW(NULL, (LPCWSTR)IDI_APPLICATION);
    window_class.hCursor = LoadCursorW(NULL, (LPCWSTR)IDC_ARROW);
    window_class.hbrBackground = (HBRUSH)(COLOR_BTNFACE + 1);
    window_class.lpszClassName = class_name;
    return RegisterClassW(&window_class) != 0;
}
