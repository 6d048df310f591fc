/* "Dokumentation": a patient's notes and a new one. */
#include <windows.h>

#include <commctrl.h>
#include <stdlib.h>

#include "app.h"
#include "log.h"
#include "memo.h"
#include "resource.h"
#include "ui.h"

typedef struct {
    HWND window;
    Patient patient;
    UiDisabled disabled;
} NoteDialog;

static NoteDialog *self_of(HWND window)
{
    return (NoteDialog *)GetWindowLongPtrW(window, DWLP_USER);
}

static void close_dialog(NoteDialog *self)
{
    ui_enable_others(&self->disabled); /* before this window goes, so that its owner becomes the active one */
    DestroyWindow(self->window);
}

static void set_cell(HWND list, int row, int column, const WCHAR *text)
{
    LVITEMW item = {0};
    item.mask = LVIF_TEXT;
    item.iItem = row;
    item.iSubItem = column;
    item.pszText = (WCHAR *)text;
    SendMessageW(list, column == 0 ? LVM_INSERTITEMW : LVM_SETITEMW, 0, (LPARAM)&item);
}

static void fill_list(const NoteDialog *self)
{
    static const struct {
        const WCHAR *title;
        int width;
    } COLUMNS[] = {{L"Datum", 80}, {L"Kürzel", 60}, {L"Text", 290}};
    HWND list = GetDlgItem(self->window, IDC_D_LIST);
    NoteList notes;
    DWORD i;
    ListView_SetExtendedListViewStyle(list, LVS_EX_FULLROWSELECT);
    for (i = 0; i < sizeof COLUMNS / sizeof *COLUMNS; ++i) {
        LVCOLUMNW column = {0};
        column.mask = LVCF_TEXT | LVCF_WIDTH | LVCF_SUBITEM;
        column.pszText = (WCHAR *)COLUMNS[i].title;
        column.cx = COLUMNS[i].width;
        column.iSubItem = (int)i;
        SendMessageW(list, LVM_INSERTCOLUMNW, i, (LPARAM)&column);
    }
    if (!note_load(self->patient.value[P_PATNR], &notes)) {
        set_cell(list, 0, 0, L"(nicht lesbar)");
        return;
    }
    for (i = 0; i < notes.count; ++i) {
        WCHAR shown[SHOWN_DATE_CCH];
        date_show(notes.items[i].date, shown);
        set_cell(list, (int)i, 0, shown);
        set_cell(list, (int)i, 1, notes.items[i].initials);
        set_cell(list, (int)i, 2, notes.items[i].first_line);
    }
    free(notes.items);
}

/* The text as typed, line breaks as CRLF; NULL without memory. Blank lines at the end are kept. */
static WCHAR *read_text(const NoteDialog *self)
{
    HWND edit = GetDlgItem(self->window, IDC_D_TEXT);
    int length = GetWindowTextLengthW(edit);
    WCHAR *text = calloc((size_t)length + 1, sizeof *text);
    if (text)
        GetWindowTextW(edit, text, length + 1);
    return text;
}

static BOOL is_blank(const WCHAR *text)
{
    for (; *text; ++text)
        if (*text != L' ' && *text != L'\t' && *text != L'\r' && *text != L'\n')
            return FALSE;
    return TRUE;
}

static void on_save(NoteDialog *self)
{
    WCHAR initials[5], number[NUMBER_CCH], *text = read_text(self);
    const WCHAR *patient = self->patient.value[P_PATNR];
    BOOL ok;
    DWORD error;
    if (text && is_blank(text)) {
        free(text);
        ui_message(self->window, L"Eingabe prüfen", L"Bitte einen Text eingeben.", MB_OK | MB_ICONWARNING);
        SendMessageW(self->window, WM_NEXTDLGCTL, (WPARAM)GetDlgItem(self->window, IDC_D_TEXT), TRUE);
        return;
    }
    ui_get_text(self->window, IDC_D_KUERZEL, initials, 5);
    SetLastError(ERROR_NOT_ENOUGH_MEMORY);
    ok = text && note_append(patient, initials, text, number);
    error = GetLastError();
    free(text);
    if (!ok) {
        ui_io_error(self->window, error);
        return;
    }
    log_line(L"Dokumentation %ls fuer Patient %ls gespeichert", number, patient);
    close_dialog(self);
}

static void on_init(const NoteDialog *self)
{
    WCHAR name[2 * VALUE_CCH], title[128];
    patient_display_name(&self->patient, name, 2 * VALUE_CCH);
    text_format(title, 128, L"Dokumentation - %ls", name);
    SetWindowTextW(self->window, title);
    SendDlgItemMessageW(self->window, IDC_D_KUERZEL, EM_LIMITTEXT, 4, 0);
    SendDlgItemMessageW(self->window, IDC_D_TEXT, EM_LIMITTEXT, MEMO_MAX_TEXT, 0);
    fill_list(self);
    SendMessageW(self->window, WM_NEXTDLGCTL, (WPARAM)GetDlgItem(self->window, IDC_D_KUERZEL), TRUE);
}

static INT_PTR CALLBACK note_procedure(HWND window, UINT message, WPARAM wparam, LPARAM lparam)
{
    NoteDialog *self = self_of(window);
    if (message == WM_INITDIALOG) {
        self = (NoteDialog *)lparam;
        self->window = window;
        SetWindowLongPtrW(window, DWLP_USER, (LONG_PTR)self);
        on_init(self);
        return FALSE; /* on_init has set the focus */
    }
    if (!self)
        return FALSE;
    switch (message) {
    case WM_COMMAND:
        if (LOWORD(wparam) == IDOK)
            on_save(self);
        else if (LOWORD(wparam) == IDCANCEL)
            close_dialog(self);
        return TRUE;
    case WM_CLOSE:
        if (IsWindowEnabled(window))
            close_dialog(self);
        return TRUE;
    case WM_DESTROY:
        SetWindowLongPtrW(window, DWLP_USER, 0);
        free(self);
        return TRUE;
    }
    return FALSE;
}

BOOL note_dialog_register(void)
{
    return ui_register_dialog(app_instance, NOTE_CLASS);
}

void note_dialog_open(HWND main, const Patient *patient)
{
    NoteDialog *self = calloc(1, sizeof *self);
    HWND window;
    if (!self) {
        ui_io_error(main, ERROR_NOT_ENOUGH_MEMORY);
        return;
    }
    self->patient = *patient;
    window = CreateDialogParamW(app_instance, MAKEINTRESOURCEW(IDD_DOKU), main, note_procedure, (LPARAM)self);
    if (!window) {
        DWORD error = GetLastError();
        free(self);
        ui_io_error(main, error);
        return;
    }
    ui_attach_keys(window, app_instance, IDA_DIALOG);
    ui_place(window, main, 0);
    ui_disable_others(window, &self->disabled);
    ShowWindow(window, SW_SHOW);
}
