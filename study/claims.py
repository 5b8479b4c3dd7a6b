"""The paper's claims, checked in our runs: each verdict is computed from the tables, with its uncertainty.

Two methods are compared on the same folds with a paired t-test. Because folds share training cases, standard errors are
somewhat too small, so read "true" with caution. "Undecided" means that five folds with a few hundred patients are not
enough to tell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from study.protocol import BALANCED, OURS, SETTINGS
from study.tables import Table

Tables = Mapping[str, Table]
COHORTS = ("heart", "breast")
LEVEL = 0.95
TRUE, FALSE, UNDECIDED = "true in our runs", "not true in our runs", "undecided"


class Difference(NamedTuple):
    """Mean of paired differences, its standard error, and the number of pairs."""

    mean: float
    error: float
    n: int

    @classmethod
    def between(cls, ours: list[float], theirs: list[float]) -> Difference:
        """The difference between two lists over the same folds."""
        if len(ours) != len(theirs) or len(ours) < 2:
            raise ValueError(
                f"{len(ours)} and {len(theirs)} folds cannot be paired; pass at least two folds, the same for both"
            )
        differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
        return cls(float(differences.mean()), float(differences.std(ddof=1) / np.sqrt(len(differences))), len(ours))

    @property
    def limit(self) -> float:
        """The largest difference explained by chance (two-sided, 95%)."""
        return float(stats.t.ppf((1 + LEVEL) / 2, self.n - 1)) * self.error

    @property
    def sign(self) -> int:
        """1 if significantly larger, -1 if significantly smaller, 0 if explained by chance."""
        return self.sign_among(1)

    def sign_among(self, n_compared: int) -> int:
        """As `sign`, for one of several differences, any of which may be large by chance (Bonferroni)."""
        p = 2 * stats.t.sf(abs(self.mean) / self.error, self.n - 1) if self.error > 0 else float(self.mean == 0)
        return 0 if p >= (1 - LEVEL) / n_compared else 1 if self.mean > 0 else -1

    def __str__(self) -> str:
        return f"{self.mean:+.3f} ± {self.error:.3f} (n={self.n})"

    def verdict(self) -> str:
        """Whether the first method is better."""
        return {1: TRUE, -1: FALSE, 0: UNDECIDED}[self.sign]

    def verdict_of_not_worse(self, margin: float) -> str:
        """Whether the first method is at most `margin` worse than the second."""
        if self.mean - self.limit > -margin:
            return TRUE
        return FALSE if self.mean + self.limit < -margin or (self.sign < 0 and self.mean < -margin) else UNDECIDED


@dataclass(frozen=True)
class Claim:
    """A claim in the paper, the tables for checking it, and the check."""

    text: str
    where: str
    needs: tuple[str, ...]
    check: Callable[[Tables], tuple[str, str]]  # verdict, evidence


FOLDS = tuple(f"{cohort}-folds" for cohort in COHORTS)
OTHERS = tuple(f"{cohort}-others-folds" for cohort in COHORTS)
MARGIN = 0.02  # two patients in a hundred, for "similar" and "comparable"


def by_fold(table: Table, measure: str, **where: Any) -> list[float]:
    """A measure in each fold of each cohort: the mean over all rows with these values, so that a fold counts once."""
    values: dict[tuple[str, int], list[float]] = {}
    for record in table.where(**where).records():
        values.setdefault((record["cohort"], record["fold"]), []).append(record[measure])
    return [float(np.mean(values[key])) for key in sorted(values)]


def models(tables: Tables, measure: str = "accuracy", **where: Any) -> list[float]:
    """A measure of our models over the folds of both cohorts."""
    return [value for name in FOLDS for value in by_fold(tables[name], measure, **where)]


def _by_setting(compare: Callable[[str, str], Difference]) -> tuple[str, str]:
    """Evidence in each setting. The verdict uses the accuracy with the paper's constants and balanced parents."""
    lines = [f"{s}: accuracy {compare(s, 'accuracy')}, AUC {compare(s, 'auc')}" for s in SETTINGS]
    return compare(BALANCED, "accuracy").verdict(), "; ".join(lines)


def second_better_than_first(tables: Tables) -> tuple[str, str]:
    """Compare Model II with Model I."""
    return _by_setting(
        lambda setting, measure: Difference.between(
            models(tables, measure, setting=setting, model="II"), models(tables, measure, setting=setting, model="I")
        )
    )


