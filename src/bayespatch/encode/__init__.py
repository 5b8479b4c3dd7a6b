"""Conversion of tables to codes and back; no other package reads data frames.

``table`` reads any table into plain columns, ``bins`` bins numbers, ``ranks`` ranks them, ``column`` codes one column,
``schema`` codes all columns, ``row`` reads a single case, and ``values`` recovers the values of past cases. ``summary``
summarizes all rows of a table, ``partitions`` reads partitioned tables, and ``order`` determines the order of classes.
"""

from bayespatch.encode.column import MISSING_NUMBER, Column
from bayespatch.encode.order import class_order
from bayespatch.encode.partitions import Partitions, Sample, is_partitioned
from bayespatch.encode.row import changed_row, changed_rows, read_row, read_rows
from bayespatch.encode.schema import Bins, EncodedTable, Schema, Windows
from bayespatch.encode.values import codes_of, describe_values

__all__ = [
    "MISSING_NUMBER",
    "Bins",
    "Column",
    "EncodedTable",
    "Partitions",
    "Sample",
    "Schema",
    "Windows",
    "changed_row",
    "changed_rows",
    "class_order",
    "codes_of",
    "describe_values",
    "is_partitioned",
    "read_row",
    "read_rows",
]
