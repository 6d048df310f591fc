/*
 * lpprobe: reads the state of a Windows machine and writes it as JSON lines. Its reading commands write nothing but
 * the answer; `run`, `start` and `put` act. README.md beside this file is the normative description of commands,
 * records and bounds.
 *
 * Everything newer than Windows XP SP2 is looked up at run time; only msvcrt, kernel32, user32 and advapi32 are
 * imported, so one file runs from XP to 11 with nothing to install.
 */
#ifndef LPPROBE_H
#define LPPROBE_H

#define WIN32_LEAN_AND_MEAN
#include <windows.h>

#include <stddef.h>
#include <stdint.h>

#define PROBE_VERSION 1

/* Faults that Windows has no code for; bit 29 marks a code as the application's own (see SetLastError). */
#define FAULT_CHANGED 0x20000001u   /* the thing changed while it was being read */
#define FAULT_BOUND 0x20000002u     /* one of the bounds was reached */
#define FAULT_USAGE 0x20000003u     /* the request itself is wrong */
#define FAULT_NOT_A_FILE 0x20000004u
#define FAULT_ENCODING 0x20000005u  /* a line of a list is not UTF-8 */
#define FAULT_SESSION 0x20000006u   /* it needs the user's session, and that was not to be had */
#define FAULT_RESULT_LOST 0x20000007u /* begun with this token before, by a probe that did not live to tell */
#define FAULT_NO_DRIVE 0x20000008u  /* not even the drive is there; what lies on it may well be, for others */

#define MAX_PATH_CHARS 32766u       /* the longest path that \\?\ reaches */
#define MAX_LINE_BYTES 65536u       /* a request line of `serve` */
#define MAX_ARGUMENTS 4096u
#define MAX_ID_CHARS 128u

/* ---- sha256.c ---------------------------------------------------------------------------------------------- */

typedef struct {
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
    size_t fill;
} Sha256;

void sha256_init(Sha256 *sha);
void sha256_update(Sha256 *sha, const void *data, size_t size);
void sha256_hex(Sha256 *sha, char hex[65]);

/* ---- out.c: one answer, written record by record ------------------------------------------------------------- */

typedef enum { STATUS_OK_, STATUS_TRUNCATED, STATUS_ERROR, STATUS_USAGE } Status;

typedef struct {
    HANDLE to;
    BOOL broken;            /* nobody reads any more */
    const WCHAR *spill;     /* where an answer goes that grows beyond SPILL_BYTES; NULL: nowhere */
    char *held;             /* the answer as long as it is small enough */
    size_t held_bytes;
    Sha256 spilt;
    uint64_t spilt_bytes;
    char *line;             /* the record being built */
    size_t used, room;
    BOOL first;             /* no member written yet: the next one needs no comma */
    BOOL lost;              /* memory ran out within this record */
    char *buffer;           /* finished lines waiting for one WriteFile */
    size_t waiting;
    Sha256 digest;          /* over the finished records: not the header, not the end */
    uint64_t count, bytes;
    uint64_t max_count, max_bytes;
    Status status;
    DWORD code;
    WCHAR message[256];
    LARGE_INTEGER started;
} Out;

BOOL out_init(Out *out, HANDLE to);
void out_begin(Out *out);                                   /* resets the counters for one answer */
void out_header_done(Out *out);                             /* writes the record as header: counted nowhere */
void out_end(Out *out, const WCHAR *id);                    /* writes the end record and flushes */
void out_pass(Out *out, const char *data, size_t size);     /* another probe's answer, as it is */
BOOL out_spill_to(Out *out, const WCHAR *path);             /* before the answer begins */
void out_spill_done(Out *out);                              /* after its end: sends what is held, or tells where it lies */
BOOL out_stopped(const Out *out);                           /* no further record will be written */
void out_stop(Out *out, Status status, DWORD code, const WCHAR *message); /* the first reason wins */