def supervised_better(tables: Tables) -> tuple[str, str]:
    """Compare supervised with unsupervised learning in Models I and II."""

    def values(setting: str, measure: str, learning: str) -> list[float]:
        one, two = (models(tables, measure, setting=setting, model=m, learning=learning) for m in ("I", "II"))
        return [(a + b) / 2 for a, b in zip(one, two, strict=True)]

    return _by_setting(
        lambda setting, measure: Difference.between(
            values(setting, measure, "supervised"), values(setting, measure, "unsupervised")
        )
    )


def third_is_bad(tables: Tables) -> tuple[str, str]:
    """Compare Model III with the mean of Models I and II."""

    def compare(setting: str, measure: str) -> Difference:
        one, two, three = (models(tables, measure, setting=setting, model=m) for m in ("I", "II", "III"))
        return Difference.between([(a + b) / 2 for a, b in zip(one, two, strict=True)], three)

    verdict, evidence = _by_setting(compare)
    return verdict, f"mean of I and II minus III: {evidence}"


def extremes_are_guesses(tables: Tables) -> tuple[str, str]:
    """Compare the AUC for alpha = 0 and 1 with one half."""
    table = tables["sensitivity-alpha"]
    lines, verdicts = [], []
    for value in (0, 1):
        for model in ("I", "II"):
            rows = table.where(value=value, model=model)
            auc = by_fold(rows, "auc")
            difference = Difference.between(auc, [0.5] * len(auc))
            guess = difference.sign <= 0 or difference.mean < MARGIN
            verdicts.append(guess)
            accuracy = float(np.mean(rows.column("accuracy")))
            lines.append(f"alpha={value}, Model {model}: accuracy {accuracy:.2f}, AUC minus 0.5 {difference}")
    verdict = TRUE if all(verdicts) else FALSE if not any(verdicts) else "partly true"
    return verdict, "; ".join(lines)


def more_parents_help(tables: Tables) -> tuple[str, str]:
    """Compare the largest S with the smallest."""
    table = tables["sensitivity-parents"]
    values = sorted(set(table.column("value")))
    differences = {
        measure: Difference.between(by_fold(table, measure, value=values[-1]), by_fold(table, measure, value=values[0]))
        for measure in ("accuracy", "auc")
    }
    return differences[
        "accuracy"
    ].verdict(), f"S={values[-1]} minus S={values[0]}: accuracy {differences['accuracy']}, AUC {differences['auc']}"


def half_half_is_best(tables: Tables) -> tuple[str, str]:
    """Compare (.5, .5) with each of the other shapes of the prior."""
    table = tables["sensitivity-shape"]
    base = "(0.5, 0.5)"
    found = {
        value: Difference.between(by_fold(table, "accuracy", value=base), by_fold(table, "accuracy", value=value))
        for value in dict.fromkeys(table.column("value"))
        if value != base
    }
    signs = [difference.sign for difference in found.values()]
    verdict = TRUE if min(signs) > 0 else FALSE if min(signs) < 0 else UNDECIDED
    return verdict, "(.5, .5) minus " + "; ".join(f"{value}: {difference}" for value, difference in found.items())


def top_three_suffice(tables: Tables) -> tuple[str, str]:
    """Compare the first three features with all features and with the next groups."""
    table = tables["ranked-features"]

    def accuracy(group: str) -> list[float]:
        return by_fold(table, "accuracy", features=group)

    top = Difference.between(accuracy("top 3"), accuracy("all"))
    later = [Difference.between(accuracy("top 3"), accuracy(g)) for g in ("next 3", "3 after these")]
    evidence = f"top 3 minus all: {top}; top 3 minus next 3: {later[0]}; top 3 minus the 3 after these: {later[1]}"
    return top.verdict_of_not_worse(MARGIN), evidence


def others_do_not_matter(tables: Tables) -> tuple[str, str]:
    """Compare each changed constant with the paper's."""
    table = tables["sensitivity-rest"]
    base = by_fold(table, "accuracy", value="as in the paper")
    differences = {
        value: Difference.between(by_fold(table, "accuracy", value=value), base)
        for value in dict.fromkeys(table.column("value"))
        if value != "as in the paper"
    }
    large = {v: d for v, d in differences.items() if d.sign_among(len(differences)) != 0 and abs(d.mean) > MARGIN}
    verdict = TRUE if not large else FALSE
    shown = large or dict(sorted(differences.items(), key=lambda item: -abs(item[1].mean))[:2])
    return verdict, ("changes: " if large else "the largest changes, explained by chance or below 0.02: ") + "; ".join(
        f"{value}: {difference}" for value, difference in shown.items()
    )


