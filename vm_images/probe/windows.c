/* Top-level windows and their controls. No program, however frozen, may hold the probe up. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_CHARS_MOST 32768u      /* 64 KiB of UTF-16 */
#define TEXT_CHARS_FIRST 2048u      /* nearly every text fits: one message instead of two */
#define CONTROLS_MOST 10000u        /* of one window */
#define BUDGET_MS 20000u            /* of the whole answer */

typedef struct {
    HWND *handles;
    size_t count, most;
    BOOL overflow;
} HandleList;

typedef struct {
    DWORD pid;
    WCHAR *path;
    WCHAR name[MAX_PATH];
} Program;

typedef struct {
    DWORD id;
    BOOL hung;              /* let a message time out: it is not asked twice */
    BOOL asked;             /* whether it is hung has been found out as far as a hidden window allows */
    BOOL answered;          /* to WM_NULL */
    HWND focus;
} Thread;

typedef struct {
    Out *out;
    const Request *request;
    DWORD began;
    HWND foreground;
    WCHAR *text;
    Thread *threads;
    size_t thread_count;
    Program *programs;      /* as many as windows at most */
    size_t program_count;
    size_t thread_most;
} Look;

static BOOL CALLBACK collect(HWND window, LPARAM parameter)
{
    HandleList *list = (HandleList *)parameter;

    if (list->count >= list->most) {
        list->overflow = TRUE;
        return FALSE;
    }
    list->handles[list->count++] = window;
    return TRUE;
}

