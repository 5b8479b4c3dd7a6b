"""The engine for an NVIDIA GPU."""

from __future__ import annotations

from bayespatch.engine.cuda.engine import CudaEngine

__all__ = ["CudaEngine"]
