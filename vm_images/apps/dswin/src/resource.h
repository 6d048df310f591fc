/* Resource and control identifiers. They are part of the program's interface: README.md lists them, scripts rely on
 * them. Never renumber. */
#ifndef DSWIN_RESOURCE_H
#define DSWIN_RESOURCE_H

#define IDM_MAIN 10
#define IDA_MAIN 11
#define IDA_PATIENT 12
#define IDA_DIALOG 13
#define IDD_PATIENT 20
#define IDD_LEISTUNG 21
#define IDD_DOKU 22

/* Main window */
#define IDC_SEARCH_LABEL 101
#define IDC_SEARCH 102
#define IDC_LIST 103
#define IDC_STATUS 104

#define IDM_FILE_NEW_WINDOW 40001
#define IDM_FILE_EXIT 40002
#define IDM_PATIENT_NEW 40011
#define IDM_PATIENT_EDIT 40012
#define IDM_PATIENT_SEARCH 40013
#define IDM_TREAT_LEISTUNG 40021
#define IDM_TREAT_DOKU 40022
#define IDM_HELP_INFO 40031

/* Patient form: a field's label has the field's identifier plus 100. */
#define IDC_PATNR 1000
#define IDC_NAME 1001
#define IDC_VORNAME 1002
#define IDC_GEBDAT 1003
#define IDC_GESCHLECHT 1004
#define IDC_STRASSE 1005
#define IDC_PLZ 1006
#define IDC_ORT 1007
#define IDC_TELEFON 1008
#define IDC_KASSE 1009
#define IDC_VERSNR 1010
#define IDC_BEMERK 1011
#define IDC_LABEL_OFFSET 100
#define IDC_TAB 1200

#define IDM_PAGE_NEXT 40041
#define IDM_PAGE_PREVIOUS 40042

/* Leistung erfassen: labels 2101.. */
#define IDC_L_DATUM 2001
#define IDC_L_ZAHN 2002
#define IDC_L_ZIFFER 2003
#define IDC_L_TEXT 2004
#define IDC_L_PREIS 2005
#define IDC_L_ANZAHL 2006
#define IDC_L_FAKTOR 2007
#define IDC_L_BETRAG 2008

/* Dokumentation: labels 3101.. */
#define IDC_D_LIST 3001
#define IDC_D_KUERZEL 3002
#define IDC_D_TEXT 3003

#endif
