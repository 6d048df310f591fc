/* The patient list: search, list, menu. Any number of these windows, all in one process. */
#include <windows.h>

#include <commctrl.h>
#include <stdlib.h>
#include <wchar.h>

#include "app.h"
#include "log.h"
#include "program.h"
#include "resource.h"
#include "ui.h"

#define WINDOW_WIDTH 960
#define WINDOW_HEIGHT 660
#define SEARCH_CCH 64
#define ROW_HEIGHT 34 /* the strip with the search field */
#define COLUMN_COUNT 6
#define WM_APP_RAISE_FORMS (WM_APP + 1)

typedef struct MainWindow {
    HWND window, label, search, list, status, last_focus;
    PatientList patients;
    DWORD *view; /* the patients that fit the search, as positions in `patients` */
    DWORD view_count;
    struct MainWindow *next;
} MainWindow;

static const struct {
    const WCHAR *title;
    int width;
    PatientColumn column;
} COLUMNS[COLUMN_COUNT] = {
    {L"Nr", 70, P_PATNR},           {L"Name", 190, P_NAME}, {L"Vorname", 170, P_VORNAME},
    {L"Geb.-Datum", 100, P_GEBDAT}, {L"Ort", 200, P_ORT},   {L"Telefon", 170, P_TELEFON},
};

static MainWindow *all_windows;
static int opened_windows; /* ever, to place the next one */
static WNDPROC edit_procedure;

static MainWindow *self_of(HWND window)
{
    return (MainWindow *)GetWindowLongPtrW(window, GWLP_USERDATA);
}

/* ---- list ---- */

/* Lower case and without the blank behind the comma, so that "müller,j" finds "Müller, Jürgen". */
static void fold(const WCHAR *text, WCHAR *out, size_t cch)
{
    size_t length = 0;
    for (; *text && length + 1 < cch; ++text)
        if (*text != L' ' || length == 0 || out[length - 1] != L',')
            out[length++] = *text;
    out[length] = 0;
    CharLowerW(out);
}

static const Patient *selected_patient(const MainWindow *self)
{
    int row = ListView_GetNextItem(self->list, -1, LVNI_SELECTED);
    return row >= 0 && (DWORD)row < self->view_count ? &self->patients.items[self->view[row]] : NULL;
}

static void select_row(const MainWindow *self, int row)
{
    ListView_SetItemState(self->list, -1, 0, LVIS_SELECTED | LVIS_FOCUSED);
    if (self->view_count == 0)
        return;
    ListView_SetItemState(self->list, row, LVIS_SELECTED | LVIS_FOCUSED, LVIS_SELECTED | LVIS_FOCUSED);
    ListView_EnsureVisible(self->list, row, FALSE);
}

static void show_count(const MainWindow *self)
{
    WCHAR text[64];
    if (self->view_count == self->patients.count)
        text_format(text, 64, L"%lu Patienten", self->patients.count);
    else
        text_format(text, 64, L"%lu von %lu Patienten", self->view_count, self->patients.count);
    SendMessageW(self->status, SB_SETTEXTW, 0, (LPARAM)text);
}

/* Fills the list with the patients whose "NAME, VORNAME" begins with the search text; selects `number` or the first. */
static void apply_search(MainWindow *self, const WCHAR *number)
{
    WCHAR typed[SEARCH_CCH], wanted[SEARCH_CCH];
    int row = 0;
    DWORD i;
    GetWindowTextW(self->search, typed, SEARCH_CCH);
    fold(typed, wanted, SEARCH_CCH);
    self->view_count = 0;
    for (i = 0; i < self->patients.count; ++i) {
        WCHAR name[2 * VALUE_CCH], key[2 * VALUE_CCH];
        patient_display_name(&self->patients.items[i], name, 2 * VALUE_CCH);
        fold(name, key, 2 * VALUE_CCH);
        if (wcsncmp(key, wanted, wcslen(wanted)) != 0)
            continue;
        if (number && wcscmp(self->patients.items[i].value[P_PATNR], number) == 0)
            row = (int)self->view_count;
        self->view[self->view_count++] = i;
    }
    ListView_SetItemCountEx(self->list, self->view_count, 0);
    select_row(self, row);
    InvalidateRect(self->list, NULL, TRUE);
    show_count(self);
}

/* Reads the table anew; keeps the list as it is if that fails. */
static BOOL reload(MainWindow *self, const WCHAR *number)
{
    PatientList fresh;
    DWORD *view;
    if (!patient_load_all(&fresh))
        return FALSE;
    view = malloc(((size_t)fresh.count + 1) * sizeof *view);
    if (!view) {
        free(fresh.items);
        SetLastError(ERROR_NOT_ENOUGH_MEMORY);
        return FALSE;
    }
    free(self->patients.items);
    free(self->view);
    self->patients = fresh;
    self->view = view;
    apply_search(self, number);
    return TRUE;
}

