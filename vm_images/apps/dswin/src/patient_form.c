/* The form for a new or an existing patient. */
#include <windows.h>

#include <commctrl.h>
#include <stdlib.h>
#include <uxtheme.h>
#include <wchar.h>

#include "app.h"
#include "log.h"
#include "resource.h"
#include "ui.h"

#define PAGE_COUNT 4
#define TITLE_CCH 160
#define WM_APP_IO_ERROR (WM_APP + 1) /* wparam: error code */

typedef struct {
    int control;
    PatientColumn column;
    int page;
    int width; /* most characters that can be typed */
} FormField;

static const FormField FIELDS[] = {
    {IDC_NAME, P_NAME, 0, 30},       {IDC_VORNAME, P_VORNAME, 0, 30}, {IDC_GEBDAT, P_GEBDAT, 0, 10},
    {IDC_GESCHLECHT, P_GESCHLECHT, 0, 1}, {IDC_STRASSE, P_STRASSE, 1, 40}, {IDC_PLZ, P_PLZ, 1, 5},
    {IDC_ORT, P_ORT, 1, 30},         {IDC_TELEFON, P_TELEFON, 1, 20}, {IDC_KASSE, P_KASSE, 2, 20},
    {IDC_VERSNR, P_VERSNR, 2, 12},   {IDC_BEMERK, P_BEMERK, 3, 40},
};
#define FIELD_COUNT ((int)(sizeof FIELDS / sizeof *FIELDS))

static const WCHAR *const PAGES[PAGE_COUNT] = {L"Stammdaten", L"Anschrift", L"Versicherung", L"Bemerkung"};

static const struct {
    const WCHAR *shown, *stored;
} SEXES[] = {{L"", L""}, {L"männlich", L"M"}, {L"weiblich", L"W"}, {L"divers", L"D"}};
#define SEX_COUNT ((int)(sizeof SEXES / sizeof *SEXES))

typedef struct PatientForm {
    HWND window, main;
    WCHAR number[NUMBER_CCH]; /* empty: new patient */
    BOOL read_only;           /* another form holds the record */
    BOOL phone_written;       /* the telephone was saved since the form was opened */
    BOOL closing;
    int page;
    Patient original; /* what is on disk as far as this form knows */
    struct PatientForm *next;
} PatientForm;

static PatientForm *all_forms;

static PatientForm *self_of(HWND window)
{
    return (PatientForm *)GetWindowLongPtrW(window, DWLP_USER);
}

static BOOL is_new(const PatientForm *self)
{
    return self->number[0] == 0;
}

/* ---- fields ---- */

static void show_field(const PatientForm *self, const FormField *field)
{
    const WCHAR *value = self->original.value[field->column];
    if (field->column == P_GEBDAT) {
        WCHAR shown[SHOWN_DATE_CCH];
        date_show(value, shown);
        SetDlgItemTextW(self->window, field->control, shown);
    } else if (field->column == P_GESCHLECHT) {
        int i, chosen = 0;
        for (i = 0; i < SEX_COUNT; ++i)
            if (wcscmp(SEXES[i].stored, value) == 0)
                chosen = i;
        SendDlgItemMessageW(self->window, field->control, CB_SETCURSEL, (WPARAM)chosen, 0);
    } else {
        SetDlgItemTextW(self->window, field->control, value);
    }
}

/* Reads what a field holds, in the form of the table. A date that is none comes back as typed. */
static void read_field(const PatientForm *self, const FormField *field, WCHAR out[VALUE_CCH])
{
    ui_get_text(self->window, field->control, out, VALUE_CCH);
    if (field->column == P_GEBDAT) {
        date_parse(out, out);
    } else if (field->column == P_GESCHLECHT) {
        LRESULT chosen = SendDlgItemMessageW(self->window, field->control, CB_GETCURSEL, 0, 0);
        lstrcpynW(out, SEXES[chosen >= 0 && chosen < SEX_COUNT ? chosen : 0].stored, VALUE_CCH);
    }
}

/* The columns whose field differs from what is on disk; the form's values go to `values`. */
static DWORD changed_columns(const PatientForm *self, Patient *values)
{
    DWORD columns = 0;
    int i;
    *values = self->original;
    for (i = 0; i < FIELD_COUNT; ++i) {
        WCHAR *value = values->value[FIELDS[i].column];
        const WCHAR *original = self->original.value[FIELDS[i].column];
        read_field(self, &FIELDS[i], value);
        if (FIELDS[i].column == P_GESCHLECHT && !value[0] && wcslen(original) == 1 && !wcschr(L"MWD", original[0]))
            lstrcpynW(value, original, VALUE_CCH); /* a value of another program that the list cannot show */
        if (wcscmp(value, original) != 0)
            columns |= 1u << FIELDS[i].column;
    }
    return columns;
}