def not_worse_than_neighbors(tables: Tables) -> tuple[str, str]:
    """Compare Models I and II with KNN and its extensions with the same number of neighbors."""
    table = tables["knn"]
    lines, verdicts = [], []
    for method in ("KNN", "KNN, votes by distance", "KNN, features weighted"):
        found, auc = (
            Difference.between(by_fold(table, measure, method="Model II"), by_fold(table, measure, method=method))
            for measure in ("accuracy", "auc")
        )
        verdicts.append(found.verdict_of_not_worse(MARGIN))
        lines.append(f"Model II minus {method}: accuracy {found}, AUC {auc}")
    return _weakest(verdicts), "; ".join(lines)


def weights_help_neighbors(tables: Tables) -> tuple[str, str]:
    """Compare KNN with our importances as feature weights with plain KNN."""
    table = tables["knn"]
    found = Difference.between(
        by_fold(table, "accuracy", method="KNN, features weighted"), by_fold(table, "accuracy", method="KNN")
    )
    return found.verdict(), f"weighted minus plain: {found}"


def not_worse_than_case_model(tables: Tables) -> tuple[str, str]:
    """Compare Model II with the mean and the best of the variants of BCM."""
    ours = models(tables, setting=BALANCED, model="II", learning="supervised")
    variants = {method: values for method, values in _others(tables).items() if method.startswith("BCM")}
    mean = Difference.between(ours, np.mean(list(variants.values()), axis=0).tolist())
    best = max(variants, key=lambda method: float(np.mean(variants[method])))
    top = Difference.between(ours, variants[best])
    defaults = Difference.between(models(tables, setting=OURS, model="II", learning="supervised"), variants[best])
    evidence = (
        f"Model II minus the mean of {len(variants)} variants: {mean}; minus the best variant, {best}: {top}; "
        f"with our defaults, minus the best variant: {defaults}"
    )
    return mean.verdict_of_not_worse(MARGIN), evidence


def all_are_comparable(tables: Tables) -> tuple[str, str]:
    """Compare Model II with every other method: how many are significantly better or worse."""
    ours = models(tables, setting=BALANCED, model="II", learning="supervised")
    differences = {method: Difference.between(ours, values) for method, values in _others(tables).items()}
    signs = {method: difference.sign_among(len(differences)) for method, difference in differences.items()}
    worse, better = ([method for method, sign in signs.items() if sign == direction] for direction in (-1, 1))
    evidence = (
        f"of {len(differences)} methods, {len(worse)} are significantly better than Model II and {len(better)} "
        f"significantly worse"
    )
    named = f"; better: {', '.join(worse[:4])}" if worse else ""
    defaults = models(tables, setting=OURS, model="II", learning="supervised")
    ahead = [Difference.between(defaults, values).sign_among(len(differences)) for values in _others(tables).values()]
    named += f"; with our defaults, {ahead.count(-1)} are significantly better and {ahead.count(1)} worse"
    return TRUE if not worse else FALSE, evidence + named


def tree_ranks_otherwise(tables: Tables) -> tuple[str, str]:
    """Agreement between the rankings of Model II and of a decision tree."""
    table = tables["tree-ranking"]
    lines, shared = [], []
    for cohort in COHORTS:
        ranks = []
        for source in ("Model II", "decision tree"):
            rows = table.where(cohort=cohort, source=source)
            mean: dict[str, list[float]] = {}
            for record in rows.records():
                mean.setdefault(record["feature"], []).append(record["share"])
            ranks.append({feature: float(np.mean(values)) for feature, values in mean.items()})
        features = list(ranks[0])
        rho = stats.spearmanr([ranks[0][f] for f in features], [ranks[1][f] for f in features]).statistic
        tops = [set(sorted(r, key=lambda f, r=r: -r[f])[:3]) for r in ranks]  # type: ignore[misc]
        shared.append(len(tops[0] & tops[1]))
        lines.append(f"{cohort}: {shared[-1]} of the top 3 in common, rank correlation {rho:.2f}")
    return TRUE if max(shared) < 3 else FALSE, "; ".join(lines)


def slower_than_case_model(tables: Tables) -> tuple[str, str]:
    """Ratio of our milliseconds per sweep to BCM's, for the same S."""
    return _times(tables, "BCM", ("Model I", "Model II", "Model III"))


