"""Reads tables from delimited text, Excel, Parquet and Arrow files, and databases.

``delimited`` reads text, ``columnar`` Parquet and Arrow, ``database`` queries SQLite, PostgreSQL or DuckDB, ``frame``
checks tables from any source, and ``roles`` assigns roles to columns. All tables become pandas data frames;
``parquet_parts`` reads a table in many Parquet files, one at a time or on Dask workers.
"""

from bayespatch.source.read import read
from bayespatch.source.roles import Training, features_of, training_table

__all__ = ["Training", "features_of", "read", "training_table"]
