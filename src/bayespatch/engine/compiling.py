"""Compilation of the kernels: cached on disk, without the GIL, and repeated when any source changes.

To see whether the cached code of a function is current, Numba checks only the file of that function. But a kernel also
contains the kernels that it calls from other files, and would keep running their old code. So cached code is stamped
with a digest of all sources of the engines and of retrieval. Nothing is deleted: Numba overwrites code with a different
stamp.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

from numba import njit

from bayespatch.engine import digest_of_sources

_PACKAGE = Path(__file__).parent.parent
STAMP = digest_of_sources(_PACKAGE / "engine") + digest_of_sources(_PACKAGE / "retrieval")
REASSOCIATED = {"reassoc", "contract", "nsz"}  # allows vector instructions, because sums and products may be reordered


def kept(further_stamp: str = "", **options):
    """Numba's compiler with these options; its results are cached on disk with a stamp of all sources.

    `further_stamp`: a digest of the sources of another package that compiles kernels with this function.

    The stamp is set in a private attribute of Numba. Versions of Numba without this attribute keep their own stamp (of
    the function's file). The same applies to reading the index of the cache.
    """

    def compile_one(function):
        kernel = njit(cache=True, nogil=True, error_model="numpy", **options)(function)
        cache_file = getattr(getattr(kernel, "_cache", None), "_cache_file", kernel)
        if hasattr(cache_file, "_source_stamp"):
            cache_file._source_stamp = STAMP + further_stamp
        if hasattr(cache_file, "_load_index"):
            cache_file._load_index = _nothing_if_unreadable(cache_file._load_index)
        return kernel

    return compile_one


def _nothing_if_unreadable(load_index: Callable[[], object]) -> Callable[[], object]:
    """Treat an unreadable index as empty: an index from an earlier version may name classes that no longer exist."""

    def load() -> object:
        try:
            return load_index()
        except (AttributeError, ImportError, EOFError, TypeError, ValueError, pickle.UnpicklingError):
            return {}

    return load


compiled = kept()
inlined = kept(forceinline=True)
vectorised = kept(fastmath=REASSOCIATED)
vectorised_inline = kept(forceinline=True, fastmath=REASSOCIATED)
