"""The page of results, written anew from what was measured."""

from __future__ import annotations

from measure import Row, Section, as_markdown, environment

HEAD = """# Benchmarks

Written by `make bench` on one machine; edit `benchmarks/report.py`, not this page. A ratio compares two
things measured in the same run, turn by turn: the median over the rounds of the ratio within a round. Times of one
thread are processor time of that thread; where threads matter, time by the clock. All tables are in `results/` as JSON.
"""

# Table -> what it shows. Tables that are not named here are in results/ only.
ABOUT = {
    "speed_update": """## Speed

### One update

Simulated data: 3 values per feature, each case is pieced together from 10 random parents, 30 % noise;
Model I, lam0 = 0.1, 10 neighbors expected; after 20 sweeps of warm-up, in which the steps adapt. A sweep
updates z and w of every case, then q and q-tilde by their own moves.""",
    "speed_models": """### Model by model

P = 13, the same data otherwise. In Model II the weight of a neighbor is the number of its features that are on, so that
the sum over w is a polynomial rather than a product. The models' sweeps differ in how many moves of q they make before
w is drawn again.""",
    "speed_threads": "### Two threads",
    "speed_threads_by_cases": "Model I, complete sweep, by number of cases:",
    "speed_straight_lines": """### As the problem grows

One of N, S and P grows and the others stay; 10 neighbors are expected throughout. Straight lines through the costs of
Model I:""",
    "mixing_good_settings": """## Mixing

### Heart data, all parents, 5 neighbors expected

297 complete rows, each a case and a candidate parent of all others; gamma = 5, sigma1 = 2, sigma2 = 5; 4 chains on 2
threads. Sweeps are per chain, after warm-up; seconds are for all chains, warm-up included; ESS is for all chains
together.""",
    "mixing_moves": """### What the joint move is worth

lam0 = 0.5. A sweep can move q, q-tilde and w only one given the others; the joint move proposes q_j and q-tilde_:j with
w_:j summed out.""",
    "mixing_paper_settings": """### The paper's settings

80 parents at random, the other 217 rows as cases; gamma = sigma1 = 0.5, lam0 = mu0 = 0.001, sigma2 = 5. The paper has
alpha = 0.5: 40 of the 80 parents are expected to be neighbors of a case.""",
    "mixing_engines": """### Beside the paper's sampler

20 cases and 10 parents of the heart data, few enough for the paper's sampler to come near convergence (see its
R-hat); Model I, alpha = 0.3, lam0 = 0.5, gamma = 2, sigma1 = 2, sigma2 = 5; 4 chains on one thread, one engine
after the other.""",
    "prediction_cost": """## Prediction

New cases under a fitted model, one thread, beside as many updates of the sampler as parents x features x draws used ask
for.""",
    "prediction_seconds": "Seconds by the clock, default settings of `PatchworkClassifier`, heart data, 2 threads:",
    "fitting_growth": """## Fits

`PatchworkClassifier()` with its default settings, tuning and leave-one-out included, two threads; columns of
numbers, all cases are parents.""",
    "explaining_seconds": """## Explanations

`explain_all` by the clock, default settings, heart data, 2 threads; reliance is a prediction of its own for each past
case that is named.""",
    "memory": """## Memory

The peak of a fresh process less what it held before its first call of `sample`, with Numba and the engine imported and
the data made. Kernels come from the cache on disk. Loading them, and the packages behind the diagnostics, takes memory
whatever the size of the problem: what a tiny problem adds. Where xarray is installed (the extra `arviz`), arviz-stats
loads it and pandas too, though R-hat and ESS do without.""",
    "scale": """## A hundred thousand cases

The size of the readmission data, simulated; 5 neighbors expected, 2 threads; a few sweeps in a fresh process.
"Computed" is `bayespatch.sampling.memory_needed.bytes_needed`, which `sample` holds against the memory that is
available before it begins; "with 500 draws" adds what the draws of a complete run take to the peak that was
measured.""",
    "scale_parents": "Choosing parents, and how far the cases are from the most similar one:",
    "gpu_sizes": """## On a GPU

`python benchmarks/gpu.py` on an H200 (see docs/gpu.md): Model I, 5 neighbors expected, complete sweeps. One core of the
GPU's host was timed in the same run, on 2,000 of the cases. The arithmetic limit is the time of one multiply-add
and one product for each case, parent and feature on all lanes of the GPU, and of nothing else.""",
    "gpu_models": "The models, at the first of these sizes:",
    "casebase_seconds": """## The case base

A SQLite file on disk, `synchronous=FULL`; cases with 13 features, each drawn from the values of the heart data. Every
search leaves its row in the audit log, which is part of its time.""",
    "casebase_search": "Searches, 50 cases a page; by the clock, and the time that the processor was busy with it:",
    "casebase_consult": "A consultation explains, and keeps what it showed; heart data, default settings:",
    "startup": """## First call

Fresh processes; the first has an empty cache of compiled kernels, the later ones find it full. Median of 5.""",
}
FIGURES = {
    "speed_straight_lines": ["speed_growth.png"],
    "speed_threads_by_cases": ["speed_threads.png"],
    "mixing_moves": ["mixing_ess.png", "mixing_traces.png"],
}


def page(sections: list[Section], results: str, quick: bool) -> str:
    """The whole page; `results` is the folder of the figures, as seen from the page."""
    findings = [finding.row() for section in sections for finding in section.findings]
    n_met = sum(row["met"] == "yes" for row in findings)
    warning = "**A quick run, at sizes that say nothing: only to see that everything runs.**\n"
    head = [HEAD, warning] if quick else [HEAD]
    parts = [*head, f"## Targets: {n_met} of {len(findings)} met\n", as_markdown(findings), "", *conditions()]
    tables = {name: rows for section in sections for name, rows in section.tables.items()}
    for name, about in ABOUT.items():
        if name not in tables:
            continue
        parts += [about, "", as_markdown(tables[name]), *remark(name, tables[name]), ""]
        for figure in FIGURES.get(name, []):
            parts += [f"![{figure.removesuffix('.png').replace('_', ' ')}]({results}/{figure})", ""]
    return "\n".join(parts)


def conditions() -> list[str]:
    """Where the numbers come from."""
    said = ", ".join(f"{name} {value}" for name, value in environment().items())
    return [f"Measured with: {said}.", ""]


def remark(name: str, rows: list[Row]) -> list[str]:
    """What follows from a table."""
    if name == "speed_threads_by_cases":
        paying = [
            int(row["cases"]) for k, row in enumerate(rows) if all(float(r["times faster"]) > 1 for r in rows[k:])
        ]
        said = f"from {paying[0]} cases on" if paying else "at none of these sizes"
        return ["", f"Two threads pay {said}."]
    if name == "mixing_moves":
        gains = [
            f"{float(after['ESS per 1000 sweeps']) / float(before['ESS per 1000 sweeps']):.3g} times per sweep and "
            f"{float(after['ESS per second']) / float(before['ESS per second']):.3g} times per second in Model "
            f"{before['model']}"
            for before, after in zip(rows[::2], rows[1::2], strict=True)
        ]
        return ["", f"The move raises the smallest ESS of q {'; '.join(gains)}."]
    return []
