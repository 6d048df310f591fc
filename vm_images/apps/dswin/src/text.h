/* Texts, dates and decimal numbers in the forms the screen and the tables use. */
#ifndef DSWIN_TEXT_H
#define DSWIN_TEXT_H

#include <windows.h>

#define DATE_CCH 9       /* YYYYMMDD and the terminator, the form of a DBF date */
#define SHOWN_DATE_CCH 11 /* TT.MM.JJJJ and the terminator */
#define TIMESTAMP_CCH 20 /* YYYY-MM-DD HH:MM:SS and the terminator */

/* Like swprintf into `cch` characters; cuts what does not fit and always terminates. */
void text_format(WCHAR *out, size_t cch, const WCHAR *format, ...);

/* Removes blanks at both ends, in place. */
void text_trim(WCHAR *text);

/* Reads TT.MM.JJJJ (also T.M.JJJJ and TTMMJJJJ) into YYYYMMDD. FALSE for anything that is no day of the years
 * 1800..2199; `date` is then left alone. */
BOOL date_parse(const WCHAR *shown, WCHAR date[DATE_CCH]);

/* Shows a DBF date as TT.MM.JJJJ; a blank or damaged one as an empty text. */
void date_show(const WCHAR *date, WCHAR shown[SHOWN_DATE_CCH]);

/* Today by the local clock, as YYYYMMDD. */
void date_today(WCHAR date[DATE_CCH]);

/* Now by the local clock. */
void timestamp_now(WCHAR stamp[TIMESTAMP_CCH]);

/* Reads a number with a comma or a point into an integer scaled by 10^decimals. FALSE for an empty text, more decimals
 * than that, other characters or more than 12 digits before the comma. */
BOOL decimal_parse(const WCHAR *text, int decimals, LONGLONG *value);

/* Writes a scaled integer with `point` as the decimal character. */
void decimal_show(LONGLONG value, int decimals, WCHAR point, WCHAR *out, size_t cch);

#endif