static BOOL has_changes(const PatientForm *self)
{
    Patient values;
    return !self->read_only && changed_columns(self, &values) != 0;
}

static void show_page(PatientForm *self, int page)
{
    int i, first = 0;
    self->page = page;
    SendDlgItemMessageW(self->window, IDC_TAB, TCM_SETCURSEL, (WPARAM)page, 0);
    for (i = FIELD_COUNT - 1; i >= 0; --i) /* show before hiding, so that the focus finds a place */
        if (FIELDS[i].page == page) {
            ShowWindow(GetDlgItem(self->window, FIELDS[i].control + IDC_LABEL_OFFSET), SW_SHOW);
            ShowWindow(GetDlgItem(self->window, FIELDS[i].control), SW_SHOW);
            first = FIELDS[i].control;
        }
    SendMessageW(self->window, WM_NEXTDLGCTL, (WPARAM)GetDlgItem(self->window, first), TRUE);
    for (i = 0; i < FIELD_COUNT; ++i)
        if (FIELDS[i].page != page) {
            ShowWindow(GetDlgItem(self->window, FIELDS[i].control + IDC_LABEL_OFFSET), SW_HIDE);
            ShowWindow(GetDlgItem(self->window, FIELDS[i].control), SW_HIDE);
        }
}

static void focus_field(PatientForm *self, int control)
{
    int i;
    for (i = 0; i < FIELD_COUNT; ++i)
        if (FIELDS[i].control == control && FIELDS[i].page != self->page)
            show_page(self, FIELDS[i].page);
    SendMessageW(self->window, WM_NEXTDLGCTL, (WPARAM)GetDlgItem(self->window, control), TRUE);
}

/* ---- closing and saving ---- */

static void close_form(PatientForm *self)
{
    self->closing = TRUE;
    DestroyWindow(self->window);
}

/* The old habit: the telephone of an existing patient goes to disk as soon as its field is left, without GEAENDERT. */
static void save_phone(PatientForm *self)
{
    Patient values = self->original;
    WCHAR *phone = values.value[P_TELEFON];
    if (is_new(self) || self->read_only || self->closing)
        return;
    ui_get_text(self->window, IDC_TELEFON, phone, VALUE_CCH);
    if (wcscmp(phone, self->original.value[P_TELEFON]) == 0)
        return;
    if (!patient_write(self->number, &values, 1u << P_TELEFON)) {
        PostMessageW(self->window, WM_APP_IO_ERROR, GetLastError(), 0); /* no box while the focus is moving */
        return;
    }
    self->original = values;
    self->phone_written = TRUE;
    log_line(L"Patient %ls Telefon gespeichert", self->number);
    main_refresh_all(NULL, NULL);
}

static BOOL check_input(PatientForm *self, const Patient *values)
{
    WCHAR shown[SHOWN_DATE_CCH];
    const WCHAR *text = NULL;
    int control = 0;
    date_show(values->value[P_GEBDAT], shown);
    if (!values->value[P_NAME][0]) {
        text = L"Bitte einen Nachnamen eingeben.";
        control = IDC_NAME;
    } else if (!values->value[P_GEBDAT][0]) {
        text = L"Bitte ein Geburtsdatum eingeben.";
        control = IDC_GEBDAT;
    } else if (!shown[0]) {
        text = L"Das Geburtsdatum ist ungültig (TT.MM.JJJJ).";
        control = IDC_GEBDAT;
    }
    if (!text)
        return TRUE;
    ui_message(self->window, L"Eingabe prüfen", text, MB_OK | MB_ICONWARNING);
    focus_field(self, control);
    return FALSE;
}

static BOOL confirm_duplicate(PatientForm *self, const Patient *values)
{
    WCHAR name[2 * VALUE_CCH], text[160];
    BOOL exists;
    if (!patient_name_exists(values->value[P_NAME], values->value[P_VORNAME], &exists)) {
        ui_io_error(self->window, GetLastError());
        return FALSE;
    }
    if (!exists)
        return TRUE;
    patient_display_name(values, name, 2 * VALUE_CCH);
    text_format(text, 160, L"%ls ist bereits angelegt.\nTrotzdem speichern?", name);
    if (ui_message(self->window, L"Doppelter Patient", text, MB_YESNO | MB_ICONWARNING) == IDYES)
        return TRUE;
    focus_field(self, IDC_NAME);
    return FALSE;
}

