"""SQL tables: how rows are spelt (``form``), what a table's state is (``table``), and what happened to it (``diff``).

Every value is kept as the text in which the server itself spells it, one row a line. Two states are compared line by line,
and only lines that differ are read as values: so equal rows cost a memory comparison, long values are compared in full, and
a database driver's idea of a date or a float cannot hide a difference.

This file imports nothing, so that the reading process can use ``form`` without loading the contract's models.
"""
