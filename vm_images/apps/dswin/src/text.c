#include "text.h"

#include <stdarg.h>
#include <stdio.h>
#include <wchar.h>

void text_format(WCHAR *out, size_t cch, const WCHAR *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    _vsnwprintf(out, cch, format, arguments);
    va_end(arguments);
    out[cch - 1] = 0; /* _vsnwprintf does not terminate what it cuts */
}

void text_trim(WCHAR *text)
{
    size_t start = wcsspn(text, L" \t");
    size_t length = wcslen(text + start);
    memmove(text, text + start, (length + 1) * sizeof(WCHAR));
    while (length > 0 && (text[length - 1] == L' ' || text[length - 1] == L'\t'))
        text[--length] = 0;
}

/* ASCII digits only: iswdigit would also take the digits of other scripts. */
static BOOL is_digit(WCHAR character)
{
    return character >= L'0' && character <= L'9';
}

/* Reads between `least` and `most` digits at *cursor and moves it behind them; -1 if they are not there. */
static int take_digits(const WCHAR **cursor, int least, int most)
{
    int value = 0, count = 0;
    while (count < most && is_digit(**cursor)) {
        value = value * 10 + (**cursor - L'0');
        ++*cursor;
        ++count;
    }
    return count >= least ? value : -1;
}

static int days_in_month(int year, int month)
{
    static const int DAYS[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    BOOL leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    return month == 2 && leap ? 29 : DAYS[month - 1];
}

BOOL date_parse(const WCHAR *shown, WCHAR date[DATE_CCH])
{
    WCHAR text[32];
    const WCHAR *cursor = text;
    int day, month, year;
    BOOL dotted;

    lstrcpynW(text, shown, 32);
    text_trim(text);
    dotted = wcschr(text, L'.') != NULL;
    day = take_digits(&cursor, dotted ? 1 : 2, 2);
    if (dotted && *cursor++ != L'.')
        return FALSE;
    month = take_digits(&cursor, dotted ? 1 : 2, 2);
    if (dotted && (month < 0 || *cursor++ != L'.'))
        return FALSE;
    year = take_digits(&cursor, 4, 4);
    if (*cursor || year < 1800 || year > 2199 || month < 1 || month > 12 || day < 1 || day > days_in_month(year, month))
        return FALSE;
    text_format(date, DATE_CCH, L"%04d%02d%02d", year, month, day);
    return TRUE;
}

void date_show(const WCHAR *date, WCHAR shown[SHOWN_DATE_CCH])
{
    shown[0] = 0;
    if (wcslen(date) != 8 || wcsspn(date, L"0123456789") != 8)
        return;
    text_format(shown, SHOWN_DATE_CCH, L"%.2ls.%.2ls.%.4ls", date + 6, date + 4, date);
}

void date_today(WCHAR date[DATE_CCH])
{
    SYSTEMTIME now;
    GetLocalTime(&now);
    text_format(date, DATE_CCH, L"%04d%02d%02d", now.wYear, now.wMonth, now.wDay);
}

void timestamp_now(WCHAR stamp[TIMESTAMP_CCH])
{
    SYSTEMTIME now;
    GetLocalTime(&now);
    text_format(stamp, TIMESTAMP_CCH, L"%04d-%02d-%02d %02d:%02d:%02d", now.wYear, now.wMonth, now.wDay, now.wHour,
                now.wMinute, now.wSecond);
}

BOOL decimal_parse(const WCHAR *text, int decimals, LONGLONG *value)
{
    WCHAR trimmed[32];
    const WCHAR *cursor = trimmed;
    LONGLONG result = 0;
    BOOL negative;
    int digits = 0, fraction = 0;

    if (wcslen(text) >= 32)
        return FALSE;
    lstrcpynW(trimmed, text, 32);
    text_trim(trimmed);
    negative = *cursor == L'-';
    if (negative)
        ++cursor;
    for (; is_digit(*cursor); ++cursor, ++digits)
        result = result * 10 + (*cursor - L'0');
    if (digits == 0 || digits > 12)
        return FALSE;
    if (*cursor == L',' || *cursor == L'.') {
        for (++cursor; is_digit(*cursor) && fraction < decimals; ++cursor, ++fraction)
            result = result * 10 + (*cursor - L'0');
    }
    if (*cursor)
        return FALSE;
    for (; fraction < decimals; ++fraction)
        result *= 10;
    *value = negative ? -result : result;
    return TRUE;
}

void decimal_show(LONGLONG value, int decimals, WCHAR point, WCHAR *out, size_t cch)
{
    LONGLONG scale = 1, magnitude = value < 0 ? -value : value;
    const WCHAR *sign = value < 0 ? L"-" : L"";
    int i;

    for (i = 0; i < decimals; ++i)
        scale *= 10;
    if (decimals == 0)
        text_format(out, cch, L"%ls%I64d", sign, magnitude);
    else
        text_format(out, cch, L"%ls%I64d%lc%0*I64d", sign, magnitude / scale, point, decimals, magnitude % scale);
}
