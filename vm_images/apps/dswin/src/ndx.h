/* PATIENT.NDX: the sorted names of the patient table, rewritten as a whole.
 *
 * 512 bytes of header: "DSNX", u16 version 1, u16 key length 60, u32 number of keys, u32 zero, then the key expression
 * "NAME+VORNAME" in ASCII, zero-terminated, and zeros. Then one entry of 64 bytes for each row that is not deleted: the
 * key (NAME and VORNAME as they stand in the row, code page 850, blank-padded) and the u32 record number. Entries are
 * in byte order of the key, equal keys in order of the record number. Integers are little-endian. */
#ifndef DSWIN_NDX_H
#define DSWIN_NDX_H

#include "dbf.h"

/* Reads the whole table and replaces the index file. */
BOOL ndx_rewrite(const DbfTable *table, const WCHAR *path);

#endif
