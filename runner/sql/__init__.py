"""Reading SQL tables: PostgreSQL, MariaDB and MySQL, SQL Server and Access over ODBC, SQLite by the standard library.

``snapshot`` is the way in. It starts ``child`` in a process of its own, which is where drivers are loaded: a driver that hangs
or brings its process down costs a reading, not the runner. This file imports nothing, so that the child starts fast.
"""
