"""Parquet and Arrow files, with whichever of pyarrow and polars is installed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from bayespatch.source.frame import check_names, import_pandas, refuse

if TYPE_CHECKING:
    from pandas import DataFrame

Layout = Literal["Parquet", "Arrow"]
BEGINNINGS: dict[bytes, Layout] = {b"PAR1": "Parquet", b"ARROW1": "Arrow"}


def read_columnar(
    source: str, path: str, layout: Layout, *, groups: Sequence[int] | None = None, may_be_empty: bool = False
) -> DataFrame:
    """A table from a Parquet file, or some of its row groups, or from an Arrow (Feather) file."""
    pandas = import_pandas()
    try:
        try:
            frame = _with_pyarrow(path, layout, groups)
        except ImportError:
            if groups is not None:
                raise
            frame = _with_polars(path, layout, pandas.DataFrame)
    except ImportError as error:
        raise ImportError(f'{layout} files need pyarrow: pip install "bayespatch[parquet]"') from error
    except Exception as error:  # both libraries have many error types, handled the same way here
        raise refuse(source, f"cannot be read as {layout} ({error}); use another copy of the file") from error
    if frame.index.name is not None:  # pandas separates the index from the columns; here it is a column
        frame = frame.reset_index()
    frame = frame.rename(columns=str)
    check_names(source, list(frame.columns))
    if not len(frame) and not may_be_empty:
        raise refuse(source, "there are columns but no rows; pass at least two cases")
    return frame


def _with_pyarrow(path: str, layout: Layout, groups: Sequence[int] | None) -> DataFrame:
    if layout == "Parquet":
        from pyarrow import parquet

        if groups is None:
            frame: DataFrame = parquet.read_table(path).to_pandas()
        else:
            with parquet.ParquetFile(path) as file:
                frame = file.read_row_groups(list(groups), use_pandas_metadata=True).to_pandas()
    else:
        from pyarrow import feather

        frame = feather.read_feather(path)
    return frame


def _with_polars(path: str, layout: Layout, frame_class: type[DataFrame]) -> DataFrame:
    import polars

    frame = polars.read_parquet(path) if layout == "Parquet" else polars.read_ipc(path)
    return frame_class(frame.to_dict(as_series=False))
