"""Groups of voters: they hold nearly all votes, share what they state, and find subgroups that are there."""

from itertools import combinations

import numpy as np
import pytest

from bayespatch import PatchworkClassifier, datasets
from bayespatch.explain.groups import LEAST_VOTES, MOST_GROUPS, SHARED, VOTING, group_voters


def random_voters(seed, n=300, n_features=8, n_classes=3):
    rng = np.random.default_rng(seed)
    agrees = rng.random((n, n_features)) < rng.uniform(0.1, 0.9, n_features)
    importance = rng.uniform(0.1, 2.0, n_features)
    shares = np.exp(agrees @ importance + rng.normal(0, 0.2, n))
    return 0.99 * shares / shares.sum(), agrees, rng.integers(0, n_classes, n), n_classes, importance


@pytest.mark.parametrize("seed", range(20))
def test_groups_are_what_they_are_said_to_be(seed):
    shares, agrees, y, n_classes, importance = random_voters(seed)
    found = group_voters(shares, agrees, y, n_classes, importance)
    assert 2 <= len(found) <= MOST_GROUPS
    everyone = np.concatenate([group.members for group in found])
    assert len(set(everyone.tolist())) == len(everyone)
    assert sum(group.vote_share for group in found) >= VOTING * 0.99 - 1e-12
    for group in found:
        votes = shares[group.members]
        assert group.vote_share == pytest.approx(votes.sum())
        assert group.vote_share >= LEAST_VOTES * 0.99 - 1e-12
        for m in range(n_classes):
            assert group.votes[m] == pytest.approx(votes[y[group.members] == m].sum())
        assert agrees[group.members][:, list(group.differs)].sum() == 0
        share_all = agrees[group.members][:, list(group.shared)].all(axis=1)
        assert votes[share_all].sum() >= SHARED * votes.sum() - 1e-12
        assert np.all(np.diff(votes) <= 1e-15)
    for one, other in combinations(found, 2):
        common = [{j for j in group.shared if agrees[group.members, j].all()} for group in (one, other)]
        assert common[0] & set(other.differs) or common[1] & set(one.differs)
    assert [g.vote_share for g in found] == sorted([g.vote_share for g in found], reverse=True)


def test_subgroups_that_are_there_are_found():
    """Two kinds of voters: those who share the first two values with the case, and those who share the next two."""
    rng = np.random.default_rng(0)
    kind = np.repeat([0, 1], 100)
    agrees = rng.random((200, 6)) < 0.3
    agrees[kind == 0, :2], agrees[kind == 0, 2:4] = True, False
    agrees[kind == 1, :2], agrees[kind == 1, 2:4] = False, True
    shares = rng.dirichlet(np.full(200, 5.0))
    found = group_voters(shares, agrees, rng.integers(0, 2, 200), 2, np.array([1.0, 1.0, 1.0, 1.0, 0.2, 0.2]))
    for group in found:
        assert len(set(kind[group.members].tolist())) == 1
        expected = {0, 1} if kind[group.members[0]] == 0 else {2, 3}
        assert expected <= set(group.shared)


def test_nobody_votes():
    assert group_voters(np.zeros(3), np.ones((3, 2), bool), np.zeros(3, int), 2, np.ones(2)) == ()


def test_all_voters_are_alike():
    (group,) = group_voters(np.full(4, 0.25), np.ones((4, 2), bool), np.array([0, 1, 1, 1]), 2, np.ones(2))
    assert group.shared == (0, 1)
    assert group.votes.tolist() == [0.25, 0.75]


def two_seeds_table():
    return datasets.load_heart()[0].iloc[:-30]


@pytest.fixture(scope="module")
def two_seeds():
    X, y = datasets.load_heart()
    return [PatchworkClassifier(random_state=seed).fit(X.iloc[:-30], y.iloc[:-30]) for seed in (0, 1)], X.iloc[-30:]


def test_groups_add_up_to_the_votes(two_seeds):
    (clf, _), X = two_seeds
    for why in clf.explain_all(X):
        said = why.to_dict()
        rest = said["ungrouped"]
        base = clf.calibration_.base
        for m, (name, vote) in enumerate(said["prediction"]["votes"].items()):
            total = sum(group["vote_share"] * group["outcomes"][name] for group in said["groups"])
            total += rest["vote_share"] * rest["outcomes"][name] + said["base_rates"] * base[m]
            assert total == pytest.approx(vote, abs=1e-6)
        values = {feature["name"]: feature["value"] for feature in said["features"]}
        for group, members in zip(said["groups"], (list(g.rows) for g in why.groups), strict=True):
            rows = clf.schema_.describe_rows(two_seeds_table().iloc[members])
            for part in group["shared"]:
                shares = [row[part["feature"]] == values[part["feature"]] for row in rows]
                coded = next(c for c in clf.schema_.columns if c.name == part["feature"]).is_coded
                assert not coded or part["all"] == all(shares)
            for part in group["differs"]:
                others = {row[part["feature"]] for row in rows}
                assert values[part["feature"]] not in others
                assert part["value"] is None or others == {part["value"]}
            assert sum(group["counts"].values()) == group["size"]
            assert sum(group["outcomes"].values()) == pytest.approx(1.0)
            agrees = [group["closest"]["features"][part["feature"]] for part in group["shared"]]
            assert all(set(patch) == {"value", "agrees", "matters"} for patch in agrees)
        assert sum(group["vote_share"] for group in said["groups"]) >= 0.95


def test_another_seed_finds_the_same_groups(two_seeds):
    """At least 80 % of the votes are in groups that match."""
    models, X = two_seeds
    overlaps = []
    for one, two in zip(*(model.explain_all(X) for model in models), strict=True):
        first, second = ([set(group.rows) for group in why.groups] for why in (one, two))
        matched = sum(max((len(a & b) for b in second), default=0) for a in first)
        overlaps.append(matched / sum(map(len, first)))
    assert np.mean(overlaps) >= 0.8