/* The row is on disk before the message box, counter and log only follow its answer. */
static void save_new(PatientForm *self, Patient *values)
{
    HWND main = self->main;
    WCHAR text[80], number[NUMBER_CCH];
    if (!confirm_duplicate(self, values))
        return;
    if (!patient_append(values)) {
        ui_io_error(self->window, GetLastError());
        return;
    }
    lstrcpynW(number, values->value[P_PATNR], NUMBER_CCH);
    SetDlgItemTextW(self->window, IDC_PATNR, number);
    text_format(text, 80, L"Patient Nr. %ls wurde angelegt.", number);
    ui_message(self->window, L"Patient angelegt", text, MB_OK | MB_ICONINFORMATION);
    if (!patient_store_counter(number))
        ui_io_error(self->window, GetLastError());
    log_line(L"Patient %ls angelegt", number);
    close_form(self);
    main_refresh_all(main, number);
}

static void save_existing(PatientForm *self, Patient *values, DWORD columns)
{
    if (columns || self->phone_written) {
        date_today(values->value[P_GEAENDERT]);
        if (!patient_write(self->number, values, columns | 1u << P_GEAENDERT)) {
            ui_io_error(self->window, GetLastError());
            return;
        }
        log_line(L"Patient %ls geaendert", self->number);
    }
    close_form(self);
    main_refresh_all(NULL, NULL);
}

static void on_save(PatientForm *self)
{
    Patient values;
    DWORD columns;
    if (self->read_only) {
        MessageBeep(MB_ICONWARNING);
        return;
    }
    save_phone(self); /* F10 and Enter do not move the focus */
    columns = changed_columns(self, &values);
    if (!check_input(self, &values))
        return;
    if (is_new(self))
        save_new(self, &values);
    else
        save_existing(self, &values, columns);
}

static void on_cancel(PatientForm *self)
{
    save_phone(self);
    if (!has_changes(self) || ui_confirm_discard(self->window))
        close_form(self);
}

/* ---- window ---- */

static void init_controls(PatientForm *self)
{
    int i;
    SetWindowTheme(GetDlgItem(self->window, IDC_TAB), L" ", L" "); /* unthemed: else white below grey labels */
    for (i = 0; i < PAGE_COUNT; ++i) {
        TCITEMW item = {0};
        item.mask = TCIF_TEXT;
        item.pszText = (WCHAR *)PAGES[i];
        SendDlgItemMessageW(self->window, IDC_TAB, TCM_INSERTITEMW, (WPARAM)i, (LPARAM)&item);
    }
    for (i = 0; i < SEX_COUNT; ++i)
        SendDlgItemMessageW(self->window, IDC_GESCHLECHT, CB_ADDSTRING, 0, (LPARAM)SEXES[i].shown);
    for (i = 0; i < FIELD_COUNT; ++i) {
        HWND control = GetDlgItem(self->window, FIELDS[i].control);
        if (FIELDS[i].column == P_GESCHLECHT) {
            EnableWindow(control, !self->read_only);
        } else {
            SendMessageW(control, EM_LIMITTEXT, (WPARAM)FIELDS[i].width, 0);
            SendMessageW(control, EM_SETREADONLY, (WPARAM)self->read_only, 0);
        }
        show_field(self, &FIELDS[i]);
    }
    EnableWindow(GetDlgItem(self->window, IDOK), !self->read_only);
    SetDlgItemTextW(self->window, IDC_PATNR, is_new(self) ? L"(neu)" : self->number);
}

static void set_title(const PatientForm *self)
{
    WCHAR name[2 * VALUE_CCH], title[TITLE_CCH];
    if (is_new(self))
        return; /* the template's title */
    patient_display_name(&self->original, name, 2 * VALUE_CCH);
    text_format(title, TITLE_CCH, L"Patient %ls - %ls%ls", self->number, name,
                self->read_only ? L" (schreibgeschützt)" : L"");
    SetWindowTextW(self->window, title);
}

static void on_destroy(PatientForm *self)
{
    PatientForm **link = &all_forms;
    while (*link != self)
        link = &(*link)->next;
    *link = self->next;
    SetWindowLongPtrW(self->window, DWLP_USER, 0);
    free(self);
}

static void on_command(PatientForm *self, int identifier, int notification)
{
    switch (identifier) {
    case IDOK:
        on_save(self);
        break;
    case IDCANCEL:
        on_cancel(self);
        break;
    case IDM_PAGE_NEXT:
        show_page(self, (self->page + 1) % PAGE_COUNT);
        break;
    case IDM_PAGE_PREVIOUS:
        show_page(self, (self->page + PAGE_COUNT - 1) % PAGE_COUNT);
        break;
    case IDC_TELEFON:
        if (notification == EN_KILLFOCUS)
            save_phone(self);
        break;
    }
}

