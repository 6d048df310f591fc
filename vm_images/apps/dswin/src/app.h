/* The program's windows as they see each other. */
#ifndef DSWIN_APP_H
#define DSWIN_APP_H

#include <windows.h>

#include "practice.h"

#define MAIN_CLASS L"DSWinMain"
#define MAIN_TITLE L"DSWin - Patientenliste"
#define PATIENT_CLASS L"DSWinPatient"
#define TREATMENT_CLASS L"DSWinLeistung"
#define NOTE_CLASS L"DSWinDoku"

extern HINSTANCE app_instance;

/* Main windows (main_window.c) */
BOOL main_register(void);
BOOL main_open(void);
/* Reads the list anew in every main window. In `main` (may be NULL) also clears the search and selects the patient. */
void main_refresh_all(HWND main, const WCHAR *select_number);

/* Patient forms (patient_form.c); `number` NULL for a new patient. */
BOOL patient_form_register(void);
void patient_form_open(HWND main, const WCHAR *number);
/* Unsaved changes in the forms of a main window, NULL: of all. */
BOOL patient_form_any_changed(HWND main);
/* Closes the forms of a main window, NULL: all, without asking or saving. */
void patient_form_close_all(HWND main);
/* Puts a main window's forms above it, in the order they were opened, without activating them. */
void patient_form_raise_all(HWND main);

/* Modal windows (treatment_dialog.c, note_dialog.c) */
BOOL treatment_dialog_register(void);
void treatment_dialog_open(HWND main, const Patient *patient);
BOOL note_dialog_register(void);
void note_dialog_open(HWND main, const Patient *patient);

#endif
