"""Samplers. Each file is one engine; all obey the contract in ``base``."""
