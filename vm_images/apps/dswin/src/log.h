/* DSWIN.LOG: one line of ASCII for the program's start, its end and each save. */
#ifndef DSWIN_LOG_H
#define DSWIN_LOG_H

#include <windows.h>

/* Appends "YYYY-MM-DD HH:MM:SS text". A log that cannot be written does not stop the work. */
void log_line(const WCHAR *format, ...);

#endif
