"""How well it predicts: cross-validated, beside the usual classifiers, on the same folds in one run.

``python benchmarks/quality.py --suite FOLDER --readmission FILE`` compares on the bundled tables, the CSV files of the
folder (target last, blank is missing) and a class-balanced sample of the readmission table, then on a simulated
multiclass table, and takes the paper's settings to the defaults step by step. Every fold of every model is kept in
``--work`` as soon as it is finished, so that an interrupted run goes on where it ended; ``--anew`` forgets those of the
models chosen by ``--only``, after a change to ours, say. The page is docs/quality.md, written by this program.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import baselines
import numpy as np
import scores
from baselines import ABLATION, KNN, MODELS, OURS, Make, has_ebm
from joblib import Parallel, delayed
from measure import Finding, Section, as_markdown, as_text, environment, say
from scores import Result, by_repeat, difference_table, mean_table, score_table
from sets import Table, available, breast, heart, multiclass
from sklearn.model_selection import StratifiedKFold
from threadpoolctl import threadpool_limits

HOME = Path(__file__).parent
PARTS = ("comparison", "multiclass", "ablation")
RIVALS = ("logistic regression", KNN, "random forest", "EBM")
SHORT = dict(chains=1, draws=20, warmup=20)  # chains of a quick run
SMALL = ("heart", "breast", "hepatitis", "pima_diabetes", "haberman", "mammographic")  # those that targets are set for
BEGIN, END = "<!-- written by benchmarks/quality.py: begin -->", "<!-- written by benchmarks/quality.py: end -->"


Run = Callable[..., list[Result]]  # all folds of some models on some tables; repeats can be given


class Task(NamedTuple):
    """One fold of one table for one model."""

    table: Table
    repeat: int
    fold: int
    folds: int
    model: str
    make: Make

    def path(self, work: Path) -> Path:
        """Where its result is kept."""
        words = "".join(letter if letter.isalnum() else "-" for letter in self.model)
        split = f"{self.repeat}-{self.fold}of{self.folds}"
        return work / f"{self.table.name}-{self.table.digest}" / words / f"{split}.json"

    def run(self, work: Path) -> Result:
        """Fit, predict, and keep the probabilities of the fold."""
        X, y = self.table.X, self.table.y
        splitter = StratifiedKFold(self.folds, shuffle=True, random_state=self.repeat)
        train, test = list(splitter.split(X, y))[self.fold]
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")
            began = time.perf_counter()
            model = self.make(X.iloc[train], self.repeat).fit(X.iloc[train], y[train])
            fitted = time.perf_counter()
            p = np.asarray(model.predict_proba(X.iloc[test]), dtype=np.float64)
            done = time.perf_counter()
        if p.shape != (len(test), y.max() + 1) or not np.isfinite(p).all():
            raise ValueError(f"{self.model} on {self.table.name}: its probabilities have shape {p.shape}, or are none")
        result = {
            "table": self.table.name,
            "repeat": self.repeat,
            "fold": self.fold,
            "model": self.model,
            "seconds": [fitted - began, done - fitted],
            "y": y[test].tolist(),
            "p": p.round(7).tolist(),
        }
        write(self.path(work), json.dumps(result) + "\n")
        return result


def write(path: Path, text: str) -> None:
    """All of a file or nothing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


def run_all(tasks: list[Task], work: Path, jobs: int) -> list[Result]:
    """The results of all tasks in their order; those that are there already are read."""
    finished = {task.path(work): task for task in tasks if task.path(work).exists()}
    missing = [task for task in tasks if task.path(work) not in finished]
    say(f"{len(tasks)} fits, {len(finished)} of them finished earlier")
    began = time.perf_counter()
    runs: Iterator[Result] = Parallel(n_jobs=jobs, return_as="generator_unordered")(
        delayed(task.run)(work) for task in missing
    )
    for k, result in enumerate(runs, start=1):
        where = f"{result['table']}, repeat {result['repeat']}, fold {result['fold']}"
        left = (time.perf_counter() - began) / k * (len(missing) - k) / 60
        say(f"  {k}/{len(missing)} {where}, {result['model']}: {sum(result['seconds']):.1f} s; {left:.0f} min left")
    return [json.loads(task.path(work).read_text(encoding="utf-8")) for task in tasks]


def tasks_of(tables: list[Table], models: dict[str, Make], repeats: int, folds: int) -> list[Task]:
    """Fold by fold, so that all models of a fold meet the same machine."""
    splits = [(table, r, f) for table in tables for r in range(repeats) for f in range(folds)]
    return [Task(t, r, f, folds, name, make) for t, r, f in splits for name, make in models.items()]


# The parts


def comparison(section: Section, run: Run, tables: list[Table], models: dict[str, Make]) -> None:
    found = by_repeat(run(tables, models))
    names = [table.name for table in tables]
    section.tables["mean over the tables"] = mean_table(found, names)
    for score in ("AUC", "log loss"):
        rows = difference_table(found, names, score)
        if rows:
            section.tables[f"{score} of others less ours"] = rows
    for name in names:
        section.tables[name] = score_table(found, name)
    small = [name for name in names if name in SMALL]
    if OURS not in models or not small:
        return

    def mean(model: str, score: str) -> float:
        return float(np.mean([found[name, model][score].mean() for name in small]))

    for rival in (rival for rival in RIVALS if rival in models):
        for score, at_most in (("AUC", False), ("log loss", True)):
            what = f"mean {score}, {len(small)} small tables, beside {rival}"
            section.findings.append(Finding(what, mean(OURS, score), mean(rival, score), at_most))
    what = f"mean calibration error, {len(small)} small tables"
    section.findings.append(Finding(what, mean(OURS, "calibration error"), 0.06, at_most=True))