void main_refresh_all(HWND main, const WCHAR *select_number)
{
    MainWindow *self;
    for (self = all_windows; self; self = self->next) {
        WCHAR number[NUMBER_CCH] = L"";
        const Patient *selected = selected_patient(self);
        if (selected)
            lstrcpynW(number, selected->value[P_PATNR], NUMBER_CCH);
        if (self->window == main && select_number) {
            lstrcpynW(number, select_number, NUMBER_CCH);
            SetWindowTextW(self->search, L"");
        }
        if (!reload(self, number))
            ui_io_error(self->window, GetLastError());
    }
}

static void fill_cell(const MainWindow *self, NMLVDISPINFOW *info)
{
    LVITEMW *item = &info->item;
    const Patient *patient;
    if (!(item->mask & LVIF_TEXT) || item->cchTextMax <= 0)
        return;
    item->pszText[0] = 0;
    if (item->iItem < 0 || (DWORD)item->iItem >= self->view_count || item->iSubItem >= COLUMN_COUNT)
        return;
    patient = &self->patients.items[self->view[item->iItem]];
    if (COLUMNS[item->iSubItem].column == P_GEBDAT) {
        WCHAR shown[SHOWN_DATE_CCH];
        date_show(patient->value[P_GEBDAT], shown);
        lstrcpynW(item->pszText, shown, item->cchTextMax);
    } else {
        lstrcpynW(item->pszText, patient->value[COLUMNS[item->iSubItem].column], item->cchTextMax);
    }
}

/* Shows the selected row in the selection colours also while the focus is in the search field; the system's own grey for
 * that can hardly be seen in modern colour schemes. */
static LRESULT paint_row(const MainWindow *self, NMLVCUSTOMDRAW *draw)
{
    if (draw->nmcd.dwDrawStage == CDDS_PREPAINT)
        return CDRF_NOTIFYITEMDRAW;
    if (draw->nmcd.dwDrawStage == CDDS_ITEMPREPAINT && GetFocus() != self->list &&
        ListView_GetItemState(self->list, (int)draw->nmcd.dwItemSpec, LVIS_SELECTED)) {
        draw->nmcd.uItemState &= ~(UINT)CDIS_SELECTED;
        draw->clrText = GetSysColor(COLOR_HIGHLIGHTTEXT);
        draw->clrTextBk = GetSysColor(COLOR_HIGHLIGHT);
    }
    return CDRF_DODEFAULT;
}

/* ---- commands ---- */

static void open_selected(const MainWindow *self)
{
    const Patient *patient = selected_patient(self);
    WCHAR number[NUMBER_CCH];
    if (!patient) {
        MessageBeep(MB_ICONWARNING);
        return;
    }
    lstrcpynW(number, patient->value[P_PATNR], NUMBER_CCH); /* the list may be read anew while the form opens */
    patient_form_open(self->window, number);
}

/* F5 and F6 work on the row as it is on disk now, not as the list shows it. */
static void open_treatment(const MainWindow *self, void (*open)(HWND, const Patient *))
{
    const Patient *selected = selected_patient(self);
    Patient patient;
    if (!selected)
        ui_message(self->window, L"DSWin", L"Bitte zuerst einen Patienten auswählen.", MB_OK | MB_ICONINFORMATION);
    else if (!patient_load(selected->value[P_PATNR], &patient))
        ui_io_error(self->window, GetLastError());
    else
        open(self->window, &patient);
}

static void focus_search(const MainWindow *self)
{
    SetFocus(self->search);
    SendMessageW(self->search, EM_SETSEL, 0, -1);
}

/* Shows all patients again; the selected one stays selected. */
static void clear_search(MainWindow *self)
{
    const Patient *selected = selected_patient(self);
    WCHAR number[NUMBER_CCH] = L"";
    if (selected)
        lstrcpynW(number, selected->value[P_PATNR], NUMBER_CCH);
    SetWindowTextW(self->search, L"");
    apply_search(self, number);
    focus_search(self);
}

static void close_window(HWND window)
{
    if (patient_form_any_changed(window) && !ui_confirm_discard(window))
        return;
    patient_form_close_all(window);
    DestroyWindow(window);
}

static void exit_program(HWND window)
{
    if (patient_form_any_changed(NULL) && !ui_confirm_discard(window))
        return;
    patient_form_close_all(NULL);
    while (all_windows)
        DestroyWindow(all_windows->window);
}

