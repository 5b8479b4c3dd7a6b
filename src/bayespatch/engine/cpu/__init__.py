"""The engine for the CPUs of one machine, with threads over cases."""

from __future__ import annotations

from bayespatch.engine.cpu.engine import CpuEngine, CpuState

__all__ = ["CpuEngine", "CpuState"]
