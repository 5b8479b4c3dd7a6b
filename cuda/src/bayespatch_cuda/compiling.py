"""Compiles kernels that tests also run on the CPU, again whenever a source of this package or of bayespatch changes."""

from __future__ import annotations

from pathlib import Path

from bayespatch.engine import digest_of_sources
from bayespatch.engine.compiling import kept

_STAMP = digest_of_sources(Path(__file__).parent)

compiled = kept(_STAMP)
inlined = kept(_STAMP, forceinline=True)