static void on_command(MainWindow *self, int identifier, int notification)
{
    switch (identifier) {
    case IDM_FILE_NEW_WINDOW:
        if (!main_open())
            ui_io_error(self->window, GetLastError());
        break;
    case IDM_FILE_EXIT:
        exit_program(self->window);
        break;
    case IDM_PATIENT_NEW:
        patient_form_open(self->window, NULL);
        break;
    case IDM_PATIENT_EDIT:
    case IDOK: /* Enter, in the list as in the search field */
        open_selected(self);
        break;
    case IDM_PATIENT_SEARCH:
        focus_search(self);
        break;
    case IDM_TREAT_LEISTUNG:
        open_treatment(self, treatment_dialog_open);
        break;
    case IDM_TREAT_DOKU:
        open_treatment(self, note_dialog_open);
        break;
    case IDM_HELP_INFO:
        ui_message(self->window, L"Info", L"DSWin Praxisverwaltung\nVersion 5.2\n\nNachbau zu Prüfzwecken, alle Daten sind erfunden.",
                   MB_OK | MB_ICONINFORMATION);
        break;
    case IDCANCEL: /* Esc */
        clear_search(self);
        break;
    case IDC_SEARCH:
        if (notification == EN_CHANGE && self->view)
            apply_search(self, NULL);
        break;
    }
}

static LRESULT on_notify(MainWindow *self, NMHDR *header)
{
    if (header->idFrom != IDC_LIST)
        return 0;
    if (header->code == NM_CUSTOMDRAW)
        return paint_row(self, (NMLVCUSTOMDRAW *)header);
    if (header->code == LVN_GETDISPINFOW)
        fill_cell(self, (NMLVDISPINFOW *)header);
    else if (header->code == NM_DBLCLK && ((NMITEMACTIVATE *)header)->iItem >= 0)
        open_selected(self);
    return 0;
}

/* ---- window ---- */

static LRESULT CALLBACK search_procedure(HWND edit, UINT message, WPARAM wparam, LPARAM lparam)
{
    if (message == WM_KEYDOWN && wparam == VK_DOWN) {
        MainWindow *self = self_of(GetParent(edit));
        SetFocus(self->list);
        return 0;
    }
    return CallWindowProcW(edit_procedure, edit, message, wparam, lparam);
}

static HWND add_control(const MainWindow *self, const WCHAR *class_name, const WCHAR *text, DWORD style, DWORD ex_style,
                        int identifier)
{
    HWND control = CreateWindowExW(ex_style, class_name, text, style | WS_CHILD | WS_VISIBLE, 0, 0, 0, 0, self->window,
                                   (HMENU)(INT_PTR)identifier, app_instance, NULL);
    SendMessageW(control, WM_SETFONT, (WPARAM)GetStockObject(DEFAULT_GUI_FONT), TRUE);
    return control;
}

static void create_controls(MainWindow *self)
{
    int parts[2] = {200, -1}, i;
    WCHAR practice[PRACTICE_NAME_CCH];

    self->label = add_control(self, L"STATIC", L"Suche:", SS_LEFT, 0, IDC_SEARCH_LABEL);
    self->search = add_control(self, L"EDIT", L"", WS_TABSTOP | ES_AUTOHSCROLL, WS_EX_CLIENTEDGE, IDC_SEARCH);
    SendMessageW(self->search, EM_LIMITTEXT, SEARCH_CCH - 1, 0);
    edit_procedure = (WNDPROC)SetWindowLongPtrW(self->search, GWLP_WNDPROC, (LONG_PTR)search_procedure);
    self->list = add_control(self, WC_LISTVIEWW, L"",
                             WS_TABSTOP | LVS_REPORT | LVS_OWNERDATA | LVS_SINGLESEL | LVS_SHOWSELALWAYS,
                             WS_EX_CLIENTEDGE, IDC_LIST);
    ListView_SetExtendedListViewStyle(self->list, LVS_EX_FULLROWSELECT);
    for (i = 0; i < COLUMN_COUNT; ++i) {
        LVCOLUMNW column = {0};
        column.mask = LVCF_TEXT | LVCF_WIDTH | LVCF_SUBITEM;
        column.pszText = (WCHAR *)COLUMNS[i].title;
        column.cx = COLUMNS[i].width;
        column.iSubItem = i;
        SendMessageW(self->list, LVM_INSERTCOLUMNW, (WPARAM)i, (LPARAM)&column);
    }
    self->status = add_control(self, STATUSCLASSNAMEW, L"", SBARS_SIZEGRIP, 0, IDC_STATUS);
    SendMessageW(self->status, SB_SETPARTS, 2, (LPARAM)parts);
    program_practice_name(practice);
    SendMessageW(self->status, SB_SETTEXTW, 1, (LPARAM)practice);
    self->last_focus = self->search;
}

