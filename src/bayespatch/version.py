"""The version of the package, which is stored in every file it writes."""

__version__ = "0.2.0"
