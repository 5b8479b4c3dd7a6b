"""From a table to codes and back: the one room that knows data frames.

``table`` reads any table into plain columns, ``bins`` cuts numbers, ``ranks`` ranks them, ``column`` codes one
column, ``schema`` all.
"""

from bayespatch.encode.column import MISSING_NUMBER, Column
from bayespatch.encode.schema import EncodedTable, Schema

__all__ = ["MISSING_NUMBER", "Column", "EncodedTable", "Schema"]
