/* Program start and end. */
#include <windows.h>

#include <commctrl.h>

#include "app.h"
#include "log.h"
#include "program.h"
#include "ui.h"

HINSTANCE app_instance;

static int fail(const WCHAR *text)
{
    MessageBoxW(NULL, text, L"DSWin", MB_OK | MB_ICONERROR);
    return 1;
}

static BOOL register_classes(void)
{
    INITCOMMONCONTROLSEX controls = {sizeof controls, ICC_LISTVIEW_CLASSES | ICC_TAB_CLASSES | ICC_BAR_CLASSES};
    return InitCommonControlsEx(&controls) && main_register() && patient_form_register() &&
           treatment_dialog_register() && note_dialog_register();
}

static void show_running_instance(void)
{
    HWND window = FindWindowW(MAIN_CLASS, NULL);
    if (window)
        SetForegroundWindow(window);
}

int WINAPI wWinMain(HINSTANCE instance, HINSTANCE previous, WCHAR *command_line, int show)
{
    BOOL stale;
    int code;
    (void)previous, (void)command_line, (void)show;

    app_instance = instance;
    if (!program_find_folder())
        return fail(L"Der Programmordner wurde nicht gefunden.");
    if (!program_claim_single_instance()) {
        show_running_instance();
        return 0;
    }
    if (!practice_check())
        return fail(L"Die Daten im Ordner DATA fehlen oder sind beschädigt.");
    if (!program_lock(&stale))
        return fail(L"Die Sperrdatei DSWIN.LCK kann nicht geschrieben werden.");
    log_line(stale ? L"Programmstart (Sperrdatei von frueher vorgefunden)" : L"Programmstart");
    program_start_heartbeat();
    if (!register_classes() || !main_open()) {
        program_unlock();
        return fail(L"Das Programmfenster kann nicht geöffnet werden.");
    }
    code = ui_run();
    log_line(L"Programmende");
    program_unlock();
    return code;
}
