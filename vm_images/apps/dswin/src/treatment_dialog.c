/* "Leistung erfassen": one treatment of one patient. */
#include <windows.h>

#include <stdlib.h>
#include <wchar.h>

#include "app.h"
#include "log.h"
#include "resource.h"
#include "ui.h"

#define FIELD_CCH 32
#define WM_APP_CODE_LEFT (WM_APP + 1)
#define MAX_QUANTITY 999
#define MAX_FACTOR 9999        /* 99,99 */
#define MAX_AMOUNT 999999999LL /* 9999999,99: the width of BETRAG */

typedef struct {
    HWND window;
    Patient patient;
    UiDisabled disabled;
    BOOL known; /* `item` is what the code field names */
    CatalogItem item;
} TreatmentDialog;

static TreatmentDialog *self_of(HWND window)
{
    return (TreatmentDialog *)GetWindowLongPtrW(window, DWLP_USER);
}

static void close_dialog(TreatmentDialog *self)
{
    ui_enable_others(&self->disabled); /* before this window goes, so that its owner becomes the active one */
    DestroyWindow(self->window);
}

static void show_money(const TreatmentDialog *self, int control, BOOL valid, LONGLONG cents)
{
    WCHAR text[FIELD_CCH] = L"";
    if (valid)
        decimal_show(cents, 2, L',', text, FIELD_CCH);
    SetDlgItemTextW(self->window, control, text);
}

static BOOL read_number(const TreatmentDialog *self, int control, int decimals, LONGLONG most, LONGLONG *value)
{
    WCHAR text[FIELD_CCH];
    ui_get_text(self->window, control, text, FIELD_CCH);
    return decimal_parse(text, decimals, value) && *value >= 1 && *value <= most;
}

/* Price x quantity x factor, rounded to cents (half up). FALSE as long as something is missing. */
static BOOL compute(const TreatmentDialog *self, Treatment *treatment)
{
    if (!self->known || !read_number(self, IDC_L_ANZAHL, 0, MAX_QUANTITY, &treatment->quantity) ||
        !read_number(self, IDC_L_FAKTOR, 2, MAX_FACTOR, &treatment->factor))
        return FALSE;
    treatment->amount = (self->item.price * treatment->quantity * treatment->factor + 50) / 100;
    return treatment->amount <= MAX_AMOUNT;
}

static void show_amount(const TreatmentDialog *self)
{
    Treatment treatment;
    BOOL valid = compute(self, &treatment);
    show_money(self, IDC_L_BETRAG, valid, valid ? treatment.amount : 0);
}

/* Looks the typed code up and shows what it stands for. The error is ERROR_NOT_FOUND for a code that is not in KATALOG,
 * ERROR_SUCCESS for an empty field as well. */
static DWORD look_up(TreatmentDialog *self)
{
    WCHAR code[FIELD_CCH];
    DWORD error = ERROR_SUCCESS;
    ui_get_text(self->window, IDC_L_ZIFFER, code, FIELD_CCH);
    self->known = code[0] && catalog_find(code, &self->item);
    if (code[0] && !self->known)
        error = GetLastError();
    SetDlgItemTextW(self->window, IDC_L_TEXT, self->known ? self->item.text : L"");
    show_money(self, IDC_L_PREIS, self->known, self->item.price);
    show_amount(self);
    return error;
}

static void focus(const TreatmentDialog *self, int control)
{
    SendMessageW(self->window, WM_NEXTDLGCTL, (WPARAM)GetDlgItem(self->window, control), TRUE);
}

static void report_code(TreatmentDialog *self, DWORD error)
{
    WCHAR code[FIELD_CCH], text[96];
    if (error == ERROR_NOT_FOUND) {
        ui_get_text(self->window, IDC_L_ZIFFER, code, FIELD_CCH);
        text_format(text, 96, L"Die Ziffer %ls ist nicht im Katalog.", code);
        ui_message(self->window, L"Unbekannte Ziffer", text, MB_OK | MB_ICONWARNING);
    } else {
        ui_io_error(self->window, error);
    }
    focus(self, IDC_L_ZIFFER);
}

/* After the code field was left. Nothing is said when it was left for Abbrechen or for another window. */
static void on_code_left(TreatmentDialog *self)
{
    DWORD error = look_up(self);
    HWND next = GetFocus();
    if (error != ERROR_SUCCESS && next && IsChild(self->window, next) && GetDlgCtrlID(next) != IDCANCEL &&
        GetDlgCtrlID(next) != IDOK) /* Speichern looks it up itself */
        report_code(self, error);
}

static BOOL reject(TreatmentDialog *self, int control, const WCHAR *text)
{
    ui_message(self->window, L"Eingabe prüfen", text, MB_OK | MB_ICONWARNING);
    focus(self, control);
    return FALSE;
}

