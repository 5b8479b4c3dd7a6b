"""The truth checks must be able to fail: small mistakes, planted in the source of the kernels, are found.

The package is copied, one piece of its source is replaced, and the copy is held against the exact posterior in a
process of its own. Where the other updates of a sweep all but repair the damage (w summed out of a move for q is drawn
again in the next update of the case), a closer look is taken: a test of the kernel itself. A mutant that crashes does
not count as found. The same checks pass on a copy that is left as it is.
"""

import os
import pickle
import re
import shutil
import subprocess
import sys
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest

from bayespatch.engine import digest_of_sources

ROOT = Path(__file__).parents[2]
N_DRAWS = 1000  # of each of 4 chains; four times as many where the first find something
N_AT_ONCE = 2  # processes
GIVEN = "tests/statistical/test_given_importances.py"
CLOSED = "tests/retrieval/test_votes.py"
PARTS = "tests/retrieval/test_partitions.py"
COMPILED = ("engine", "retrieval")  # packages with kernels


class Check(NamedTuple):
    """What to hold against the exact posterior: a problem and a model."""

    problem: str
    kind: str
    likelihood: str = "exact"
    supervised: bool = True


class Bug(NamedTuple):
    """One mistake: what stands in the source, what is put in its place, and the check that must find it."""

    old: str
    new: str
    check: Check | str  # a string: a test of the kernels


