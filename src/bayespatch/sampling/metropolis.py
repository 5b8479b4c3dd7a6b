"""Metropolis sampling of a smooth density in a few dozen dimensions that is approximately normal around one mode.

A step has two parts, and each leaves the density invariant:

- a *local* move: a few leapfrog steps of Hamiltonian dynamics (Neal, 2011), with a step size adapted during warm-up
  only and reduced at random by up to a third, so that paths do not repeatedly return to their start;
- *independent* proposals from a multivariate t distribution around the mode (Tierney, 1994). They do not depend on the
  current position. In regions that they rarely propose, local moves keep the chain from getting stuck.

Positions are scaled by the shape of the density at the mode, a factor of the inverse negative Hessian.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

Array = NDArray[np.float64]

N_LEAPFROG = 2  # leapfrog steps per local move
N_INDEPENDENT = 1  # independent proposals per step
DEGREES = 8.0  # degrees of freedom of the t distribution for independent proposals
FIRST_STEP, LEAST_OF_STEP = 1.0, 0.7  # initial size of a leapfrog step, and the smallest random factor for it
TARGET_ACCEPTANCE = 0.75  # of local moves: between 0.574 for one step and 0.8 for many (Betancourt and others, 2014)
_LEAST_CURVATURE = 0.1  # smaller curvatures of the density are replaced by this value
_DIFFERENCE = 1e-2  # step of the finite differences for the Hessian; gradients may have only single precision


class LogDensity(Protocol):
    """The logarithm of a density, up to a constant."""

    def __call__(self, position: Array, with_gradient: bool = True) -> tuple[float, Array]:
        """The value and the gradient, which is arbitrary if it is not requested."""


class Shape(NamedTuple):
    """The mode of a density and its shape at the mode."""

    mode: Array  # (K,)
    log_density: float
    factor: Array  # (K, K) factor @ factor.T is the inverse of the negative Hessian


def find_shape(log_density: LogDensity, start: Array) -> Shape:
    """Find the mode, starting from `start`, and the shape of the density there.

    Examples
    --------
    >>> def normal(x, with_gradient=True):  # independent, with standard deviations 1 and 2
    ...     z = x / [1.0, 2.0]
    ...     return -0.5 * float(z @ z), -z / [1.0, 2.0]
    >>> shape = find_shape(normal, np.array([1.0, 1.0]))
    >>> np.sqrt(np.diag(shape.factor @ shape.factor.T)).round(2)
    array([1., 2.])
    """
    result = minimize(lambda x: tuple(-part for part in log_density(x)), start, jac=True, method="L-BFGS-B")
    mode = result.x
    steps = _DIFFERENCE * np.eye(len(start))
    rows = [(log_density(mode - step)[1] - log_density(mode + step)[1]) / (2.0 * _DIFFERENCE) for step in steps]
    curvature, directions = np.linalg.eigh(0.5 * (np.array(rows) + np.array(rows).T))
    return Shape(mode, -float(result.fun), directions / np.sqrt(np.maximum(curvature, _LEAST_CURVATURE)))


class Chain:
    """One chain, started from a draw of the t distribution around the mode.

    Examples
    --------
    >>> def normal(x, with_gradient=True):
    ...     return -0.5 * float(x @ x), -x
    >>> chain = Chain(normal, find_shape(normal, np.zeros(3)), np.random.default_rng(0))
    >>> _ = chain.advance(50, adapt=True)
    >>> positions, log_density = chain.advance(500)
    >>> positions.shape, bool(abs(positions.std() - 1) < 0.1)
    ((500, 3), True)
    """

    def __init__(self, log_density: LogDensity, shape: Shape, rng: np.random.Generator) -> None:
        self.log_density, self.shape, self.rng = log_density, shape, rng
        self.log_step, self.n_adapted = math.log(FIRST_STEP), 0
        self.z, self.at_t = self._proposed()  # the position in units of the shape, and the log density of t there
        self.value, self.gradient = log_density(self._position(self.z))
        self.stale = False  # whether the gradient belongs to an earlier position

    def advance(
        self, n_steps: int, adapt: bool = False, stopped: Callable[[], bool] = lambda: False
    ) -> tuple[Array, Array]:
        """Take `n_steps` steps; returns the position after each, (n_steps, K), and the log density there, (n_steps,).

        `adapt`: tune the size of local moves (warm-up). `stopped` is called before every step; if it returns True, the
        remaining steps are skipped, and the result must not be used.
        """
        positions, values = np.empty((n_steps, len(self.z))), np.empty(n_steps)
        for t in range(n_steps):
            if stopped():
                break
            chance = self._move_locally()
            if adapt:
                self.log_step += (chance - TARGET_ACCEPTANCE) / (self.n_adapted + 3.0) ** 0.6
                self.n_adapted += 1
            for _ in range(N_INDEPENDENT):
                self._propose_independently()
            positions[t], values[t] = self._position(self.z), self.value
        return positions, values

    def _move_locally(self) -> float:
        """Take a few leapfrog steps and accept or reject the result; returns the acceptance probability."""
        if self.stale:
            self.value, self.gradient = self.log_density(self._position(self.z))
            self.stale = False
        step, factor = math.exp(self.log_step) * self.rng.uniform(LEAST_OF_STEP, 1.0), self.shape.factor
        momentum = self.rng.standard_normal(len(self.z))
        z_new, value_new, gradient_new = self.z, self.value, self.gradient
        momentum_new = momentum + 0.5 * step * (gradient_new @ factor)
        for k in range(N_LEAPFROG):
            z_new = z_new + step * momentum_new
            value_new, gradient_new = self.log_density(self._position(z_new))
            momentum_new = momentum_new + (step if k + 1 < N_LEAPFROG else 0.5 * step) * (gradient_new @ factor)
        kinetic = 0.5 * float(momentum_new @ momentum_new - momentum @ momentum)
        chance = _chance(value_new - self.value - kinetic)
        if self.rng.random() < chance:
            self.z, self.value, self.gradient, self.at_t = z_new, value_new, gradient_new, self._log_t(z_new)
        return chance

    def _propose_independently(self) -> None:
        z_new, at_t_new = self._proposed()
        value_new, _ = self.log_density(self._position(z_new), with_gradient=False)
        if self.rng.random() < _chance(value_new - at_t_new - self.value + self.at_t):
            self.z, self.value, self.at_t, self.stale = z_new, value_new, at_t_new, True

    def _proposed(self) -> tuple[Array, float]:
        """A draw from the t distribution, and its log density."""
        z = self.rng.standard_normal(len(self.shape.mode)) * math.sqrt(DEGREES / self.rng.chisquare(DEGREES))
        return z, self._log_t(z)

    def _log_t(self, z: Array) -> float:
        return -0.5 * (DEGREES + len(z)) * math.log1p(float(z @ z) / DEGREES)

    def _position(self, z: Array) -> Array:
        return np.asarray(self.shape.mode + self.shape.factor @ z)


def _chance(log_ratio: float) -> float:
    """The acceptance probability; NaN is rejected."""
    return math.exp(min(0.0, log_ratio)) if log_ratio == log_ratio else 0.0
