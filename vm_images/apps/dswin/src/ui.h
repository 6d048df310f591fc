/* What all windows share: the message loop, keyboard handling, message boxes, modality. */
#ifndef DSWIN_UI_H
#define DSWIN_UI_H

#include <windows.h>

#define UI_MAX_WINDOWS 64

/* The top-level windows that were switched off to make another one modal. */
typedef struct {
    HWND windows[UI_MAX_WINDOWS];
    int count;
} UiDisabled;

/* Gives a top-level window dialog keys (Tab, Enter, Esc, Alt+letter) and the shortcuts of an accelerator table. */
void ui_attach_keys(HWND window, HINSTANCE instance, int accelerators);

/* Runs until PostQuitMessage; returns its exit code. */
int ui_run(void);

/* Switches off all other visible windows of the program / switches them on again. */
void ui_disable_others(HWND window, UiDisabled *disabled);
void ui_enable_others(const UiDisabled *disabled);

/* MessageBoxW owned by `owner`; the program's other windows wait as well. */
int ui_message(HWND owner, const WCHAR *title, const WCHAR *text, UINT flags);

/* The box for a table that could not be read or written. */
void ui_io_error(HWND owner, DWORD error);

/* "Änderungen verwerfen?" */
BOOL ui_confirm_discard(HWND owner);

/* A control's text without the blanks around it. */
void ui_get_text(HWND window, int control, WCHAR *out, int cch);

/* Moves a dialog `step` places down and right from the upper left part of `owner`, but not off the screen. */
void ui_place(HWND window, HWND owner, int step);

/* Registers a dialog class with a name of its own. */
BOOL ui_register_dialog(HINSTANCE instance, const WCHAR *class_name);

#endif
