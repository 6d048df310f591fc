#include "log.h"

#include <stdarg.h>
#include <stdio.h>

#include "program.h"
#include "text.h"

#define LINE_CCH 200

void log_line(const WCHAR *format, ...)
{
    WCHAR path[MAX_PATH], stamp[TIMESTAMP_CCH], text[LINE_CCH], line[LINE_CCH + 32];
    char bytes[LINE_CCH + 32];
    va_list arguments;
    DWORD written;
    HANDLE file;
    int length;

    va_start(arguments, format);
    _vsnwprintf(text, LINE_CCH, format, arguments);
    va_end(arguments);
    text[LINE_CCH - 1] = 0;
    timestamp_now(stamp);
    text_format(line, LINE_CCH + 32, L"%ls %ls\r\n", stamp, text);
    length = WideCharToMultiByte(850, 0, line, -1, bytes, sizeof bytes, NULL, NULL);
    program_path(L"DSWIN.LOG", path);
    file = CreateFileW(path, FILE_APPEND_DATA, FILE_SHARE_READ | FILE_SHARE_WRITE, NULL, OPEN_ALWAYS,
                       FILE_ATTRIBUTE_NORMAL, NULL);
    if (file == INVALID_HANDLE_VALUE)
        return;
    if (length > 1)
        WriteFile(file, bytes, (DWORD)length - 1, &written, NULL);
    FlushFileBuffers(file);
    CloseHandle(file);
}
