"""From a table to codes and back: the one room that knows data frames.

``table`` reads any table into plain columns, ``bins`` cuts numbers, ``ranks`` ranks them, ``column`` codes one
column, ``schema`` all, with an ``encoded`` table as the result, ``row`` reads a single case.
"""

from bayespatch.encode.column import MISSING_NUMBER, Column
from bayespatch.encode.encoded import EncodedTable
from bayespatch.encode.row import changed_row, read_row
from bayespatch.encode.schema import Schema

__all__ = ["MISSING_NUMBER", "Column", "EncodedTable", "Schema", "changed_row", "read_row"]
