"""Where a table comes from: a file of delimited text, Parquet or Arrow, or the answer of a database.

``delimited`` reads text, ``columnar`` Parquet and Arrow, ``database`` asks SQLite, PostgreSQL or DuckDB, ``frame`` says
what a table must be whatever it came from, ``roles`` which column is what. Everything becomes a pandas data frame;
``parts`` reads a table that lies in many Parquet files, one after the other or on Dask workers.
"""

from bayespatch.source.read import read
from bayespatch.source.roles import Training, features_of, training_table

__all__ = ["Training", "features_of", "read", "training_table"]
