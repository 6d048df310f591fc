/* One answer: header, records, end. Lines are built whole, so a bound never leaves half a record behind. */
#include "lpprobe.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_BYTES 65536u
#define SPILL_BYTES (1u << 20) /* what one reply of a guest agent carries with ease, in base64 twice over */

BOOL out_init(Out *out, HANDLE to)
{
    memset(out, 0, sizeof *out);
    out->to = to;
    out->room = 4096;
    out->line = malloc(out->room);
    out->buffer = malloc(BUFFER_BYTES);
    return out->line && out->buffer;
}

static void write_through(Out *out, const char *data, size_t size)
{
    while (size && !out->broken) {
        DWORD part = size > 1u << 20 ? 1u << 20 : (DWORD)size, done = 0;
        /* Nothing written and no error is a reader that went away as well. */
        if (!WriteFile(out->to, data, part, &done, NULL) || !done)
            out->broken = TRUE;
        data += done, size -= done;
    }
}

/* Opens the spill file and moves there what is held: the answer is too large for the way back. */
static void begin_spill(Out *out)
{
    out->to = CreateFileW(out->spill, GENERIC_WRITE, FILE_SHARE_READ, NULL, CREATE_ALWAYS, FILE_ATTRIBUTE_NORMAL, NULL);
    if (out->to == INVALID_HANDLE_VALUE)
        out->broken = TRUE;
    char *held = out->held;
    out->held = NULL;
    sha256_update(&out->spilt, held, out->held_bytes);
    out->spilt_bytes = out->held_bytes;
    write_through(out, held, out->held_bytes);
    free(held);
}

static void write_all(Out *out, const char *data, size_t size)
{
    if (out->held && out->held_bytes + size <= SPILL_BYTES) {
        memcpy(out->held + out->held_bytes, data, size);
        out->held_bytes += size;
        return;
    }
    if (out->held)
        begin_spill(out);
    if (out->spill) {
        sha256_update(&out->spilt, data, size);
        out->spilt_bytes += size;
    }
    write_through(out, data, size);
}

BOOL out_spill_to(Out *out, const WCHAR *path)
{
    out->spill = path;
    sha256_init(&out->spilt);
    out->held = malloc(SPILL_BYTES);
    return out->held != NULL;
}

void out_spill_done(Out *out)
{
    char hex[65];

    if (out->held) {
        out->spill = NULL;
        char *held = out->held;
        out->held = NULL;
        write_through(out, held, out->held_bytes);
        free(held);
        return;
    }
    if (!FlushFileBuffers(out->to) || out->broken) {
        out->broken = TRUE;
        return;
    }
    CloseHandle(out->to);
    out->to = GetStdHandle(STD_OUTPUT_HANDLE);
    sha256_hex(&out->spilt, hex);
    rec_begin(out, "spilled");
    rec_text(out, "path", out->spill);
    rec_uint(out, "bytes", out->spilt_bytes);
    rec_ascii(out, "sha256", hex);
    rec_close(out, '}');
    write_through(out, out->line, out->used);
    write_through(out, "\n", 1);
}

static void flush(Out *out)
{
    write_all(out, out->buffer, out->waiting);
    out->waiting = 0;
}

static void send_line(Out *out)
{
    if (out->waiting + out->used > BUFFER_BYTES)
        flush(out);
    if (out->used > BUFFER_BYTES) {
        write_all(out, out->line, out->used);
        return;
    }
    memcpy(out->buffer + out->waiting, out->line, out->used);
    out->waiting += out->used;
}

void out_pass(Out *out, const char *data, size_t size)
{
    write_all(out, data, size);
}

void out_begin(Out *out)
{
    QueryPerformanceCounter(&out->started);
    sha256_init(&out->digest);
    out->count = out->bytes = 0;
    out->max_count = out->max_bytes = UINT64_MAX;
    out->status = STATUS_OK_;
    out->code = 0;
    out->message[0] = 0;
    out->lost = FALSE;
}

BOOL out_stopped(const Out *out)
{
    return out->broken || out->status != STATUS_OK_;
}

void out_stop(Out *out, Status status, DWORD code, const WCHAR *message)
{
    if (out->status != STATUS_OK_)
        return;
    out->status = status;
    out->code = code;
    if (message)
        lstrcpynW(out->message, message, ARRAYSIZE(out->message));
    else
        system_message(code, out->message, ARRAYSIZE(out->message));
}

