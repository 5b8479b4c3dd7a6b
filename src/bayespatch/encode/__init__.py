"""From a table to codes and back: the one room that knows data frames.

``table`` reads any table into plain columns, ``bins`` cuts numbers, ``column`` codes one column, ``schema`` all,
``row`` reads a single case.
"""

from bayespatch.encode.column import MISSING_NUMBER, Column
from bayespatch.encode.row import changed_row, read_row
from bayespatch.encode.schema import EncodedTable, Schema

__all__ = ["MISSING_NUMBER", "Column", "EncodedTable", "Schema", "changed_row", "read_row"]