void rec_begin(Out *out, const char *kind);
BOOL rec_end(Out *out);                                     /* FALSE: a bound was reached, stop */
void rec_uint(Out *out, const char *name, uint64_t value);
void rec_int(Out *out, const char *name, int64_t value);
void rec_bool(Out *out, const char *name, BOOL value);
void rec_null(Out *out, const char *name);
void rec_ascii(Out *out, const char *name, const char *value);
void rec_text(Out *out, const char *name, const WCHAR *value); /* NULL is null */
void rec_text_n(Out *out, const char *name, const WCHAR *value, size_t length);
void rec_base64(Out *out, const char *name, const void *data, size_t size);
void rec_time(Out *out, const char *name, const FILETIME *time);
void rec_strings(Out *out, int count, WCHAR **texts);       /* a line that is a list of strings, not a record */
void rec_rect(Out *out, const char *name, const RECT *rect);
void rec_open(Out *out, const char *name, char bracket);    /* '[' or '{' as the value; name NULL within a list */
void rec_close(Out *out, char bracket);
/* A fault of one entry; root < 0 where it belongs to none. message NULL: the system's text for the code. */
BOOL rec_fault(Out *out, int root, const WCHAR *path, const char *op, DWORD code, const WCHAR *message);

/* ---- util.c ------------------------------------------------------------------------------------------------ */

void *proc_address(const WCHAR *module, const char *name);
void system_message(DWORD code, WCHAR *text, size_t room);
/* UTF-8, lone surrogates allowed (WTF-8), to UTF-16. Answers the length or -1; the result is terminated. */
ptrdiff_t utf8_to_wide(const char *text, size_t size, WCHAR *wide, size_t room);
BOOL parse_uint(const WCHAR *text, uint64_t most, uint64_t *value);
/* An absolute path with the \\?\ prefix, allocated; NULL and the last error set if it is none that may be read. */
WCHAR *long_path(const WCHAR *path);
const WCHAR *plain_path(WCHAR *path);                       /* undoes the prefix in place; restore_path puts it back */
void restore_path(WCHAR *path);
BOOL no_drive(const WCHAR *path);                           /* an absolute path on a drive that this process has not */
uint64_t filetime(const FILETIME *time);

/* ---- requests ---------------------------------------------------------------------------------------------- */

typedef struct {
    const WCHAR *command;
    const WCHAR *id;
    BOOL hash, streams, exact, listing, flat, children;
    uint64_t max_entries, max_depth, max_bytes, max_read, max_windows, timeout_ms, view, limit, wait_ms;
    const WCHAR *list, *session, *token, *cwd, *sha256;
    int argc;
    WCHAR **argv;           /* what is left: roots, paths, keys */
    BOOL resident;          /* under `serve`: standard input is not for the command */
} Request;

void header_fields(Out *out);                               /* system.c */
void header_session(Out *out, const WCHAR *desktop, const WCHAR *input_desktop); /* session.c */
const char *screen_state(const WCHAR *desktop, const WCHAR *input_desktop);
BOOL in_service_session(void);
/* Has the request answered by a probe in the user's session. FALSE: it was not, and `out` is stopped with the reason. */
BOOL relay_request(Out *out, int argc, WCHAR **argv, BOOL elevated, DWORD most_ms, Status *status);
WCHAR *process_path(DWORD pid);                             /* allocated; NULL if it cannot be learned */
BOOL process_name(DWORD pid, WCHAR *name, size_t room);     /* by Toolhelp, needs no right to open the process */

void run_processes(Out *out, const Request *request);
void run_files(Out *out, const Request *request);
void run_hash(Out *out, const Request *request);
void run_read(Out *out, const Request *request);
void run_registry(Out *out, const Request *request);
void run_windows(Out *out, const Request *request);
void run_run(Out *out, const Request *request);
void run_start(Out *out, const Request *request);
void run_put(Out *out, const Request *request);

#endif
