"""Sampling from a posterior: the chains of an engine, their checkpoints, diagnostics and results.

``sampler`` has `sample`, ``chains`` has the main loop, ``checkpoint`` makes runs restartable, ``memory_needed``
estimates memory, ``posterior`` has the result, ``diagnostics`` checks convergence, and ``metropolis`` samples the
importances.
"""
