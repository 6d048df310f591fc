/* dBase III memo files (DBT): blocks of 512 bytes, block 0 begins with the number of the next free block, a text ends
 * with two 0x1A. A changed text is never written over: new texts always go behind the last one. */
#ifndef DSWIN_MEMO_H
#define DSWIN_MEMO_H

#include <windows.h>

#define MEMO_MAX_TEXT 32000 /* characters, for reading and writing */

/* Writes the text behind the last one, then the number of the next free block, then flushes. `text` keeps its CRLF. */
BOOL memo_append(const WCHAR *path, const WCHAR *text, DWORD *block);

/* Reads the text that begins at `block`; the result must be freed with free(). NULL if it cannot be read. */
WCHAR *memo_read(const WCHAR *path, DWORD block);

#endif
