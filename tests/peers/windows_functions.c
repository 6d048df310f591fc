/* Asks Windows' own functions what they make of given bytes: the oracle of the tests of INI files and of registry values.

   windows_functions ini REQUESTS ANSWERS       GetPrivateProfileStringW
   windows_functions registry REQUESTS ANSWERS  RegGetValueW

   Both files are little-endian. A text or a run of bytes is its size in bytes (32 bits) and then the bytes.
   Requests: the number of cases, then for each
     ini       the file's bytes, the number of questions, and for each the section and the key (UTF-16, with terminator)
     registry  the type (32 bits) and the bytes to store
   Answers: the ANSI code page (ini only), then for each question or case
     ini       the value (UTF-16, without terminator), or the size 0xFFFFFFFF where there is none
     registry  the status of the call (32 bits) and the bytes that it gave */
#include <windows.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

static FILE *in, *out;

static void fail(const char *what)
{
    fprintf(stderr, "%s (error %lu)\n", what, GetLastError());
    exit(1);
}

static DWORD number(void)
{
    DWORD value;
    if (fread(&value, sizeof value, 1, in) != 1) fail("the requests are cut off");
    return value;
}

static BYTE *bytes(DWORD *size)
{
    BYTE *data;
    *size = number();
    data = malloc(*size + 1);
    if (!data || fread(data, 1, *size, in) != *size) fail("the requests are cut off");
    return data;
}

static void answer(const void *data, DWORD size)
{
    fwrite(&size, sizeof size, 1, out);
    fwrite(data, 1, size, out);
}

static void ini(DWORD cases)
{
    static const WCHAR nothing[] = L"\xE000 there is no such value";
    static WCHAR value[1 << 16];
    WCHAR folder[MAX_PATH], path[MAX_PATH + 32];
    const DWORD none = 0xFFFFFFFF, page = GetACP();
    fwrite(&page, sizeof page, 1, out);
    GetTempPathW(MAX_PATH, folder);
    for (DWORD i = 0; i < cases; i++) {
        DWORD size, questions, done;
        BYTE *data = bytes(&size);
        HANDLE file;
        swprintf(path, MAX_PATH + 32, L"%ls%lu-%lu.ini", folder, GetCurrentProcessId(), i);
        file = CreateFileW(path, GENERIC_WRITE, 0, NULL, CREATE_ALWAYS, 0, NULL);
        if (file == INVALID_HANDLE_VALUE || !WriteFile(file, data, size, &done, NULL)) fail("no file could be written");
        CloseHandle(file);
        free(data);
        for (questions = number(); questions; questions--) {
            WCHAR *section = (WCHAR *)bytes(&size), *key = (WCHAR *)bytes(&size);
            DWORD length = GetPrivateProfileStringW(section, key, nothing, value, 1 << 16, path);
            if (!wcscmp(value, nothing)) fwrite(&none, sizeof none, 1, out);
            else answer(value, length * sizeof(WCHAR));
            free(section);
            free(key);
        }
        DeleteFileW(path);
    }
}

static void registry(DWORD cases)
{
    static BYTE value[1 << 16];
    HKEY key;
    if (RegCreateKeyW(HKEY_CURRENT_USER, L"Software\\Oracle", &key)) fail("no key could be made");
    for (DWORD i = 0; i < cases; i++) {
        DWORD type = number(), size, room = sizeof value, status;
        BYTE *data = bytes(&size);
        if (RegSetValueExW(key, L"value", 0, type, data, size)) fail("no value could be stored");
        status = RegGetValueW(key, NULL, L"value", RRF_RT_ANY | RRF_NOEXPAND, NULL, value, &room);
        fwrite(&status, sizeof status, 1, out);
        answer(value, status ? 0 : room);
        free(data);
    }
}

int wmain(int argc, WCHAR **argv)
{
    if (argc != 4 || !(in = _wfopen(argv[2], L"rb")) || !(out = _wfopen(argv[3], L"wb"))) fail("usage");
    if (!wcscmp(argv[1], L"ini")) ini(number());
    else registry(number());
    return fclose(out) ? 1 : 0;
}