def many_classes(section: Section, run: Run, models: dict[str, Make]) -> None:
    chosen = {name: make for name, make in models.items() if name in (OURS, KNN)}
    found = by_repeat(run([multiclass()], chosen, repeats=1))
    section.tables["multiclass"] = score_table(found, "multiclass")
    if len(chosen) == 2:
        for score, at_most in (("AUC", False), ("log loss", True)):
            own, other = (float(found["multiclass", name][score].mean()) for name in (OURS, KNN))
            section.findings.append(Finding(f"{score}, multiclass, beside {KNN}", own, other, at_most))


def ablation(section: Section, run: Run) -> None:
    found = by_repeat(run([heart(), breast()], ABLATION, repeats=1))  # the paper's settings are slow
    for name in dict.fromkeys(name for name, _ in found):
        section.tables[f"ablation, {name}"] = score_table(found, name)


# The page


def page(section: Section, said: list[str]) -> str:
    """What stands between the marks on the page."""
    findings = [finding.row() for finding in section.findings]
    lines = [f"Written by `{' '.join(said)}`. Every model has one thread.", ""]
    lines += [(scores.__doc__ or "").partition("\n\n")[2].strip(), "", (baselines.__doc__ or "").strip(), ""]
    if findings:
        lines += ["## Targets", "", as_markdown(findings), ""]
    for name, rows in section.tables.items():
        lines += [f"## {name[0].upper()}{name[1:]}", "", as_markdown(rows), ""]
    measured = ", ".join(f"{name} {value}" for name, value in environment().items())
    return "\n".join([*lines, f"Measured with: {measured}."])


def put_on_page(path: Path, text: str) -> None:
    """Replace what is between the marks; the rest of the page is by hand."""
    old = path.read_text(encoding="utf-8") if path.exists() else f"# Quality of predictions\n\n{BEGIN}\n{END}\n"
    if BEGIN not in old or END not in old:
        raise ValueError(f"{path} does not have the marks {BEGIN} and {END}; put them where the tables should stand")
    write(path, old.partition(BEGIN)[0] + f"{BEGIN}\n\n{text}\n\n{END}" + old.partition(END)[2])


def main() -> None:
    options = parse_options()
    makers = available(options.suite, options.readmission)
    unknown = [name for name in options.sets or [] if name not in makers]
    if unknown:
        sys.exit(f"--sets: {', '.join(unknown)} not known; there are {', '.join(makers)}")
    models = {name: make for name, make in MODELS.items() if name in options.only}
    if "EBM" in models and not has_ebm():
        say("EBM is left out: interpret-core is not installed (pip install interpret-core)")
        del models["EBM"]

    def run(tables: list[Table], chosen: dict[str, Make], repeats: int = options.repeats) -> list[Result]:
        if options.quick:
            own = {OURS, *ABLATION}
            chosen = {name: partial(make, **SHORT) if name in own else make for name, make in chosen.items()}
        tasks = tasks_of(tables, chosen, repeats, options.folds)
        if options.anew:
            for task in tasks:
                task.path(options.work).unlink(missing_ok=True)
        return run_all(tasks, options.work, options.jobs)

    section = Section("quality")
    if "comparison" in options.parts:
        comparison(section, run, [makers[name]() for name in options.sets or makers], models)
    if "multiclass" in options.parts:
        many_classes(section, run, models)
    if "ablation" in options.parts:
        ablation(section, run)

    said = ["python", "benchmarks/quality.py", *(shlex.quote(Path(word).name) for word in sys.argv[1:])]
    results = options.out or HOME / "results"
    write(results / "quality.json", section.to_json())
    put_on_page(options.out / "quality.md" if options.out else HOME.parent / "docs" / "quality.md", page(section, said))
    for name, rows in {"targets": [finding.row() for finding in section.findings], **section.tables}.items():
        if rows:
            say(f"\n{name}\n{as_text(rows)}")


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--suite", type=Path, metavar="FOLDER", help="further tables: CSV, target last, blank missing")
    parser.add_argument("--readmission", type=Path, metavar="FILE", help="UCI's diabetic_data.csv, also compressed")
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="compare on these tables only")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="run these parts only")
    parser.add_argument("--only", nargs="+", choices=list(MODELS), default=list(MODELS), metavar="MODEL",
                        help=f"run these models only ({', '.join(MODELS)})")  # fmt: skip
    parser.add_argument("--repeats", type=int, help="of the cross-validation (default: 3)")
    parser.add_argument("--folds", type=int, help="of a cross-validation (default: 5)")
    parser.add_argument("--jobs", type=int, default=1, help="fits at a time")
    parser.add_argument("--anew", action="store_true", help="forget finished folds of the chosen tables and models")
    parser.add_argument("--work", type=Path, metavar="FOLDER",
                        help="where finished folds are kept (default: .benchmarks/quality)")  # fmt: skip
    parser.add_argument("--out", type=Path, metavar="FOLDER",
                        help="where page and results go (default: docs and results; if quick, temporary)")  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="one repeat of two folds, short chains: to see that it runs"
    )
    options = parser.parse_args()
    options.repeats = options.repeats or (1 if options.quick else 3)
    options.folds = options.folds or (2 if options.quick else 5)
    if options.repeats < 1 or options.folds < 2 or options.jobs == 0:
        parser.error("--repeats must be at least 1, --folds at least 2, --jobs not 0")
    if options.quick and options.out is None:
        options.out = Path(tempfile.mkdtemp(prefix="quality-"))
        say(f"page and results go to {options.out}")
    options.work = options.work or (options.out if options.quick else HOME.parent / ".benchmarks") / "quality"
    return options


if __name__ == "__main__":
    main()
