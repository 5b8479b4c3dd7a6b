"""The memory available to this process.

Libraries such as psutil report the memory of the machine and ignore the limits of the container and the process.
"""

from __future__ import annotations

import os
from pathlib import Path


def shown_bytes(n_bytes: float) -> str:
    """A number of bytes with a readable unit.

    >>> shown_bytes(1536), shown_bytes(2.5e9)
    ('1.54 kB', '2.5 GB')
    """
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 999.5:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.3g} GB"


def available_memory(root: Path = Path("/")) -> int | None:
    """Bytes available to this process; None if the system does not report them.

    On Linux, this is the smallest of the available memory of the machine, the remaining memory of the process's control
    groups (such as a container's limit), and the remainder of the process's limits (``ulimit -v``). On other systems,
    it is the total memory.
    """
    limits = [_available(root / "proc/meminfo"), *_left_in_groups(root), _left_to_process(root / "proc/self/statm")]
    finite = [limit for limit in limits if limit is not None]
    if finite:
        return max(0, min(finite))
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return None


def shortage(n_bytes: float) -> str | None:
    """The available memory as text if it is less than `n_bytes`; None if it is sufficient or unknown.

    >>> shortage(0) is None
    True
    """
    available = available_memory()
    return None if available is None or n_bytes <= available else shown_bytes(available)


def _available(meminfo: Path) -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in meminfo.read_text().splitlines() if ":" in line)
        return 1024 * int(lines["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        return None


def _left_to_process(statm: Path) -> int | None:
    """The remainder of this process's limits; None without limits."""
    try:
        import resource

        address_space, _ = resource.getrlimit(resource.RLIMIT_AS)
        if address_space == resource.RLIM_INFINITY:
            return None
        return address_space - int(statm.read_text().split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):  # Windows, macOS
        return None


# File names of limit, usage and reclaimable cache, and the mount points, for control groups version 2 and 1
_GROUPS = {
    "": ("sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"),
    "memory": ("sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
}


def _left_in_groups(root: Path) -> list[int | None]:
    """The remaining memory in each group of this process and in the enclosing groups."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return []
    left = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        for controller in set(controllers.split(",")) & set(_GROUPS):
            top, limit, use, cache = _GROUPS[controller]
            inside = (root / top).joinpath(*Path(path).parts[1:])
            for group in (inside, *inside.parents):
                left.append(_left(group, limit, use, cache))
                if group == root / top:
                    break
    return left


def _left(group: Path, limit: str, use: str, cache: str) -> int | None:
    """The remaining memory in a group; None without a limit. Reclaimable cache counts as free."""
    try:
        stat = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        return int((group / limit).read_text()) - int((group / use).read_text()) + int(stat.get(cache, 0))
    except (OSError, ValueError):  # "max", or no such group from here
        return None
