"""The engine of bayespatch for an NVIDIA GPU, and its closed-form votes there."""

__version__ = "0.2.0"