static INT_PTR CALLBACK form_procedure(HWND window, UINT message, WPARAM wparam, LPARAM lparam)
{
    PatientForm *self = self_of(window);
    if (message == WM_INITDIALOG) {
        self = (PatientForm *)lparam;
        self->window = window;
        SetWindowLongPtrW(window, DWLP_USER, (LONG_PTR)self);
        init_controls(self);
        set_title(self);
        show_page(self, 0);
        return FALSE; /* show_page has set the focus */
    }
    if (!self)
        return FALSE;
    switch (message) {
    case WM_COMMAND:
        on_command(self, LOWORD(wparam), HIWORD(wparam));
        return TRUE;
    case WM_NOTIFY:
        if (((NMHDR *)lparam)->idFrom == IDC_TAB && ((NMHDR *)lparam)->code == TCN_SELCHANGE)
            show_page(self, (int)SendDlgItemMessageW(window, IDC_TAB, TCM_GETCURSEL, 0, 0));
        return TRUE;
    case WM_CLOSE:
        if (IsWindowEnabled(window)) /* else a message box is open */
            on_cancel(self);
        return TRUE;
    case WM_APP_IO_ERROR:
        ui_io_error(window, (DWORD)wparam);
        return TRUE;
    case WM_DESTROY:
        on_destroy(self);
        return TRUE;
    }
    return FALSE;
}

BOOL patient_form_register(void)
{
    return ui_register_dialog(app_instance, PATIENT_CLASS);
}

static BOOL is_held(const WCHAR *number)
{
    const PatientForm *form;
    for (form = all_forms; form; form = form->next)
        if (!form->read_only && wcscmp(form->number, number) == 0)
            return TRUE;
    return FALSE;
}

static int open_forms(HWND main)
{
    const PatientForm *form;
    int count = 0;
    for (form = all_forms; form; form = form->next)
        if (form->main == main)
            ++count;
    return count;
}

void patient_form_open(HWND main, const WCHAR *number)
{
    PatientForm *self = calloc(1, sizeof *self);
    int step = open_forms(main);
    if (!self) {
        ui_io_error(main, ERROR_NOT_ENOUGH_MEMORY);
        return;
    }
    self->main = main;
    if (number) {
        if (!patient_load(number, &self->original)) {
            ui_io_error(main, GetLastError());
            free(self);
            return;
        }
        lstrcpynW(self->number, number, NUMBER_CCH);
        self->read_only = is_held(number);
    }
    self->next = all_forms;
    all_forms = self;
    if (!CreateDialogParamW(app_instance, MAKEINTRESOURCEW(IDD_PATIENT), main, form_procedure, (LPARAM)self)) {
        DWORD error = GetLastError();
        all_forms = self->next;
        free(self);
        ui_io_error(main, error);
        return;
    }
    ui_attach_keys(self->window, app_instance, IDA_PATIENT);
    ui_place(self->window, main, step);
    ShowWindow(self->window, SW_SHOW);
    if (self->read_only)
        ui_message(self->window, L"Datensatz gesperrt", L"Der Datensatz wird in einem anderen Fenster bearbeitet.",
                   MB_OK | MB_ICONINFORMATION);
}

BOOL patient_form_any_changed(HWND main)
{
    const PatientForm *form;
    for (form = all_forms; form; form = form->next)
        if ((!main || form->main == main) && has_changes(form))
            return TRUE;
    return FALSE;
}

void patient_form_close_all(HWND main)
{
    PatientForm *form = all_forms;
    while (form) {
        PatientForm *next = form->next;
        if (!main || form->main == main)
            close_form(form);
        form = next;
    }
}

/* From the list's end to its beginning: the oldest form first, the newest comes to lie on top. */
static void raise_forms(const PatientForm *form, HWND main)
{
    const UINT flags = SWP_NOMOVE | SWP_NOSIZE | SWP_NOACTIVATE;
    if (!form)
        return;
    raise_forms(form->next, main);
    if (form->main != main)
        return;
    /* There and back: Wine does not pass HWND_TOP on for a window it already believes to be on top. */
    SetWindowPos(form->window, HWND_TOPMOST, 0, 0, 0, 0, flags);
    SetWindowPos(form->window, HWND_NOTOPMOST, 0, 0, 0, 0, flags);
}

void patient_form_raise_all(HWND main)
{
    raise_forms(all_forms, main);
}