def second_slower_than_first(tables: Tables) -> tuple[str, str]:
    """Ratio of milliseconds per sweep, Model II to Model I."""
    return _times(tables, "Model I", ("Model II",))


def _times(tables: Tables, base: str, methods: tuple[str, ...]) -> tuple[str, str]:
    table = tables["time"].where(varied="S")
    reference = np.array(table.where(method=base).column("ms per sweep"))
    sizes = table.where(method=base).column("value")
    ratios = {m: np.array(table.where(method=m).column("ms per sweep")) / reference for m in methods}
    lines = [
        f"{m} / {base}: {', '.join(f'{r:.1f} (S={s})' for r, s in zip(v, sizes, strict=True))}"
        for m, v in ratios.items()
    ]
    every = np.concatenate(list(ratios.values()))
    return TRUE if (every > 1).all() else FALSE if (every < 1).all() else "partly true", "; ".join(lines)


def in_the_middle(tables: Tables) -> tuple[str, str]:
    """The rank of Model II among all methods on the readmission samples."""
    table = tables["readmission-folds"]
    ours = by_fold(table, "accuracy", method=f"Model II ({BALANCED})")
    methods = [method for method in dict.fromkeys(table.column("method")) if not method.startswith("Model")]
    rivals = {method: by_fold(table, "accuracy", method=method) for method in methods}
    means = [float(np.mean(values)) for values in rivals.values()]
    place, n = 1 + sum(mean > np.mean(ours) for mean in means), len(rivals) + 1
    signs = [Difference.between(ours, values).sign_among(len(rivals)) for values in rivals.values()]
    evidence = (
        f"Model II ranks {place} of {n} with {np.mean(ours):.3f}; the others have between {min(means):.3f} and "
        f"{max(means):.3f}; {signs.count(-1)} are significantly better and {signs.count(1)} significantly worse"
    )
    return UNDECIDED if not any(signs) else TRUE if n / 4 < place <= 3 * n / 4 else FALSE, evidence


def _others(tables: Tables) -> dict[str, list[float]]:
    """Accuracy of the other methods over the folds of both cohorts."""
    methods = dict.fromkeys(tables[OTHERS[0]].column("method"))
    return {m: [v for name in OTHERS for v in by_fold(tables[name], "accuracy", method=m)] for m in methods}


def _weakest(verdicts: list[str]) -> str:
    return FALSE if FALSE in verdicts else UNDECIDED if UNDECIDED in verdicts else TRUE


CLAIMS = (
    Claim("Model II is better than Model I", "tab:result1, tab:result2", FOLDS, second_better_than_first),
    Claim("Supervised is slightly better than unsupervised", "tab:result1, tab:result2", FOLDS, supervised_better),
    Claim("The top 3 features do as well as all", "fig:posteriorbox2", ("ranked-features",), top_three_suffice),
    Claim("More parents help", "subsec:sensS", ("sensitivity-parents",), more_parents_help),
    Claim("alpha = 0 and alpha = 1 amount to guessing", "fig:sensalpha", ("sensitivity-alpha",), extremes_are_guesses),
    Claim("(gamma, sigma1) = (.5, .5) is best", "fig:sensitgamma", ("sensitivity-shape",), half_half_is_best),
    Claim("The other constants matter little", "sec:sens", ("sensitivity-rest",), others_do_not_matter),
    Claim("BPatch is comparable with other methods", "tab:comparison1", (*FOLDS, *OTHERS), all_are_comparable),
    Claim("BPatch is at least as good as KNN and its extensions", "fig:comp3", ("knn",), not_worse_than_neighbors),
    Claim("Importance as feature weights slightly improves KNN", "subsec:featureimp", ("knn",), weights_help_neighbors),
    Claim("BPatch is at least as good as BCM", "fig:bcmcompare", (*FOLDS, *OTHERS), not_worse_than_case_model),
    Claim("A decision tree selects different features", "fig:comd31", ("tree-ranking",), tree_ranks_otherwise),
    Claim("On readmission BPatch is in the middle", "tab:readres", ("readmission-folds",), in_the_middle),
    Claim("Model III does not perform well", "Appendix, Model III", FOLDS, third_is_bad),
    Claim("A step of BPatch is slower than one of BCM", "fig:cpu1", ("time",), slower_than_case_model),
    Claim("Model I is faster than Model II", "fig:cpu1", ("time",), second_slower_than_first),
)
