"""Samplers. Each file is one engine, or a part of one; all engines obey the contract in ``base``."""

from __future__ import annotations

import hashlib
from contextlib import suppress
from pathlib import Path


def digest_of_sources(folder: Path) -> str:
    """A digest of the names and contents of all sources in `folder`."""
    digest = hashlib.sha256()
    for source in sorted(folder.glob("*.py")):
        content = source.read_bytes()
        digest.update(f"{source.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def drop_stale_kernels(folder: Path) -> bool:
    """Delete the compiled kernels in `folder`'s cache if any source there has changed; says whether it did.

    Numba keeps compiled functions on disk and looks at the file of each function alone; but a kernel contains the
    kernels that it calls, from other files, and would go on running their old code.
    """
    digest = digest_of_sources(folder)
    cache = folder / "__pycache__"
    stamp = cache / "kernels.sha256"
    if stamp.exists() and stamp.read_text() == digest:
        return False
    for compiled in [*cache.glob("*.nbi"), *cache.glob("*.nbc")]:
        compiled.unlink(missing_ok=True)
    cache.mkdir(exist_ok=True)
    stamp.write_text(digest)
    return True


with suppress(OSError):  # where the package may not be written to, Numba caches elsewhere and sources do not change
    drop_stale_kernels(Path(__file__).parent)