static uint64_t number(HWND window)
{
    return (uint32_t)(uintptr_t)window; /* handles have 32 significant bits, in 64-bit programs as well */
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

static Thread *thread_of(Look *look, DWORD id)
{
    GUITHREADINFO gui = {.cbSize = sizeof gui};

    for (size_t i = 0; i < look->thread_count; i++)
        if (look->threads[i].id == id)
            return &look->threads[i];
    if (look->thread_count >= look->thread_most) {
        out_stop(look->out, STATUS_TRUNCATED, FAULT_BOUND, L"too many threads with windows");
        return NULL;
    }
    Thread *thread = &look->threads[look->thread_count++];
    memset(thread, 0, sizeof *thread);
    thread->id = id;
    if (GetGUIThreadInfo(id, &gui))
        thread->focus = gui.hwndFocus;
    return thread;
}

/* 0, or why there is no answer: ERROR_TIMEOUT for a thread that hangs. */
static DWORD ask(Look *look, Thread *thread, HWND window, UINT message, WPARAM wparam, LPARAM lparam, DWORD_PTR *answer)
{
    if (thread->hung)
        return ERROR_TIMEOUT;
    *answer = 0;
    SetLastError(0);
    if (SendMessageTimeoutW(window, message, wparam, lparam, SMTO_ABORTIFHUNG | SMTO_BLOCK,
                            (UINT)look->request->timeout_ms, answer))
        return 0;
    DWORD code = GetLastError();
    /* Windows XP leaves 0 there after a time-out. */
    if (code != 0 && code != ERROR_TIMEOUT)
        return code;
    thread->hung = TRUE;
    return ERROR_TIMEOUT;
}

/* Only a visible window's thread is sent a message: hidden ones often belong to threads that never fetch any. */
static BOOL is_hung(Look *look, HWND window, Thread *thread, BOOL visible)
{
    DWORD_PTR answer;

    if (!thread->asked) {
        thread->asked = TRUE;
        thread->hung = IsHungAppWindow(window);
    }
    if (visible && !thread->hung && !thread->answered)
        thread->answered = ask(look, thread, window, WM_NULL, 0, 0, &answer) == 0;
    return thread->hung;
}

/* ---- programs -------------------------------------------------------------------------------------------------- */

static const Program *program_of(Look *look, DWORD pid)
{
    for (size_t i = 0; i < look->program_count; i++)
        if (look->programs[i].pid == pid)
            return &look->programs[i];
    Program *program = &look->programs[look->program_count++];
    program->pid = pid;
    program->name[0] = 0;
    program->path = process_path(pid);
    if (program->path) {
        const WCHAR *last = wcsrchr(program->path, L'\\');
        lstrcpynW(program->name, last ? last + 1 : program->path, MAX_PATH);
    } else {
        process_name(pid, program->name, MAX_PATH);
    }
    return program;
}

/* ---- controls -------------------------------------------------------------------------------------------------- */

typedef enum { PLAIN, EDIT, BUTTON, LIST_BOX, COMBO_BOX } ControlKind;

/* The class that a control was derived from: Delphi's TEdit is an EDIT. Frameworks that derive anew only look alike. */
static ControlKind control_kind(HWND control, const WCHAR *class_name)
{
    WCHAR base[64] = L"", lower[256];

    RealGetWindowClassW(control, base, ARRAYSIZE(base));
    if (lstrcmpiW(base, L"Button") == 0)
        return BUTTON;
    if (lstrcmpiW(base, L"ListBox") == 0)
        return LIST_BOX;
    if (lstrcmpiW(base, L"ComboBox") == 0)
        return COMBO_BOX;
    lstrcpynW(lower, class_name, ARRAYSIZE(lower));
    CharLowerW(lower);
    if (lstrcmpiW(base, L"Edit") == 0 || wcsstr(lower, L"edit") || wcsstr(lower, L"textbox"))
        return EDIT;
    return PLAIN;
}

static BOOL is_checkable(LONG style)
{
    switch (style & 0xF) {
    case BS_CHECKBOX:
    case BS_AUTOCHECKBOX:
    case BS_RADIOBUTTON:
    case BS_3STATE:
    case BS_AUTO3STATE:
    case BS_AUTORADIOBUTTON:
        return TRUE;
    default:
        return FALSE;
    }
}

/* A text into look->text. Its length is counted here: windows lie about it, ANSI ones by necessity. */
static DWORD get_text(Look *look, HWND control, Thread *thread, WPARAM room, size_t *length)
{
    DWORD_PTR answer;

    look->text[0] = 0;
    DWORD code = ask(look, thread, control, WM_GETTEXT, room, (LPARAM)look->text, &answer);
    look->text[room - 1] = 0;
    *length = (size_t)lstrlenW(look->text);
    return code;
}

/* Writes text, and its whole length where the bound cut it; or null and why. */
static void rec_control_text(Look *look, HWND control, Thread *thread)
{
    Out *out = look->out;
    DWORD_PTR whole = 0;
    size_t length;
    DWORD code = get_text(look, control, thread, TEXT_CHARS_FIRST, &length);

    if (!code && length == TEXT_CHARS_FIRST - 1) {
        code = ask(look, thread, control, WM_GETTEXTLENGTH, 0, 0, &whole);
        if (!code)
            code = get_text(look, control, thread, TEXT_CHARS_MOST, &length);
    }
    if (code) {
        rec_null(out, "text");
        rec_uint(out, "error", code);
        return;
    }
    rec_text_n(out, "text", look->text, length);
    if (length == TEXT_CHARS_MOST - 1 && whole > length)
        rec_uint(out, "text_length", whole);
}

/* The choice of a list with strings and one choice; a combo box's text is its choice already. */
static void rec_selection(Look *look, HWND control, Thread *thread, LONG style, BOOL combo)
{
    Out *out = look->out;
    DWORD_PTR index, length, got;

    if (!combo && style & (LBS_MULTIPLESEL | LBS_EXTENDEDSEL))
        return;
    if (ask(look, thread, control, combo ? CB_GETCURSEL : LB_GETCURSEL, 0, 0, &index))
        return;
    rec_int(out, "selected", (int32_t)index);
    if (combo || (int32_t)index < 0 || (style & (LBS_OWNERDRAWFIXED | LBS_OWNERDRAWVARIABLE) && !(style & LBS_HASSTRINGS)))
        return;
    /* LB_GETTEXT takes no size: ask first, and only for what leaves the buffer far from full. */
    if (ask(look, thread, control, LB_GETTEXTLEN, index, 0, &length) || (int32_t)length < 0 || length > TEXT_CHARS_MOST / 4)
        return;
    look->text[0] = 0;
    if (!ask(look, thread, control, LB_GETTEXT, index, (LPARAM)look->text, &got) && (int32_t)got >= 0) {
        look->text[TEXT_CHARS_MOST] = 0;
        rec_text(out, "selected_text", look->text);
    }
}

static BOOL write_control(Look *look, HWND window, HWND control)
{
    Out *out = look->out;
    WCHAR class_name[256] = L"";
    RECT rect;
    DWORD id = GetWindowThreadProcessId(control, NULL);
    LONG style = GetWindowLongW(control, GWL_STYLE);
    DWORD_PTR checked;

    if (!id || !GetWindowRect(control, &rect))
        return TRUE; /* gone since it was listed: it is not there */
    Thread *thread = thread_of(look, id);
    if (!thread)
        return FALSE;
    GetClassNameW(control, class_name, ARRAYSIZE(class_name));
    ControlKind kind = control_kind(control, class_name);

    rec_begin(out, "control");
    rec_uint(out, "window", number(window));
    rec_uint(out, "hwnd", number(control));
    rec_uint(out, "parent", number(GetAncestor(control, GA_PARENT)));
    rec_int(out, "id", GetDlgCtrlID(control));
    rec_text(out, "class", class_name);
    rec_bool(out, "visible", style & WS_VISIBLE && IsWindowVisible(control));
    rec_bool(out, "enabled", !(style & WS_DISABLED));
    rec_rect(out, "rect", &rect);
    rec_uint(out, "style", (uint32_t)style);
    if (kind == EDIT && style & ES_PASSWORD) {
        rec_null(out, "text");
        rec_bool(out, "password", TRUE);
    } else {
        rec_control_text(look, control, thread);
        if (kind == BUTTON && is_checkable(style) && !ask(look, thread, control, BM_GETCHECK, 0, 0, &checked) && checked <= 2)
            rec_uint(out, "checked", checked);
        if (kind == LIST_BOX || kind == COMBO_BOX)
            rec_selection(look, control, thread, style, kind == COMBO_BOX);
    }
    if (!IsWindow(control))
        return TRUE; /* went while it was being read */
    return rec_end(out);
}

static BOOL in_time(Look *look)
{
    if (GetTickCount() - look->began < BUDGET_MS)
        return TRUE;
    out_stop(look->out, STATUS_TRUNCATED, FAULT_BOUND, L"time for windows used up");
    return FALSE;
}

static BOOL write_controls(Look *look, HWND window)
{
    HandleList list = {malloc(CONTROLS_MOST * sizeof(HWND)), 0, CONTROLS_MOST, FALSE};
    BOOL go_on = TRUE;

    if (!list.handles) {
        out_stop(look->out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
        return FALSE;
    }
    EnumChildWindows(window, collect, (LPARAM)&list);
    if (list.overflow) {
        out_stop(look->out, STATUS_TRUNCATED, FAULT_BOUND, L"too many controls in one window");
        go_on = FALSE;
    }
    for (size_t i = 0; go_on && i < list.count; i++)
        go_on = in_time(look) && write_control(look, window, list.handles[i]);
    free(list.handles);
    return go_on;
}

/* ---- windows --------------------------------------------------------------------------------------------------- */

static BOOL write_window(Look *look, HWND window, DWORD pid, DWORD thread_id, uint64_t z)
{
    Out *out = look->out;
    WCHAR class_name[256] = L"";
    RECT rect;
    LONG style = GetWindowLongW(window, GWL_STYLE);
    /* A top-level window has no parent that could hide it, so its own bits say all. */
    BOOL visible = (style & WS_VISIBLE) != 0;

    if (!GetWindowRect(window, &rect))
        return TRUE; /* gone since it was listed */
    Thread *thread = thread_of(look, thread_id);
    const Program *program = program_of(look, pid);
    if (!thread || !program)
        return FALSE;
    BOOL hung = is_hung(look, window, thread, visible);
    HWND owner = GetWindow(window, GW_OWNER);

    /* The text that the system keeps itself: asking the window could block. */
    int title = InternalGetWindowText(window, look->text, (int)TEXT_CHARS_MOST);
    look->text[title > 0 ? title : 0] = 0;
    GetClassNameW(window, class_name, ARRAYSIZE(class_name));

    rec_begin(out, "window");
    rec_uint(out, "hwnd", number(window));
    rec_uint(out, "pid", pid);
    rec_uint(out, "tid", thread_id);
    rec_text(out, "exe", program->name[0] ? program->name : NULL);
    rec_text(out, "path", program->path);
    rec_text(out, "class", class_name);
    rec_text(out, "title", look->text);
    rec_bool(out, "visible", visible);
    rec_bool(out, "enabled", !(style & WS_DISABLED));
    rec_bool(out, "minimised", (style & WS_MINIMIZE) != 0);
    rec_bool(out, "hung", hung);
    rec_uint(out, "owner", number(owner));
    rec_rect(out, "rect", &rect);
    rec_uint(out, "z", z);
    rec_uint(out, "style", (uint32_t)style);
    rec_uint(out, "exstyle", (uint32_t)GetWindowLongW(window, GWL_EXSTYLE));
    rec_bool(out, "foreground", window == look->foreground);
    rec_uint(out, "focus", number(thread->focus));
    rec_bool(out, "modal", owner && !IsWindowEnabled(owner));
    if (!IsWindow(window))
        return TRUE;
    return rec_end(out) && (!look->request->children || !visible || write_controls(look, window));
}

/* Coordinates of the real screen, which is what a remote display shows: not those scaled for old programs. */
static void see_real_pixels(void)
{
    typedef BOOL(WINAPI * ContextFn)(HANDLE);
    typedef BOOL(WINAPI * AwareFn)(void);
    static BOOL done;
    ContextFn set_context = (ContextFn)proc_address(L"user32.dll", "SetProcessDpiAwarenessContext");
    AwareFn set_aware = (AwareFn)proc_address(L"user32.dll", "SetProcessDPIAware");

    if (done)
        return;
    done = TRUE;
    /* -4 is DPI_AWARENESS_CONTEXT_PER_MONITOR_AWARE_V2 */
    if ((!set_context || !set_context((HANDLE)(intptr_t)-4)) && set_aware)
        set_aware();
}

void run_windows(Out *out, const Request *request)
{
    HandleList list = {NULL, 0, (size_t)request->max_windows, FALSE};
    Look look = {.out = out, .request = request, .began = GetTickCount()};
    DWORD own = GetCurrentProcessId();
    uint64_t z = 0;

    see_real_pixels();
    list.handles = malloc(list.most * sizeof *list.handles);
    look.text = malloc((TEXT_CHARS_MOST + 1) * sizeof *look.text);
    look.thread_most = list.most + 256; /* controls may have threads of their own */
    look.threads = malloc(look.thread_most * sizeof *look.threads);
    look.programs = malloc(list.most * sizeof *look.programs);
    if (!list.handles || !look.text || !look.threads || !look.programs) {
        out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
        goto done;
    }
    look.foreground = GetForegroundWindow();
    SetLastError(0);
    if (!EnumWindows(collect, (LPARAM)&list) && !list.overflow)
        out_stop(out, STATUS_ERROR, GetLastError(), NULL);
    if (list.overflow)
        out_stop(out, STATUS_TRUNCATED, FAULT_BOUND, L"max windows reached");
    for (size_t i = 0; i < list.count && !out_stopped(out) && in_time(&look); i++) {
        DWORD pid = 0, thread = GetWindowThreadProcessId(list.handles[i], &pid);
        if (thread && pid != own && !write_window(&look, list.handles[i], pid, thread, z++))
            break;
    }
done:
    for (size_t i = 0; i < look.program_count; i++)
        free(look.programs[i].path);
    free(look.programs);
    free(look.threads);
    free(look.text);
    free(list.handles);
}
