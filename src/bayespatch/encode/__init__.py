"""From a table to codes and back: the one package that knows data frames.

``table`` reads any table into plain columns, ``bins`` cuts numbers, ``ranks`` ranks them, ``column`` codes one
column, ``schema`` all, ``row`` reads a single case, ``values`` tells those of past ones. ``summary`` says what has to
be known of all rows of a table, ``partitions`` reads partitioned ones; ``order`` says in which order classes
are.
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