BUGS = {
    # the votes of a case
    "own vote is not taken away": Bug(
        "cast_votes(c, x, x_parents, feature, votes, bits, i, b, s, -k)",
        "cast_votes(c, x, x_parents, feature, votes, bits, i, b, s, -0.0 * k)",
        Check("binary", "I"),
    ),
    "the entry that fills the gap leaves its w behind": Bug(
        "bits[s, word] = bits[n, word]", "bits[s, word] = bits[s, word]", Check("crowd", "II")
    ),
    "stale ratios after a new neighbor": Bug(
        "class_votes[m] += k\n        refresh_features(c, x, feature, votes, by_weight, i)\n",
        "class_votes[m] += k\n",
        Check("binary", "I"),
    ),
    "a parent with a missing value votes": Bug(
        "votes[TOTAL, j] += vote if x_parents[b, j] != PARENT_MISSING else 0.0",
        "votes[TOTAL, j] += vote",
        Check("missing", "I"),
    ),
    "a case is its own neighbor": Bug("if b == own:", "if b == own and b < 0:", Check("exclude_self", "I")),
    # the likelihood
    "every feature has two values": Bug(
        "feature[1, :n_features] = data.n_values * hyper.lam0 + one",
        "feature[1, :n_features] = 2 * hyper.lam0 + one",
        Check("many_values", "I"),
    ),
    "agree and differ are swapped": Bug(
        "gain = a if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else d",
        "gain = d if abs(x_parents[b, j] - x[i, j]) <= feature[WINDOW, j] else a",
        Check("binary", "I"),
    ),
    "the paper's likelihood lacks its one above the line": Bug(
        "c1=float(hyper.lam0 + one)", "c1=float(hyper.lam0)", Check("binary", "I", "paper")
    ),
    "a hidden label counts as class 0": Bug(
        "    if y < 0:\n        return 1.0\n", "    y = max(y, 0)\n", Check("hidden_label", "I")
    ),
    "one mu for all classes": Bug(
        "np.stack([model.hyper.mu_per_class(data.n_classes), model.hyper.mu0_per_class(data.n_classes)])",
        "np.stack([np.full(data.n_classes, np.mean(model.hyper.mu)), model.hyper.mu0_per_class(data.n_classes)])",
        Check("many_values", "I"),
    ),
    "one mu0 for all classes": Bug(
        "np.stack([model.hyper.mu_per_class(data.n_classes), model.hyper.mu0_per_class(data.n_classes)])",
        "np.stack([model.hyper.mu_per_class(data.n_classes), np.full(data.n_classes, np.mean(model.hyper.mu0))])",
        Check("hidden_label", "I"),
    ),
    # w
    "w is drawn from q-tilde, whatever the data": Bug(
        "on *= 1.0 + (votes[R_AGREE, j] if same else votes[R_DIFFER, j])",
        "on *= 1.0",
        "tests/engine/test_kernels.py::test_w_is_drawn_from_its_conditional[I]",
    ),
    "Model II: never all features": Bug(
        "for k in range(degree, min(top, degree + top - 1 - j) + 1):",
        "for k in range(degree, min(top, degree + top - 1 - j)):",
        "tests/engine/test_kernels.py::test_factor_is_the_sum_over_w[1-II-exact]",
    ),
    "Model II: the way back forgets one": Bug(
        "< on * prefix[j, left - 1]:", "< on * prefix[j, left]:", Check("many_values", "II")
    ),
    "Model II: the bound is too small": Bug(
        "bound = scale * max(1.0, label_factor[m, c.n_features])",
        "bound = 0.5 * scale * max(1.0, label_factor[m, c.n_features])",
        Check("binary", "II"),
    ),
    "Model II: the bound forgets that H may fall": Bug(
        "bound = scale * max(1.0, label_factor[m, c.n_features])",
        "bound = scale * label_factor[m, c.n_features]",
        Check("many_values", "II"),
    ),
    # kappa
    "Model III: the bound is too small": Bug(
        "label = max(1.0, label_ratio(c, mu, class_votes, y, m, 1.0))",
        "label = 0.5 * max(1.0, label_ratio(c, mu, class_votes, y, m, 1.0))",
        Check("binary", "III"),
    ),
    "the rough bound is too small": Bug(
        "label = label_factor[m, 1]", "label = 0.7 * label_factor[m, 1]", Check("binary", "I")
    ),
    "the rough bound is that of the votes before": Bug(
        "        stale = True\n        parent[n] = b\n",
        "        parent[n] = b\n",
        "tests/engine/test_cases.py::test_a_bound_changes_no_draw",
    ),
    "Model III: the current kappa is no candidate": Bug(
        "current if r == 0 and current >= 0.0 else beta", "beta", Check("rare_influence", "III")
    ),
    "Model III: one candidate is not counted": Bug(
        "c.prior_odds * total / N_CANDIDATES",
        "c.prior_odds * total / (N_CANDIDATES - 1)",
        Check("binary", "III"),
    ),
    # random numbers
    "uniform numbers end at 0.9": Bug("TO_UNIT = 2.0**-53", "TO_UNIT = 0.9 * 2.0**-53", Check("binary", "I")),
    "a small gamma number is not made small": Bug(
        "boost = math.log(uniform_positive(rng)) / shape",
        "boost = 0.0 * math.log(uniform_positive(rng))",
        Check("small_shapes", "I"),
    ),
    "all cases use the same random numbers": Bug(
        "i, n, key_of(key, numbers[i]),",
        "i, n, key_of(key, 0),",
        "tests/engine/test_cases.py::test_equal_cases_are_independent",
    ),
    # q and q-tilde given w
    "q-tilde counts on as off": Bug(
        "beta_shape(logit_q[j], sigma2) + s, sigma2 + n_neighbors[b] - s",
        "beta_shape(logit_q[j], sigma2) + n_neighbors[b] - s, sigma2 + s",
        Check("small_shapes", "I"),
    ),
    "the slice is cut at another level": Bug(
        "+ math.log(uniform_positive(rng))",
        "+ 0.5 * math.log(uniform_positive(rng))",
        "tests/engine/test_importance.py::test_slices_follow_the_density",
    ),
    "the density of logit q lacks its change of scale": Bug(
        "log = -gamma * softplus(-logit) - sigma1 * softplus(logit)",
        "log = -(gamma - 1.0) * softplus(-logit) - (sigma1 - 1.0) * softplus(logit)",
        Check("binary", "I"),
    ),
    # q and q-tilde with w summed out
    "the move forgets the prior of q": Bug(
        "return np.asarray(log_each.sum(axis=0) + after - before)",
        "return np.asarray(log_each.sum(axis=0))",
        "tests/engine/test_cpu.py::test_a_move_is_weighed_by_the_prior_of_q",
    ),
    "the joint move keeps the old q-tilde": Bug(
        "importance[row, b, j] = proposed[row, b, j]",
        "pass",
        "tests/engine/test_cpu.py::test_the_move_draws_w_from_the_new_importance",
    ),
    "a second move begins where the first began": Bug(
        "                logits[b, j] = logits_new[b, j]\n",
        "",
        "tests/engine/test_cpu.py::test_moves_go_on_from_where_the_last_one_led",
    ),
    "a second move is compared with what was before the first": Bug(
        "self.likelihood[0][:, features] = self.likelihood[1][:, features]",
        "pass",
        "tests/engine/test_cpu.py::test_moves_go_on_from_where_the_last_one_led",
    ),
    "a proposal that is refused does not turn round": Bug(
        "state.step[first:last][~accepted] *= -1.0", "state.step[first:last][~accepted] *= 1.0", Check("binary", "I")
    ),
    "a number that is carried does not keep its place": Bug(
        "lowered += lower * ((shape + k) / (shape_new + k))",
        "lowered += lower",
        "tests/engine/test_importance.py::test_a_number_from_the_prior_is_carried_to_the_prior",
    ),
    "a number is carried as if it were not known": Bug(
        "total = log_gamma(rng, shape + sigma2)",
        "total = log_gamma(rng, shape)",
        "tests/engine/test_importance.py::test_a_number_from_the_prior_is_carried_to_the_prior",
    ),
    "a number of large shape is carried as if it were not known": Bug(
        "gamma(rng, shape + sigma2)\n        below",
        "gamma(rng, shape)\n        below",
        "tests/engine/test_importance.py::test_a_number_from_the_prior_is_carried_to_the_prior",
    ),
    "the way there raises, the way back does not": Bug(
        "return 0 if min(shape, shape_new) >= RISE else RISE",
        "return 0 if shape >= RISE else RISE",
        "tests/engine/test_importance.py::test_a_number_from_the_prior_is_carried_to_the_prior",
    ),
    "what a carried number has of its shape alone is forgotten": Bug(
        "log[b, r] = change + rest",
        "log[b, r] = change",
        "tests/engine/test_importance.py::test_parents_from_the_prior_are_carried_at_no_cost",
    ),
    "Model I: one vote too many below the line": Bug(
        "total[j] += weight[pair, j] * (", "total[j] += weight[pair, j] * place[pair, j] * (", Check("binary", "I")
    ),
    "the copied value is never found": Bug(
        "(uniform(rng) < on[s]) | (s == source)",
        "uniform(rng) < on[s]",
        "tests/statistical/test_sums_over_w.py::test_w_is_redrawn_from_its_conditional",
    ),
    "Model I: of two nodes the first is always chosen": Bug(
        "below - below % 2 + second, below % 2 == 1",
        "below - below % 2, below % 2 == 1",
        "tests/statistical/test_sums_over_w.py::test_w_is_redrawn_from_its_conditional",
    ),
    "Model I: a parent whose value is missing loses its w with the nodes": Bug(
        "        if on_rows[s, j] != chance[s, j]:\n            vote[s] = -1.0\n",
        "",
        "tests/statistical/test_sums_over_w.py::test_w_is_redrawn_from_its_conditional",
    ),
    "Model II: the drawn w forgets the label": Bug(
        "math.log(ratio * label_change(c, mu, class_votes, y[i]))",
        "math.log(ratio)",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: the drawn w forgets the other features": Bug(
        "ratio *= feature_change(c, feature[C2, f], votes, f)",
        "ratio *= 1.0",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: w that is on counts twice": Bug(
        "k[s] = float(n_on(bits, s) - is_on(bits, s, j) + 1)",
        "k[s] = float(n_on(bits, s))",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: the tilt counts in the sum alone": Bug(
        "label_change(c, mu, class_votes, y[i])) - linear",
        "label_change(c, mu, class_votes, y[i]))",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: entries that do not vote are not summed": Bug(
        "ratio *= silent_sum(on, off, vote, n)",
        "ratio *= 1.0",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: another w is kept than was weighed": Bug(
        "set_bit(bits_i, s, j, drawn[i, s])",
        "set_bit(bits_i, s, j, drawn[i, 0])",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: votes do not follow w": Bug(
        "kept_i[0], bits_i, i, b, s, k + more)",
        "kept_i[0], bits_i, i, b, s, k)",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    "Model II: the tilt depends on the w that is summed out": Bug(
        "feature, votes[0], bits, i, parent[s], s, -1.0)",
        "feature, votes[0], bits, i, parent[s], s, -0.0)",
        "tests/statistical/test_sums_over_w.py::test_the_tilt_is_how_the_others_change_to_first_order",
    ),
    "Model III: who copies is forgotten to have a weight": Bug(
        "vote[s] = c.lam * k[s] if agrees(",
        "vote[s] = c.lam if agrees(",
        "tests/statistical/test_sums_over_w.py::test_log_ratio_is_that_of_sums_over_w",
    ),
    # everything else given q
    "q-tilde stays as it is, given q": Bug(
        "self.draw_q_tilde(state, key, *self.count_neighbors(state))",
        "pass",
        f"{GIVEN}::test_the_sweep_given_q_has_the_exact_conditional_posterior[I-exact-binary]",
    ),
    # votes on new cases
    "the replacement forgets the label": Bug(
        "stretch_multiply(case.odds, voters.start[m], voters.start[m + 1], case.lead[m])",
        "pass",
        f"{GIVEN}::test_votes_given_q_tilde_are_exact[many_values-exact-known]",
    ),
    "births are too likely": Bug(
        "if uniform(rng) * (n + 1) < total:",
        "if uniform(rng) * max(n, 1) < total:",
        f"{GIVEN}::test_votes_given_q_tilde_are_exact[crowd-exact-hidden]",
    ),
    "deaths are too likely": Bug(
        "if uniform(rng) * total < n:",
        "if uniform(rng) * total < n + 1:",
        f"{GIVEN}::test_votes_given_q_tilde_are_exact[crowd-exact-hidden]",
    ),
    "a new neighbor's w is drawn whatever the data": Bug(
        "if uniform(rng) * (1.0 - q + on) < on:",
        "if uniform(rng) < q:",
        "tests/engine/test_voting.py::test_w_of_a_new_neighbor_is_drawn_from_its_posterior",
    ),
    "a neighbor that is replaced leaves its votes behind": Bug(
        "cast_votes(voters, case, parent[k], bits[k], -1.0)",
        "cast_votes(voters, case, parent[k], np.uint64(0), -1.0)",
        f"{GIVEN}::test_votes_given_q_tilde_are_exact[many_values-exact-hidden]",
    ),
    "a vote does not count itself below the line": Bug(
        "all_votes = cast + voters.mu[MU, m]",
        "all_votes = cast + 0.5 * voters.mu[MU, m]",
        f"{GIVEN}::test_votes_given_q_tilde_are_exact[many_values-exact-hidden]",
    ),
    "a case's missing value is compared": Bug(
        "        if not case.observed[j]:\n",
        "        if not case.observed[j] and j < 0:\n",
        f"{GIVEN}::test_votes_given_q_tilde_are_exact[missing-exact-hidden]",
    ),
    "excluded parents vote": Bug(
        "        if excluded[b]:\n",
        "        if excluded[b] and b < 0:\n",
        f"{GIVEN}::test_votes_without_excluded_parents_are_exact",
    ),
    "a new case votes on itself": Bug(
        "    if own >= 0:\n        case.available[own] = 0.0",
        "    if own >= len(case.available):\n        case.available[own] = 0.0",
        f"{GIVEN}::test_a_case_is_not_among_its_own_voters",
    ),
    # how well past cases predict each other
    "a past case predicts itself": Bug(
        "        if pairs.own[i] >= 0:\n",
        "        if pairs.own[i] >= n_parents:\n",
        "tests/engine/test_leave_one_out.py",
    ),
    "the slope is not anchored at the base rates": Bug(
        "slope * math.log(share[m]) + (1.0 - slope) * math.log(pairs.base[m])",
        "slope * math.log(share[m])",
        "tests/engine/test_leave_one_out.py",
    ),
    # votes in closed form
    "closed form: the last past case of a block does not vote": Bug(
        "last = min(first + ADDED, n)",
        "last = min(first + ADDED, n - 1)",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: the third key and those after it do not count": Bug(
        "for c in range(2, rows.shape[0]):",
        "for c in range(3, rows.shape[0]):",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: comparisons share a bit": Bug(
        "np.uint16(1 << k)", "np.uint16(1 << max(k - 1, 0))", f"{CLOSED}::test_votes_are_those_of_enumeration"
    ),
    "closed form: the smallest code that agrees does not": Bug(
        "(values[b] >= lowest)", "(values[b] > lowest)", f"{CLOSED}::test_votes_are_those_of_enumeration"
    ),
    "closed form: a past case that is left out votes": Bug(
        "kept[excluded[at] - first] = False",
        "kept[excluded[at] - first] = True",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: the bound of a past case is that of its worst draw": Bug(
        "most += upper[rows[c, b]]", "most += lower[rows[c, b]]", f"{CLOSED}::test_votes_are_those_of_enumeration"
    ),
    "closed form: the best past case is taken in its best draw": Bug(
        "best = max(best, least)",
        "best = max(best, most)",
        f"{CLOSED}::test_a_past_case_that_matters_in_one_draw_is_not_skipped",
    ),
    "closed form: nobody is negligible": Bug(
        "if kept[b] and above[b] >= least:",
        "if kept[b]:",
        f"{CLOSED}::test_past_cases_that_cannot_matter_are_skipped",
    ),
    "closed form: votes go to the class before": Bug(
        "add_block(tables, scratch, weight, first, n, shift, sums[m])",
        "add_block(tables, scratch, weight, first, n, shift, sums[m - 1])",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: a past case has the weight of another": Bug(
        "factor = np.float32(weight[first + places[b]])",
        "factor = np.float32(weight[first + b])",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: shares are given to those who were skipped": Bug(
        "at = first + places[b]",
        "at = first + b",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: shares of all chains are those of the first": Bug(
        "own, factor = weights[c * size : (c + 1) * size], scale[c * size : (c + 1) * size]",
        "own, factor = weights[:size], scale[:size]",
        f"{CLOSED}::test_shares_by_chain_are_those_of_its_draws",
    ),
    "closed form: the shift is told and not applied": Bug(
        "total[d] += factor * math.exp(scratch.logs[d] - shift[d])",
        "total[d] += factor * math.exp(scratch.logs[d])",
        f"{CLOSED}::test_totals_are_absolute",
    ),
    "closed form: parts are added whatever their shifts": Bug(
        "np.exp(np.minimum(part.shift - shift, 0.0))[:, None] for",
        "np.exp(0.0 * part.shift)[:, None] for",
        f"{CLOSED}::test_parts_add_up_to_the_whole",
    ),
    "parts: the first one alone votes": Bug(
        "return reduce(add, self._each(_vote,",
        "return reduce(lambda one, _: one, self._each(_vote,",
        f"{PARTS}::test_parts_are_the_whole",
    ),
    "parts: past cases are named by their rows in the part": Bug(
        "first + part.rows, k)",
        "part.rows, k)",
        f"{PARTS}::test_parts_are_the_whole",
    ),
    "parts: rows that are left out are those of the part": Bug(
        "self.positions[inside] - first]",
        "self.positions[inside] % index.n_cases]",
        f"{PARTS}::test_parts_are_the_whole",
    ),
    "closed form: a missing value of the case is compared": Bug(
        "no_match = np.isnan(x[:, j]) | (first > last)",
        "no_match = first > last",
        f"{CLOSED}::test_votes_are_those_of_enumeration",
    ),
    "closed form: a past case is not left out of its own prediction": Bug(
        "weights[excluded[at] - first] = 0.0",
        "weights[excluded[at] - first] *= 1.0",
        f"{CLOSED}::test_leave_one_out_scores_and_their_gradient",
    ),
    "closed form: rows with a bit are not folded into those without": Bug(
        "                by_row[r] += by_row[r + half]\n",
        "",
        f"{CLOSED}::test_leave_one_out_scores_and_their_gradient",
    ),
    "closed form: the derivatives of a key are in reverse": Bug(
        "sums[begin + k] = passed",
        "sums[begin + n_bits - 1 - k] = passed",
        f"{CLOSED}::test_leave_one_out_scores_and_their_gradient",
    ),
    "closed form: left-out cases are predicted without class weights": Bug(
        "weighted = self.sums[:, :, -1] * heard",
        "weighted = self.sums[:, :, -1]",
        f"{CLOSED}::test_leave_one_out_scores_and_their_gradient",
    ),
    "closed form: the gradient forgets that shares add up to one": Bug(
        "by_share - (by_share * raw).sum(axis=1, keepdims=True)",
        "by_share",
        f"{CLOSED}::test_leave_one_out_scores_and_their_gradient",
    ),
}

# Runs checks one after another; says of each what was found. An error that is not a failed assertion ends it.
PROGRAM = """
import sys
from pathlib import Path

import pytest

import bayespatch
from bayespatch.engine.cpu import CpuEngine
from bayespatch.model import Model
from tests.montecarlo import check_against_exact
from tests.problems import PROBLEMS, unsupervised


def hold_against_exact(problem, kind, likelihood, supervised):
    data, hyper = PROBLEMS[problem]()
    data = data if supervised else unsupervised(data)
    try:
        check_against_exact(CpuEngine, data, Model(kind, likelihood, hyper), n_draws, seed=0)
    except AssertionError as error:
        if not str(error).startswith(f"Model {kind}, {likelihood} likelihood"):
            raise
        return f"{len(str(error).splitlines()) - 1} means, {str(error).splitlines()[1]}"
    return "nothing"


class Failures:
    def __init__(self):
        self.found = []

    def pytest_exception_interact(self, node, call):
        if call.excinfo.type is not AssertionError:
            raise SystemExit(f"{node.name}: {call.excinfo.exconly()}")
        self.found.append(node.name)


def run_test(name):
    failures = Failures()
    code = pytest.main([name, "-q", "-p", "no:cacheprovider", "--no-summary"], plugins=[failures])
    if code not in (0, 1):
        raise SystemExit(f"{name}: pytest ended with {code}")
    return ", ".join(failures.found) or "nothing"


folder, n_draws, checks = sys.argv[1], int(sys.argv[2]), eval(sys.argv[3])
assert Path(bayespatch.__file__).is_relative_to(folder), bayespatch.__file__
for check in checks:
    found = run_test(check) if isinstance(check, str) else hold_against_exact(*check)
    print(f"\\nRESULT {check}: found {found}", flush=True)
"""


def run_checks(package: Path, checks: list[Check | str]) -> list[str]:
    """What the checks find in the copy of the package that lies in the folder, one line each."""
    plain = [check if isinstance(check, str) else tuple(check) for check in checks]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(package), str(N_DRAWS), repr(plain)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(package), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory) -> Path:
    """A folder with a copy of the package as it is, its kernels not yet compiled."""
    folder = tmp_path_factory.mktemp("healthy")
    shutil.copytree(ROOT / "src/bayespatch", folder / "bayespatch", ignore=shutil.ignore_patterns("__pycache__"))
    return folder


