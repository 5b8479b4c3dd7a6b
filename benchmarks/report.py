"""Generates the page of results from the measurements."""

from __future__ import annotations

from measure import Row, Section, as_markdown, environment

HEAD = """# Benchmarks

Written by `make bench` on one machine; edit `benchmarks/report.py`, not this page. A ratio compares two quantities
measured alternately in the same run: it is the median over rounds of the ratio within a round. Times with one thread
are processor times of that thread; times with several threads are wall-clock times. All tables are in `results/` as
JSON.
"""

# Table -> its description. Tables without a description are only in results/.
ABOUT = {
    "speed_update": """## Speed

### One update

Simulated data: 3 values per feature, each case is assembled from 10 random parents, 30% noise; Model I, lam0 = 0.1, 10
expected neighbors; after 20 warm-up sweeps, in which the step sizes adapt. A sweep updates z and w of every case, and
then moves q and q-tilde.""",
    "speed_models": """### Model by model

P = 13, otherwise the same data. In Model II, the weight of a neighbor is the number of its features that are on, so
the sum over w is a polynomial instead of a product. The sweeps of the models differ in the number of moves of q before
w is drawn again.""",
    "speed_threads": "### Two threads",
    "speed_threads_by_cases": "Model I, complete sweep, by number of cases:",
    "speed_straight_lines": """### As the problem grows

One of N, S and P grows while the others stay fixed, always with 10 expected neighbors. Straight lines through the costs
of Model I:""",
    "mixing_good_settings": """## Mixing

### Heart data, all parents, 5 expected neighbors

297 complete rows, each a case and a candidate parent of all the others; gamma = 5, sigma1 = 2, sigma2 = 5; 4 chains on
2 threads. Sweeps are per chain, after warm-up; seconds are for all chains, including warm-up; ESS is for all chains
combined.""",
    "mixing_moves": """### Benefit of the joint move

lam0 = 0.5. A sweep moves q, q-tilde and w only one at a time, given the others; the joint move proposes q_j and
q-tilde_:j with w_:j summed out.""",
    "mixing_paper_settings": """### The paper's settings

80 random parents, the other 217 rows as cases; gamma = sigma1 = 0.5, lam0 = mu0 = 0.001, sigma2 = 5. With alpha = 0.5,
as in the paper, 40 of the 80 parents are expected to be neighbors of a case.""",
    "mixing_engines": """### Comparison with the paper's sampler

20 cases and 10 parents of the heart data, few enough for the paper's sampler to almost converge (see its R-hat);
Model I, alpha = 0.3, lam0 = 0.5, gamma = 2, sigma1 = 2, sigma2 = 5; 4 chains on one thread, one engine at a time.""",
    "prediction_cost": """## Prediction

New cases under a fitted model on one thread, compared with the same number of sampler updates (parents x features x
draws used).""",
    "prediction_seconds": "Wall-clock seconds, default settings of `PatchworkClassifier`, heart data, 2 threads:",
    "fitting_growth": """## Fits

`PatchworkClassifier()` with its default settings, including tuning and leave-one-out predictions, on two threads.
All columns are numbers, and all cases are parents.""",
    "explaining_seconds": """## Explanations

Wall-clock times of `explain_all` with the default settings, heart data, 2 threads. Reliance needs an additional
prediction for each past case that is shown.""",
    "memory": """## Memory

The peak memory of a fresh process minus its memory before the first call of `sample`, when Numba and the engine are
imported and the data exist. Kernels are loaded from the cache on disk. Loading them and the packages needed for the
diagnostics takes the same memory for any problem; the tiny problem shows how much. If xarray is installed (the extra
`arviz`), arviz-stats also loads xarray and pandas, although R-hat and ESS do not need them.""",
    "scale": """## A hundred thousand cases

Simulated data of the size of the readmission data; 5 expected neighbors, 2 threads; a few sweeps in a fresh process.
"Computed" is the estimate `bayespatch.sampling.memory_needed.bytes_needed`, which `sample` compares with the available
memory before it starts; "with 500 draws" is the measured peak plus the memory for the draws of a complete run.""",
    "scale_parents": "Choice of parents, and the distance of the cases from the most similar parent:",
    "gpu_sizes": """## On a GPU

`python benchmarks/gpu.py` on an H200 (see docs/gpu.md): Model I, 5 expected neighbors, complete sweeps. One core of the
GPU's host was timed in the same run, on 2,000 of the cases. The arithmetic limit is the time for only one multiply-add
and one product per case, parent and feature on all lanes of the GPU.""",
    "gpu_models": "The models at the first of these sizes:",
    "casebase_seconds": """## The case base

A SQLite file on disk with `synchronous=FULL`; cases with 13 features, each drawn from the values of the heart data. The
times of searches include the entry in the audit log.""",
    "casebase_search": "Searches with 50 cases per page, in wall-clock and processor time:",
    "casebase_consult": "A consultation computes an explanation and stores it; heart data, default settings:",
    "startup": """## First call

Fresh processes: the first starts with an empty cache of compiled kernels, the others with a full one. Median of 5.""",
}
FIGURES = {
    "speed_straight_lines": ["speed_growth.png"],
    "speed_threads_by_cases": ["speed_threads.png"],
    "mixing_moves": ["mixing_ess.png", "mixing_traces.png"],
}


def page(sections: list[Section], results: str, quick: bool) -> str:
    """The whole page; `results` is the folder of the figures, relative to the page."""
    findings = [finding.row() for section in sections for finding in section.findings]
    n_met = sum(row["met"] == "yes" for row in findings)
    warning = "**A quick test run, with sizes too small for meaningful results.**\n"
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
    """The hardware and software of the measurements."""
    text = ", ".join(f"{name} {value}" for name, value in environment().items())
    return [f"Measured with: {text}.", ""]


def remark(name: str, rows: list[Row]) -> list[str]:
    """A conclusion from a table."""
    if name == "speed_threads_by_cases":
        paying = [int(row["cases"]) for k, row in enumerate(rows) if all(float(r["speedup"]) > 1 for r in rows[k:])]
        return ["", f"Two threads are faster {f'from {paying[0]} cases on' if paying else 'at none of these sizes'}."]
    if name == "mixing_moves":
        gains = [
            f"{float(after['ESS per 1000 sweeps']) / float(before['ESS per 1000 sweeps']):.3g} times per sweep and "
            f"{float(after['ESS per second']) / float(before['ESS per second']):.3g} times per second in Model "
            f"{before['model']}"
            for before, after in zip(rows[::2], rows[1::2], strict=True)
        ]
        return ["", f"The move raises the smallest ESS of q {'; '.join(gains)}."]
    return []
