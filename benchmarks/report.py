"""Write the page of benchmark results from the measurements."""

from __future__ import annotations

from textwrap import fill

from measure import Row, Section, as_markdown, environment

HEAD = """# Benchmarks

`make bench` writes this page from measurements on one machine; edit `benchmarks/report.py`, not this page. Tasks that
are compared run alternately in the same run; a ratio is the median over the rounds of the ratios within each round.
Single-threaded times are processor times of the thread; times with several threads are wall-clock times. `results/`
contains all tables as JSON.
"""

# Table -> introductory text. Tables that are not listed here are in results/ only.
ABOUT = {
    "speed_update": """## Speed

### One update

Simulated data with 3 values per feature; each case consists of parts of 10 random parents, with 30% noise. Model I,
lam0 = 0.1, 10 expected neighbors; measured after a warm-up of 20 sweeps, in which the step sizes adapt. A sweep updates
z and w of every case, and then q and q-tilde with separate moves.""",
    "speed_models": """### Models I, II and III

P = 13, otherwise the same data. In Model II, the weight of a neighbor is the number of its features that matter, so the
sum over w is a polynomial rather than a product. The models differ in the number of moves of q per sweep before w is
drawn again.""",
    "speed_threads": "### Two threads",
    "speed_threads_by_cases": "Model I, complete sweep, by number of cases:",
    "speed_straight_lines": """### Growth with problem size

One of N, S and P grows while the other two are fixed; 10 neighbors are expected throughout. R² of straight lines fitted
to the times of Model I:""",
    "mixing_good_settings": """## Mixing

### Heart data, all parents, 5 expected neighbors

297 complete rows, each of them a case and a candidate parent of all others; gamma = 5, sigma1 = 2, sigma2 = 5; 4 chains
on 2 threads. Sweeps are per chain, after warm-up; seconds are for all chains, including warm-up; ESS is for all chains
together.""",
    "mixing_moves": """### Effect of the joint move

lam0 = 0.5. Without the move, a sweep updates q, q-tilde and w only conditionally on each other. The joint move proposes
q_j and q-tilde_:j together, with w_:j summed out.""",
    "mixing_paper_settings": """### The paper's settings

80 random parents, the other 217 rows as cases; gamma = sigma1 = 0.5, lam0 = mu0 = 0.001, sigma2 = 5. The paper uses
alpha = 0.5, so 40 of the 80 parents are expected to be neighbors of a case.""",
    "mixing_engines": """### Comparison with the paper's sampler

20 cases and 10 parents of the heart data, few enough for the paper's sampler to come close to convergence (see its
R-hat); Model I, alpha = 0.3, lam0 = 0.5, gamma = 2, sigma1 = 2, sigma2 = 5; 4 chains on one thread, one engine
after the other.""",
    "prediction_cost": """## Prediction

Prediction of new cases with a fitted model on one thread, compared with the same number of sampler updates: parents x
features x draws.""",
    "prediction_seconds": "Wall-clock times with the default settings of `PatchworkClassifier`, heart data, 2 threads:",
    "fitting_growth": """## Fits

`PatchworkClassifier()` with default settings, including tuning and leave-one-out, on two threads; numeric columns, all
cases are parents.""",
    "explaining_seconds": """## Explanations

Wall-clock times of `explain_all` with default settings, heart data, 2 threads. Reliance takes a separate prediction for
each past case that is named.""",
    "memory": """## Memory

The peak memory of a fresh process minus its memory before the first call of `sample`, when Numba, the engine and the
data are already loaded. Kernels come from the cache on disk. Loading them and the packages behind the diagnostics takes
memory whatever the size of the problem: this is the memory added by a tiny problem. If xarray is installed (the extra
`arviz`), arviz-stats loads it together with pandas, although R-hat and ESS need neither.""",
    "scale": """## A hundred thousand cases

Simulated data of the size of the readmission data; 5 expected neighbors, 2 threads; a few sweeps in a fresh process.
"Estimated" is `bayespatch.sampling.memory_needed.bytes_needed`, which `sample` compares with the available memory
before it starts. "With 500 draws" is the measured peak plus the memory for the draws of a complete run.""",
    "scale_parents": "Time for choosing parents, and the distance of the cases from the most similar parent:",
    "gpu_sizes": """## On a GPU

`python benchmarks/gpu.py` on an H200 (see docs/gpu.md): Model I, 5 expected neighbors, complete sweeps. One core of the
GPU's host was timed in the same run, on 2,000 of the cases. The arithmetic limit is the time that all lanes of the GPU
need for one multiply-add and one product per case, parent and feature, and nothing else.""",
    "gpu_models": "The three models, for the first of these sizes:",
    "casebase_seconds": """## The case base

A SQLite file on disk, `synchronous=FULL`; cases with 13 features, each drawn from the values of the heart data. Every
search adds a row to the audit log, which is included in its time.""",
    "casebase_search": "Searches with 50 cases per page, in wall-clock and processor time:",
    "casebase_consult": "A consultation computes an explanation and stores it. Heart data, default settings:",
    "startup": """## First call

Fresh processes; the cache of compiled kernels is empty for the first process and full for later ones. Median of 5.""",
}
FIGURES = {
    "speed_straight_lines": ["speed_growth.png"],
    "speed_threads_by_cases": ["speed_threads.png"],
    "mixing_moves": ["mixing_ess.png", "mixing_traces.png"],
}


def page(sections: list[Section], results: str, quick: bool) -> str:
    """The whole page; `results` is the path of the figures relative to the page."""
    findings = [finding.row() for section in sections for finding in section.findings]
    n_met = sum(row["met"] == "yes" for row in findings)
    warning = (
        "**Results of a quick run, whose sizes are too small to be meaningful; it only shows that everything runs.**\n"
    )
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
    """Hardware and package versions."""
    versions = ", ".join(f"{name} {value}" for name, value in environment().items())
    return [fill(f"Measured with: {versions}.", 120), ""]


def remark(name: str, rows: list[Row]) -> list[str]:
    """A sentence that summarizes a table, if any."""
    if name == "speed_threads_by_cases":
        paying = [int(row["cases"]) for k, row in enumerate(rows) if all(float(r["speedup"]) > 1 for r in rows[k:])]
        sizes = f"with {paying[0]} cases or more" if paying else "at none of these sizes"
        return ["", f"Two threads are faster {sizes}."]
    if name == "mixing_moves":
        gains = [
            f"in Model {before['model']} by a factor of "
            f"{float(after['ESS per 1000 sweeps']) / float(before['ESS per 1000 sweeps']):.3g} per sweep and "
            f"{float(after['ESS per second']) / float(before['ESS per second']):.3g} per second"
            for before, after in zip(rows[::2], rows[1::2], strict=True)
        ]
        return ["", fill(f"The move raises the smallest ESS of q {'; '.join(gains)}.", 120)]
    return []