@pytest.fixture(scope="module")
def findings_of_healthy(healthy) -> list[str]:
    """What all the checks find where nothing is wrong. Afterwards the kernels of `healthy` are compiled."""
    return run_checks(healthy, sorted({bug.check for bug in BUGS.values()}, key=str))


def sources_of(package: Path) -> list[Path]:
    """The modules of the packages with kernels."""
    return [path for name in COMPILED for path in (package / name).rglob("*.py")]


def callers(package: Path, source: Path) -> set[Path]:
    """The modules whose compiled code may contain code of the module: itself, and who imports it, directly or not."""
    known = {source}
    while True:
        imports = []
        for path in known:
            name = ".".join(["bayespatch", *path.relative_to(package).with_suffix("").parts])
            parent, _, module = name.rpartition(".")
            imports.append(rf"from {re.escape(name)} import|from {re.escape(parent)} import [^\n]*\b{module}\b")
        pattern = "|".join(imports)
        more = {path for path in sources_of(package) if re.search(pattern, path.read_text())} - known
        if not more:
            return known
        known |= more


def restamp(index: Path, stamp: str) -> None:
    """Let compiled code count as that of other sources: Numba's index is a version, then a stamp and what there is."""
    with index.open("rb") as file:
        version = pickle.load(file)
        _, overloads = pickle.loads(file.read())
    index.write_bytes(pickle.dumps(version, protocol=-1) + pickle.dumps((stamp, overloads), protocol=-1))