/* ---- members --------------------------------------------------------------------------------------------- */

static char *reserve(Out *out, size_t more)
{
    if (out->used + more > out->room) {
        size_t room = out->room;
        while (room < out->used + more)
            room *= 2;
        char *line = out->lost ? NULL : realloc(out->line, room);
        if (!line) {
            out->lost = TRUE;
            return NULL;
        }
        out->line = line;
        out->room = room;
    }
    return out->line + out->used;
}

static void put(Out *out, const char *text, size_t size)
{
    char *to = reserve(out, size);
    if (to) {
        memcpy(to, text, size);
        out->used += size;
    }
}

static void put_name(Out *out, const char *name)
{
    if (!out->first)
        put(out, ",", 1);
    out->first = FALSE;
    if (name) {
        put(out, "\"", 1);
        put(out, name, strlen(name));
        put(out, "\":", 2);
    }
}

static void put_digits(Out *out, uint64_t value)
{
    char digits[20];
    size_t at = sizeof digits;
    do
        digits[--at] = (char)('0' + value % 10);
    while (value /= 10);
    put(out, digits + at, sizeof digits - at);
}

static void put_signed(Out *out, int64_t value)
{
    if (value < 0)
        put(out, "-", 1);
    put_digits(out, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
}

/* UTF-16 to a JSON string in UTF-8. A surrogate without its partner is written as an escape, so it is not lost. */
static void put_string(Out *out, const WCHAR *text, size_t length)
{
    static const char digits[] = "0123456789abcdef";
    char *start = reserve(out, length * 6 + 2), *to = start;

    if (!start)
        return;
    *to++ = '"';
    for (size_t i = 0; i < length; i++) {
        uint32_t c = text[i];
        if (c >= 0xD800 && c < 0xDC00 && i + 1 < length && text[i + 1] >= 0xDC00 && text[i + 1] < 0xE000) {
            c = 0x10000 + ((c - 0xD800) << 10) + (text[++i] - 0xDC00u);
            *to++ = (char)(0xF0 | c >> 18);
            *to++ = (char)(0x80 | (c >> 12 & 63));
            *to++ = (char)(0x80 | (c >> 6 & 63));
            *to++ = (char)(0x80 | (c & 63));
        } else if (c < 0x20 || (c >= 0xD800 && c < 0xE000)) {
            *to++ = '\\';
            *to++ = 'u';
            for (int shift = 12; shift >= 0; shift -= 4)
                *to++ = digits[c >> shift & 15];
        } else if (c < 0x80) {
            if (c == '"' || c == '\\')
                *to++ = '\\';
            *to++ = (char)c;
        } else if (c < 0x800) {
            *to++ = (char)(0xC0 | c >> 6);
            *to++ = (char)(0x80 | (c & 63));
        } else {
            *to++ = (char)(0xE0 | c >> 12);
            *to++ = (char)(0x80 | (c >> 6 & 63));
            *to++ = (char)(0x80 | (c & 63));
        }
    }
    *to++ = '"';
    out->used += (size_t)(to - start);
}

void rec_begin(Out *out, const char *kind)
{
    out->used = 0;
    out->lost = FALSE;
    out->first = TRUE;
    put(out, "{", 1);
    rec_ascii(out, "r", kind);
}

void rec_uint(Out *out, const char *name, uint64_t value)
{
    put_name(out, name);
    put_digits(out, value);
}

void rec_int(Out *out, const char *name, int64_t value)
{
    put_name(out, name);
    put_signed(out, value);
}

void rec_bool(Out *out, const char *name, BOOL value)
{
    put_name(out, name);
    put(out, value ? "true" : "false", value ? 4 : 5);
}

void rec_null(Out *out, const char *name)
{
    put_name(out, name);
    put(out, "null", 4);
}

void rec_ascii(Out *out, const char *name, const char *value)
{
    put_name(out, name);
    put(out, "\"", 1);
    put(out, value, strlen(value));
    put(out, "\"", 1);
}

void rec_text_n(Out *out, const char *name, const WCHAR *value, size_t length)
{
    put_name(out, name);
    put_string(out, value, length);
}

void rec_text(Out *out, const char *name, const WCHAR *value)
{
    if (value)
        rec_text_n(out, name, value, (size_t)lstrlenW(value));
    else
        rec_null(out, name);
}

void rec_base64(Out *out, const char *name, const void *data, size_t size)
{
    static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint8_t *from = data;

    put_name(out, name);
    char *start = reserve(out, (size + 2) / 3 * 4 + 2), *to = start;
    if (!start)
        return;
    *to++ = '"';
    for (; size; from += 3) {
        uint32_t three = (uint32_t)from[0] << 16 | (size > 1 ? (uint32_t)from[1] << 8 : 0) | (size > 2 ? from[2] : 0);
        *to++ = alphabet[three >> 18];
        *to++ = alphabet[three >> 12 & 63];
        *to++ = size > 1 ? alphabet[three >> 6 & 63] : '=';
        *to++ = size > 2 ? alphabet[three & 63] : '=';
        size -= size > 3 ? 3 : size;
    }
    *to++ = '"';
    out->used += (size_t)(to - start);
}

void rec_time(Out *out, const char *name, const FILETIME *time)
{
    rec_uint(out, name, filetime(time));
}

void rec_strings(Out *out, int count, WCHAR **texts)
{
    out->used = 0;
    out->lost = FALSE;
    out->first = TRUE;
    put(out, "[", 1);
    for (int i = 0; i < count; i++)
        rec_text_n(out, NULL, texts[i], (size_t)lstrlenW(texts[i]));
    put(out, "]\n", 2);
}

void rec_rect(Out *out, const char *name, const RECT *rect)
{
    rec_open(out, name, '[');
    rec_int(out, NULL, rect->left);
    rec_int(out, NULL, rect->top);
    rec_int(out, NULL, rect->right);
    rec_int(out, NULL, rect->bottom);
    rec_close(out, ']');
}

void rec_open(Out *out, const char *name, char bracket)
{
    put_name(out, name);
    put(out, &bracket, 1);
    out->first = TRUE;
}

void rec_close(Out *out, char bracket)
{
    put(out, &bracket, 1);
    out->first = FALSE;
}

/* ---- records --------------------------------------------------------------------------------------------- */

BOOL rec_end(Out *out)
{
    put(out, "}\n", 2);
    if (out_stopped(out))
        return FALSE;
    if (out->lost) {
        out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
        return FALSE;
    }
    if (out->count >= out->max_count) {
        out_stop(out, STATUS_TRUNCATED, FAULT_BOUND, L"max-entries reached");
        return FALSE;
    }
    if (out->used > out->max_bytes - out->bytes) {
        out_stop(out, STATUS_TRUNCATED, FAULT_BOUND, L"max-bytes of output reached");
        return FALSE;
    }
    sha256_update(&out->digest, out->line, out->used);
    out->count++;
    out->bytes += out->used;
    send_line(out);
    return !out->broken;
}

BOOL rec_fault(Out *out, int root, const WCHAR *path, const char *op, DWORD code, const WCHAR *message)
{
    WCHAR text[256];

    if (!message) {
        system_message(code, text, ARRAYSIZE(text));
        message = text;
    }
    rec_begin(out, "error");
    if (root >= 0)
        rec_int(out, "root", root);
    rec_text(out, "path", path);
    rec_ascii(out, "op", op);
    rec_uint(out, "code", code);
    rec_text(out, "message", message);
    return rec_end(out);
}

void out_header_done(Out *out)
{
    put(out, "}\n", 2);
    if (out->lost)
        out_stop(out, STATUS_ERROR, ERROR_NOT_ENOUGH_MEMORY, NULL);
    send_line(out);
}

void out_end(Out *out, const WCHAR *id)
{
    static const char *const names[] = {"ok", "truncated", "error", "error"};
    LARGE_INTEGER now, frequency;
    char digest[65];

    QueryPerformanceCounter(&now);
    QueryPerformanceFrequency(&frequency);
    sha256_hex(&out->digest, digest);
    rec_begin(out, "end");
    rec_text(out, "id", id);
    rec_uint(out, "count", out->count);
    rec_uint(out, "bytes", out->bytes);
    rec_ascii(out, "digest", digest);
    rec_ascii(out, "status", names[out->status]);
    if (out->status != STATUS_OK_) {
        rec_open(out, "error", '{');
        rec_uint(out, "code", out->code);
        rec_text(out, "message", out->message);
        rec_close(out, '}');
    }
    double elapsed = (double)(now.QuadPart - out->started.QuadPart) * 1e6 / (double)frequency.QuadPart;
    rec_uint(out, "elapsed_us", elapsed > 0 ? (uint64_t)elapsed : 0);
    put(out, "}\n", 2);
    send_line(out);
    flush(out);
}
