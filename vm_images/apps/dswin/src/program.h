/* The program's folder and what it keeps there besides the tables: DSWIN.INI, DSWIN.LCK, HEARTBEAT.DAT. */
#ifndef DSWIN_PROGRAM_H
#define DSWIN_PROGRAM_H

#include <windows.h>

#define PRACTICE_NAME_CCH 81

/* Finds the folder the program file lies in. FALSE if its path is too long for the old file functions. */
BOOL program_find_folder(void);

/* Makes the path of a file below the program's folder, `name` e.g. L"DATA\\PATIENT.DBF". */
void program_path(const WCHAR *name, WCHAR out[MAX_PATH]);

/* TRUE if no other copy of this program runs from the same folder; the claim lasts until the process ends. */
BOOL program_claim_single_instance(void);

/* Writes DSWIN.LCK (computer name and time). One left over from a killed run is overwritten; `stale` says that. */
BOOL program_lock(BOOL *stale);
void program_unlock(void);

/* [Praxis] Name of DSWIN.INI. */
void program_practice_name(WCHAR out[PRACTICE_NAME_CCH]);

/* Starts rewriting HEARTBEAT.DAT every [Noise] Heartbeat seconds; does nothing when that is 0 or missing. */
void program_start_heartbeat(void);

#endif