/* Reads the fields into `treatment`; says what is wrong otherwise. */
static BOOL collect(TreatmentDialog *self, Treatment *treatment)
{
    WCHAR shown[FIELD_CCH];
    DWORD error;
    lstrcpynW(treatment->patient, self->patient.value[P_PATNR], NUMBER_CCH);
    ui_get_text(self->window, IDC_L_DATUM, shown, FIELD_CCH);
    if (!date_parse(shown, treatment->date))
        return reject(self, IDC_L_DATUM, L"Das Datum ist ungültig (TT.MM.JJJJ).");
    ui_get_text(self->window, IDC_L_ZAHN, treatment->tooth, 3);
    error = look_up(self);
    if (error != ERROR_SUCCESS) {
        report_code(self, error);
        return FALSE;
    }
    if (!self->known)
        return reject(self, IDC_L_ZIFFER, L"Bitte eine Ziffer eingeben.");
    lstrcpynW(treatment->code, self->item.code, 7);
    if (!read_number(self, IDC_L_ANZAHL, 0, MAX_QUANTITY, &treatment->quantity))
        return reject(self, IDC_L_ANZAHL, L"Die Anzahl muss zwischen 1 und 999 liegen.");
    if (!read_number(self, IDC_L_FAKTOR, 2, MAX_FACTOR, &treatment->factor))
        return reject(self, IDC_L_FAKTOR, L"Der Faktor muss zwischen 0,01 und 99,99 liegen.");
    if (!compute(self, treatment))
        return reject(self, IDC_L_ANZAHL, L"Der Betrag ist zu groß.");
    return TRUE;
}

static void on_save(TreatmentDialog *self)
{
    Treatment treatment;
    if (!collect(self, &treatment))
        return;
    if (!treatment_append(&treatment)) {
        ui_io_error(self->window, GetLastError());
        return;
    }
    log_line(L"Leistung %ls fuer Patient %ls gespeichert", treatment.number, treatment.patient);
    close_dialog(self);
    main_refresh_all(NULL, NULL);
}

static void on_init(TreatmentDialog *self)
{
    static const struct {
        int control, limit;
    } LIMITS[] = {{IDC_L_DATUM, 10}, {IDC_L_ZAHN, 2}, {IDC_L_ZIFFER, 6}, {IDC_L_ANZAHL, 3}, {IDC_L_FAKTOR, 5}};
    WCHAR name[2 * VALUE_CCH], title[128], today[DATE_CCH], shown[SHOWN_DATE_CCH];
    size_t i;
    patient_display_name(&self->patient, name, 2 * VALUE_CCH);
    text_format(title, 128, L"Leistung erfassen - %ls", name);
    SetWindowTextW(self->window, title);
    for (i = 0; i < sizeof LIMITS / sizeof *LIMITS; ++i)
        SendDlgItemMessageW(self->window, LIMITS[i].control, EM_LIMITTEXT, (WPARAM)LIMITS[i].limit, 0);
    date_today(today);
    date_show(today, shown);
    SetDlgItemTextW(self->window, IDC_L_DATUM, shown);
    SetDlgItemTextW(self->window, IDC_L_ANZAHL, L"1");
    SetDlgItemTextW(self->window, IDC_L_FAKTOR, L"1,00");
}

static void on_command(TreatmentDialog *self, int identifier, int notification)
{
    switch (identifier) {
    case IDOK:
        on_save(self);
        break;
    case IDCANCEL:
        close_dialog(self);
        break;
    case IDC_L_ZIFFER:
        if (notification == EN_KILLFOCUS) /* posted: no box while the focus is moving */
            PostMessageW(self->window, WM_APP_CODE_LEFT, 0, 0);
        break;
    case IDC_L_ANZAHL:
    case IDC_L_FAKTOR:
        if (notification == EN_CHANGE)
            show_amount(self);
        break;
    }
}

static INT_PTR CALLBACK treatment_procedure(HWND window, UINT message, WPARAM wparam, LPARAM lparam)
{
    TreatmentDialog *self = self_of(window);
    if (message == WM_INITDIALOG) {
        self = (TreatmentDialog *)lparam;
        self->window = window;
        SetWindowLongPtrW(window, DWLP_USER, (LONG_PTR)self);
        on_init(self);
        return TRUE;
    }
    if (!self)
        return FALSE;
    switch (message) {
    case WM_COMMAND:
        on_command(self, LOWORD(wparam), HIWORD(wparam));
        return TRUE;
    case WM_APP_CODE_LEFT:
        on_code_left(self);
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

BOOL treatment_dialog_register(void)
{
    return ui_register_dialog(app_instance, TREATMENT_CLASS);
}

void treatment_dialog_open(HWND main, const Patient *patient)
{
    TreatmentDialog *self = calloc(1, sizeof *self);
    HWND window;
    if (!self) {
        ui_io_error(main, ERROR_NOT_ENOUGH_MEMORY);
        return;
    }
    self->patient = *patient;
    window = CreateDialogParamW(app_instance, MAKEINTRESOURCEW(IDD_LEISTUNG), main, treatment_procedure, (LPARAM)self);
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