def plant(bug: Bug, healthy: Path, folder: Path) -> None:
    """A copy of the healthy package with the bug in it, and without the compiled code that the bug may touch.

    Everything else is copied ready-made. (Compiled code that should have been dropped would let the bug live, and so
    fail its test.)
    """
    shutil.copytree(healthy, folder)
    package = folder / "bayespatch"
    sources = [path for path in sources_of(package) if bug.old in path.read_text()]
    assert len(sources) == 1, f"{bug.old!r} stands in {[path.name for path in sources]}, not in one file"
    (source,) = sources
    text = source.read_text()
    assert text.count(bug.old) == 1, f"{bug.old!r} stands {text.count(bug.old)} times in {source.name}"
    source.write_text(text.replace(bug.old, bug.new))
    for caller in callers(package, source):
        for compiled in (caller.parent / "__pycache__").glob(f"{caller.stem}.*.nb[ci]"):
            compiled.unlink()
    stamp = "".join(digest_of_sources(package / name) for name in COMPILED)
    for index in package.rglob("*.nbi"):
        restamp(index, stamp)


@pytest.fixture(scope="module")
def findings(request, healthy, findings_of_healthy, tmp_path_factory) -> dict[str, Future[list[str]]]:
    """What the check of each selected bug finds: two processes at work while the tests wait for their results."""
    selected = [item.callspec.params["name"] for item in request.session.items if hasattr(item, "callspec")
                and item.path == request.path]  # fmt: skip
    folder = tmp_path_factory.mktemp("planted")

    def find(number: int, bug: Bug) -> list[str]:
        plant(bug, healthy, folder / str(number))
        return run_checks(folder / str(number), [bug.check])

    pool = ThreadPoolExecutor(N_AT_ONCE)
    yield {name: pool.submit(find, number, BUGS[name]) for number, name in enumerate(selected)}
    pool.shutdown(cancel_futures=True)


def test_nothing_is_found_where_nothing_is_wrong(findings_of_healthy):
    assert len(findings_of_healthy) == len({bug.check for bug in BUGS.values()})
    assert [line for line in findings_of_healthy if not line.endswith(": found nothing")] == []


@pytest.mark.parametrize("name", BUGS)
def test_planted_bug_is_found(findings, name):
    (line,) = findings[name].result()
    print(line)
    assert not line.endswith(": found nothing"), line