static void layout(const MainWindow *self, int width, int height)
{
    RECT status;
    SendMessageW(self->status, WM_SIZE, 0, 0);
    GetWindowRect(self->status, &status);
    MoveWindow(self->label, 10, 10, 44, 16, TRUE);
    MoveWindow(self->search, 58, 6, 260, 22, TRUE);
    MoveWindow(self->list, 0, ROW_HEIGHT, width, height - ROW_HEIGHT - (status.bottom - status.top), TRUE);
}

static void remember_focus(MainWindow *self)
{
    HWND focus = GetFocus();
    if (focus && IsChild(self->window, focus))
        self->last_focus = focus;
}

/* The last window's end is the program's end. */
static void on_destroy(MainWindow *self)
{
    MainWindow **link = &all_windows;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    SetWindowLongPtrW(self->window, GWLP_USERDATA, 0);
    free(self->patients.items);
    free(self->view);
    free(self);
    if (!all_windows)
        PostQuitMessage(0);
}

/* Windows ends the process after this message: leave as tidily as at a normal end. */
static void on_session_end(void)
{
    log_line(L"Programmende (Abmeldung)");
    program_unlock();
}

static LRESULT CALLBACK main_procedure(HWND window, UINT message, WPARAM wparam, LPARAM lparam)
{
    MainWindow *self = self_of(window);
    if (message == WM_NCCREATE) {
        self = ((CREATESTRUCTW *)lparam)->lpCreateParams;
        self->window = window;
        SetWindowLongPtrW(window, GWLP_USERDATA, (LONG_PTR)self);
    }
    if (!self)
        return DefWindowProcW(window, message, wparam, lparam);
    switch (message) {
    case WM_CREATE:
        create_controls(self);
        self->next = all_windows;
        all_windows = self;
        return 0;
    case WM_SIZE:
        if (wparam != SIZE_MINIMIZED)
            layout(self, LOWORD(lparam), HIWORD(lparam));
        return 0;
    case WM_GETMINMAXINFO:
        ((MINMAXINFO *)lparam)->ptMinTrackSize.x = 480;
        ((MINMAXINFO *)lparam)->ptMinTrackSize.y = 240;
        return 0;
    case WM_ACTIVATE:
        if (LOWORD(wparam) == WA_INACTIVE)
            remember_focus(self);
        else /* Windows keeps owned windows above their owner by itself, Wine does not */
            PostMessageW(window, WM_APP_RAISE_FORMS, 0, 0);
        break;
    case WM_APP_RAISE_FORMS:
        patient_form_raise_all(window);
        return 0;
    case WM_SETFOCUS:
        SetFocus(self->last_focus);
        return 0;
    case WM_COMMAND:
        on_command(self, LOWORD(wparam), HIWORD(wparam));
        return 0;
    case WM_NOTIFY:
        return on_notify(self, (NMHDR *)lparam);
    case WM_CLOSE:
        if (IsWindowEnabled(window)) /* else a modal window is open */
            close_window(window);
        return 0;
    case WM_ENDSESSION:
        if (wparam && self == all_windows) /* once, not for every window */
            on_session_end();
        return 0;
    case WM_DESTROY:
        on_destroy(self);
        return 0;
    }
    return DefWindowProcW(window, message, wparam, lparam);
}

BOOL main_register(void)
{
    WNDCLASSW window_class = {0};
    window_class.lpfnWndProc = main_procedure;
    window_class.hInstance = app_instance;
    window_class.hIcon = LoadIconW(NULL, (LPCWSTR)IDI_APPLICATION);
    window_class.hCursor = LoadCursorW(NULL, (LPCWSTR)IDC_ARROW);
    window_class.hbrBackground = (HBRUSH)(COLOR_BTNFACE + 1);
    window_class.lpszMenuName = MAKEINTRESOURCEW(IDM_MAIN);
    window_class.lpszClassName = MAIN_CLASS;
    return RegisterClassW(&window_class) != 0;
}

BOOL main_open(void)
{
    MainWindow *self = calloc(1, sizeof *self);
    int offset = 8 + 32 * (opened_windows++ % 2); /* two places, both within a screen of 1024 x 768 */
    HWND window;
    if (!self)
        return FALSE;
    window = CreateWindowExW(0, MAIN_CLASS, MAIN_TITLE, WS_OVERLAPPEDWINDOW | WS_CLIPCHILDREN, offset, offset,
                             WINDOW_WIDTH, WINDOW_HEIGHT, NULL, NULL, app_instance, self);
    if (!window) {
        free(self);
        return FALSE;
    }
    ui_attach_keys(window, app_instance, IDA_MAIN);
    if (!reload(self, NULL)) {
        DWORD error = GetLastError();
        DestroyWindow(window);
        SetLastError(error);
        return FALSE;
    }
    ShowWindow(window, SW_SHOW);
    SetFocus(self->search);
    return TRUE;
}
