"""The bayespatch engine for NVIDIA GPUs, and closed-form votes on NVIDIA GPUs."""

__version__ = "0.2.0"
