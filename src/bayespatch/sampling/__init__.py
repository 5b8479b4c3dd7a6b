"""From arrays to a posterior: chains of an engine's sweeps, their checkpoints, their diagnostics, and what they leave.

``sampler`` has `sample` itself, ``chains`` the loop, ``checkpoint`` what survives a kill, ``memory`` what a run will
need, ``posterior`` the result, ``diagnostics`` whether to trust it, ``metropolis`` the sampler of the importances.
"""
