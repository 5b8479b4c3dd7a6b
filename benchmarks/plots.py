"""The figures of the benchmarks."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from measure import Row, Section

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullFormatter

COLORS = {"I": "#0072b2", "II": "#d55e00", "III": "#009e73", "sweep alone": "#999999", "with the move": "#0072b2"}
NAMES = {"N": "cases N", "S": "parents S", "P": "features P"}


def save(figure: plt.Figure, path: Path) -> None:
    figure.tight_layout()
    figure.savefig(path, dpi=120, metadata={"Software": None})
    plt.close(figure)


def plot_growth(rows: list[Row], path: Path) -> None:
    """Milliseconds per sweep (full line) and per update of z and w (dashed) as N, S and P grow."""
    symbols = list(dict.fromkeys(str(row["grows"]) for row in rows))
    figure, axes = plt.subplots(2, len(symbols), figsize=(4 * len(symbols), 6.4), squeeze=False)
    for column, symbol in enumerate(symbols):
        for line, kinds in enumerate((("I",), ("I", "II", "III"))):
            axis = axes[line, column]
            for kind in kinds:
                mine = [row for row in rows if row["grows"] == symbol and row["model"] == kind]
                size = [row[symbol] for row in mine]
                axis.plot(
                    size, [row["sweep, ms"] for row in mine], "o-", ms=4, color=COLORS[kind], label=f"Model {kind}"
                )
                axis.plot(size, [row["update of z and w, ms"] for row in mine], "s--", ms=3, color=COLORS[kind])
            axis.set(xlabel=NAMES[symbol], ylabel="ms, one thread")
            if line == 0:
                axis.set_xlim(0)
                axis.set_ylim(0)
            else:
                axis.set(xscale="log", yscale="log")
                axis.xaxis.set_minor_formatter(NullFormatter())
                axis.yaxis.set_minor_formatter(NullFormatter())
    axes[0, 0].set_title("Model I: sweep (—), z and w alone (- -)", fontsize=9)
    axes[1, 0].legend(fontsize=8)
    save(figure, path)


def plot_threads(rows: list[Row], path: Path) -> None:
    """Speedup of a sweep with two threads, by number of cases."""
    figure, axis = plt.subplots(figsize=(5, 3.2))
    axis.plot([row["cases"] for row in rows], [row["speedup"] for row in rows], "o-", color=COLORS["I"])
    axis.axhline(1, color="black", lw=0.8)
    axis.set(xscale="log", xlabel="cases N", ylabel="2 threads over 1 (sweep)", ylim=(0, 2.1))
    save(figure, path)


def plot_ess(rows: list[Row], path: Path) -> None:
    """Smallest ESS of q per 1000 sweeps and per second, without and with the joint move."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2))
    kinds = list(dict.fromkeys(str(row["model"]) for row in rows))
    moves = list(dict.fromkeys(str(row["moves"]) for row in rows))
    for axis, name in zip(axes, ("ESS per 1000 sweeps", "ESS per second"), strict=True):
        for k, move in enumerate(moves):
            heights = [float(row[name]) for row in rows if row["moves"] == move]
            bars = axis.bar(np.arange(len(kinds)) + 0.4 * (k - 0.5), heights, 0.38, color=COLORS[move], label=move)
            axis.bar_label(bars, fmt="%.3g", fontsize=8)
        axis.set_xticks(range(len(kinds)), [f"Model {kind}" for kind in kinds])
        axis.set(yscale="log", ylabel=f"smallest {name} of q")
        axis.margins(y=0.15)
    axes[0].legend(fontsize=8)
    save(figure, path)


def plot_traces(traces: list[Row], correlations: list[Row], path: Path) -> None:
    """The slowest q_j of Model I: four chains and their autocorrelation."""
    moves = list(dict.fromkeys(str(row["moves"]) for row in traces))
    figure, axes = plt.subplots(1, len(moves) + 1, figsize=(4 * (len(moves) + 1), 3.2))
    for axis, move in zip(axes, moves, strict=False):
        for chain in sorted({int(row["chain"]) for row in traces}):
            mine = [row for row in traces if row["moves"] == move and row["chain"] == chain]
            axis.plot([row["sweep"] for row in mine], [row["q"] for row in mine], lw=0.7)
        axis.set(title=f"{move}: its slowest q", xlabel="sweep", ylim=(0, 1))
        axes[-1].plot([r["lag"] for r in correlations], [r[move] for r in correlations], color=COLORS[move], label=move)
    axes[-1].axhline(0, color="black", lw=0.8)
    axes[-1].set(title="autocorrelation of that q", xlabel="lag, sweeps")
    axes[-1].legend(fontsize=8)
    save(figure, path)


def plot_all(sections: list[Section], folder: Path) -> None:
    """All figures for which there are results."""
    tables = {name: rows for section in sections for name, rows in section.tables.items()}
    if "speed_growth" in tables:
        plot_growth(tables["speed_growth"], folder / "speed_growth.png")
        plot_threads(tables["speed_threads_by_cases"], folder / "speed_threads.png")
    if "mixing_moves" in tables:
        plot_ess(tables["mixing_moves"], folder / "mixing_ess.png")
        plot_traces(tables["mixing_traces"], tables["mixing_autocorrelation"], folder / "mixing_traces.png")
