"""Past cases in parts vote as one index."""

import os
import pickle
import tempfile
from functools import partial

import numpy as np
import pandas as pd
import pytest

from bayespatch.encode import Schema
from bayespatch.encode.partitions import Part, Partitions
from bayespatch.persistence.atomic import StorageError
from bayespatch.persistence.mapped_arrays import map_arrays, write_arrays
from bayespatch.retrieval import (
    CaseIndex,
    LargestShares,
    LeftOut,
    PartitionedIndex,
    PartsInFiles,
    leave_one_out,
    vote,
    vote_shares,
)
from bayespatch.retrieval import partitions as module
from bayespatch.retrieval.past_part import PastPart
from tests.retrieval.test_votes import PROBLEMS, Problem


def given_arrays(x, y):
    return x, y


def in_parts(p, n_parts, **how):
    rows = np.array_split(np.arange(len(p.y)), n_parts)
    return PartitionedIndex.build(
        given_arrays, [(p.x[part], p.y[part]) for part in rows], p.index.n_classes, p.windows, **how
    )


def check(p, index, k=7, **how):
    """Votes, largest voters and leave-one-out scores are those of one index."""
    ranges = p.index.ranges(p.new)
    whole = vote(p.index, ranges, p.weights, left_out=p.left_out)
    out = LeftOut.of_rows(p.rows, p.groups)
    totals = index.vote(p.new, p.weights, left_out=out, **how)
    np.testing.assert_allclose(totals.shares(p.heard), whole.shares(p.heard), atol=1e-5)
    np.testing.assert_allclose(totals.log_total(), whole.log_total(), atol=2e-5)

    expected = np.empty((len(p.new), len(p.y)))
    expected[:, p.index.rows] = vote_shares(p.index, ranges, p.weights, whole, p.heard, left_out=p.left_out)[:, 0]
    largest = index.vote_shares(p.new, p.weights, totals, p.heard, k, left_out=out, **how)
    k = min(k, len(p.y))
    assert largest.rows.shape == largest.shares.shape == (len(p.new), k)
    np.testing.assert_allclose(largest.shares, -np.sort(-expected, axis=1)[:, :k], atol=1e-5)
    np.testing.assert_allclose(np.take_along_axis(expected, largest.rows, axis=1), largest.shares, atol=1e-5)
    assert all(len(set(rows)) == k for rows in largest.rows.tolist())
    np.testing.assert_allclose(largest.squares, (expected**2).sum(axis=1), atol=1e-5)

    rows = np.maximum(p.rows, 0)
    given = dict(slope=1.5, heard=p.heard, base=p.base, **how)
    stored = LeftOut.members(p.index, rows, p.groups)
    one = leave_one_out(p.index, p.index.ranges(p.x[rows]), p.y[rows], stored, p.weights[0], **given)
    many = index.leave_one_out(p.x[rows], p.y[rows], LeftOut.of_rows(rows, p.groups), p.weights[0], **given)
    for first, second in zip(one, many, strict=True):
        np.testing.assert_allclose(first, second, atol=1e-9)


@pytest.mark.parametrize("n_parts", [1, 2, 5])
@pytest.mark.parametrize("name", [name for name, how in PROBLEMS.items() if not how.get("own")])
def test_parts_are_the_whole(name, n_parts):
    p = Problem(0, **PROBLEMS[name])
    index = in_parts(p, n_parts)
    assert index.n_cases == len(p.y)
    np.testing.assert_array_equal(index.n_by_class, np.bincount(p.y, minlength=index.n_classes))
    np.testing.assert_array_equal(index.compares_missing, p.index.compares_missing)
    check(p, index)


def test_parts_without_rows_and_without_a_class():
    p = Problem(0, n_past=40, n_features=6, n_classes=3, groups=True)
    order = np.argsort(p.y, kind="stable")  # each part lacks classes
    p.x, p.y, p.groups = p.x[order], p.y[order], p.groups[order]
    p.index = CaseIndex.build(p.x, p.y, 3, p.windows)
    p.left_out = LeftOut.members(p.index, p.rows, p.groups)
    cuts = [slice(0, 9), slice(9, 9), slice(9, 40)]
    arguments = [(p.x[cut], p.y[cut]) for cut in cuts]
    check(p, PartitionedIndex.build(given_arrays, arguments, 3, p.windows))
    with pytest.raises(ValueError, match="the table has no parts"):
        PartitionedIndex.build(given_arrays, [], 3, p.windows)


def test_a_column_with_missing_values_in_one_part_alone():
    p = Problem(0, n_past=40, n_features=3, n_classes=2)
    p.x[20:, 0] = np.nan_to_num(p.x[20:, 0])
    p.x[0, 0] = np.nan
    p.index = CaseIndex.build(p.x, p.y, 2, p.windows)
    p.left_out = LeftOut.members(p.index, p.rows)
    index = in_parts(p, 2)
    assert not CaseIndex.build(p.x[20:], p.y[20:], 2, p.windows).compares_missing[0]
    assert index.compares_missing[0]
    check(p, index)
    check(p, in_parts(p, 2, has_missing=p.index.compares_missing))


def test_threads_and_batches_of_cases(monkeypatch):
    p = Problem(1, n_past=200, n_features=9, n_classes=2, groups=True)
    monkeypatch.setattr(module, "SHARES_AT_ONCE", 150)  # two cases at a time
    check(p, in_parts(p, 3), n_threads=2)


@pytest.mark.parametrize("n_parts", [1, 3])
def test_parts_in_files(n_parts, tmp_path):
    p = Problem(2, n_past=60, n_features=6, n_classes=3, groups=True)
    p.x[:, 0] = np.random.default_rng(0).normal(size=60)  # each has a value of its own
    values, ids = 10.0 * p.x, [f"patient {row}" for row in range(60)]
    rows = np.array_split(np.arange(60), n_parts)
    arguments = [(p.x[part], p.y[part], values[part], [ids[row] for row in part]) for part in rows]
    p.index = CaseIndex.build(p.x, p.y, 3, p.windows)
    p.new, p.left_out = p.x[np.maximum(p.rows, 0)], LeftOut.members(p.index, p.rows, p.groups)
    index = PartitionedIndex.build(given_all, arguments, 3, p.windows, in_files=True)
    folder = index.parts.folder
    check(p, index)
    asked = np.array([59, 3, 30, 3])
    some = index.cases(asked)
    np.testing.assert_array_equal(some.x, p.x[asked])
    np.testing.assert_array_equal(some.values, values[asked])
    assert (some.y.tolist(), some.ids) == (p.y[asked].tolist(), [ids[row] for row in asked])
    assert [rows.tolist() for rows in index.rows_with(values[[40, 2]])] == [[40], [2]]
    assert [rows.tolist() for rows in index.rows_with(values[[40]] + 0.5)] == [[]]

    with pytest.raises(TypeError, match="save the model with save"):
        pickle.dumps(index)
    digests = index.write(str(tmp_path))
    again = PartitionedIndex.of_parts(PartsInFiles(str(tmp_path), digests), n_parts, p.windows)
    again.parts.check()
    index.close()
    assert not os.path.exists(folder)
    check(p, again)
    check(p, pickle.loads(pickle.dumps(again)))
    damaged = again.parts.path(digests[-1])
    with open(damaged, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        file.write(b"x")
    with pytest.raises(StorageError, match="is damaged: its checksum differs"):
        again.parts.check()
    os.unlink(damaged)
    with pytest.raises(StorageError, match="this file of past cases is missing; put the folder"):
        again.parts.check()


def given_all(*arrays):
    return arrays


def test_a_part_that_cannot_be_read_leaves_no_files(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    p = Problem(2, n_past=20, n_features=2, n_classes=2)
    with pytest.raises(ValueError, match="the table has no column 'b'"):
        PartitionedIndex.build(second_fails, [(p.x, p.y), ("b",)], 2, p.windows, in_files=True)
    assert not os.listdir(tmp_path)


def second_fails(x, y=None):
    return fails(x) if y is None else (x, y)


def with_header(described, rest=b""):
    return len(described).to_bytes(8, "little") + described + rest


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"\xff" * 40,
        with_header(b"{}"),
        with_header(b"[]"),
        with_header(b"[" * 9000 + b"]" * 9000),
        with_header(b'{"a":' * 9000 + b"1" + b"}" * 9000),
        with_header(b'{"index.codes": 1}'),
        with_header(b'{"index.codes": {"dtype": "U8", "shape": [1, 1], "data_offsets": [0, 1e300]}}', b"x"),
    ],
)
def test_files_that_hold_no_part(bad, tmp_path):
    path = tmp_path / "part.cases"
    path.write_bytes(bad)
    with pytest.raises(StorageError, match="this is not a file of past cases"):
        PastPart.read(str(path))


FORGED = {
    "names.letters": lambda array: array * 0 + 255,
    "names.ends": lambda array: array - (array == array[0]),  # ends within a letter
    "index.levels": lambda array: array[::-1],
    "own.levels": lambda array: array * np.nan,
    "index.rows": lambda array: array * 0,
    "index.columns": lambda array: array + 9,
    "index.codes": lambda array: array * 0 + 255,
}


@pytest.mark.parametrize("name", FORGED)
def test_files_whose_content_contradicts_itself(name, tmp_path):
    path = str(tmp_path / "part.cases")
    x, y = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0]]), np.array([0, 1, 1])
    PastPart.build(x, y, x, ["é", "b", "c"], 2, [(1.0,), ()]).write(path)
    arrays = {key: array.copy() for key, array in map_arrays(path).items()}
    assert PastPart.read(path).cases(np.array([0])).ids == ["é"]
    arrays[name] = FORGED[name](arrays[name])
    write_arrays(path, arrays)
    with pytest.raises(StorageError, match="this is not a file of past cases"):
        PastPart.read(path)


def test_no_cases():
    p = Problem(1, n_past=20, n_features=3, n_classes=2)
    index = in_parts(p, 2)
    totals = index.vote(p.new[:0], p.weights)
    assert totals.sums.shape == (0, 2, 4)
    assert index.vote_shares(p.new[:0], p.weights, totals, p.heard, 3).rows.shape == (0, 3)


def test_equal_shares_go_by_row():
    shares = np.array([[0.1, 0.3, 0.1, 0.1, 0.3, 0.1]])
    rows = np.array([7, 5, 3, 9, 2, 1])
    assert LargestShares.of(shares, rows, 4).rows.tolist() == [[2, 5, 1, 3]]
    halves = [LargestShares.of(shares[:, half], rows[half], 4) for half in (slice(0, 3), slice(3, 6))]
    assert halves[0].merged(halves[1], 4).rows.tolist() == [[2, 5, 1, 3]]


# Tables


N = 150
RNG = np.random.default_rng(3)
TABLE = pd.DataFrame(
    {
        "age": RNG.normal(60, 10, N).round(1),
        "sex": RNG.choice(["f", "m"], N),
        "vessels": np.where(RNG.random(N) < 0.1, np.nan, RNG.integers(0, 4, N)),
        "outcome": RNG.choice(["sick", "well", "worse"], N),
    }
)
CLASSES = ["sick", "well", "worse"]


@pytest.fixture(scope="module")
def coded():
    """The schema, and a problem of the whole table, coded."""
    schema = Schema.learn(TABLE.drop(columns="outcome"), missing="ignore")
    p = Problem(0, n_past=N, n_features=3, n_classes=3)
    p.x, p.y = schema.encode(TABLE.drop(columns="outcome")).x, TABLE["outcome"].map(CLASSES.index).to_numpy()
    p.windows = [(window, *nested) for window, nested in zip(schema.windows.tolist(), schema.nested, strict=True)]
    p.index = CaseIndex.build(p.x, p.y, 3, p.windows)
    p.new = p.x[np.maximum(p.rows, 0)]
    p.weights = np.random.default_rng(0).uniform(0, 1, (4, len(p.index.columns)))
    p.left_out = LeftOut.members(p.index, p.rows)
    return schema, p


def indexed(table, coded, **how):
    schema, p = coded
    return PartitionedIndex.build(*table.coding(schema, CLASSES), 3, p.windows, **how)


def test_a_dask_data_frame(coded):
    dd = pytest.importorskip("dask.dataframe")
    from bayespatch.workers import computed

    each = partial(computed, scheduler=None)
    frame = dd.from_pandas(TABLE, npartitions=4)
    index = indexed(Partitions.of_dask(frame, "outcome", each), coded, each=each)
    assert len(index.first_row) == 5
    check(coded[1], index)


def parquet_files(folder):
    for k, rows in enumerate(np.array_split(np.arange(N), 3)):
        TABLE.iloc[rows].to_parquet(folder / f"part-{k}.parquet", index=False)
    return sorted(str(path) for path in folder.glob("*.parquet"))


def test_parquet_files(coded, tmp_path):
    pytest.importorskip("pyarrow")
    from bayespatch.source.parquet_parts import one_after_the_other, training_parts

    table = training_parts(parquet_files(tmp_path), "outcome", one_after_the_other)
    index = indexed(table, coded)
    assert len(index.first_row) == 4
    check(coded[1], index)


def test_what_is_wrong_with_a_part_is_said_with_its_name(coded):
    def table(frame):
        read = lambda part: Part(part.drop(columns="outcome"), part["outcome"])  # noqa: E731
        return Partitions((TABLE, frame), ("a.parquet", "b.parquet"), read, None)

    with pytest.raises(
        ValueError, match=r"b\.parquet: the outcome has the value 'dead', which is not one of the classes"
    ):
        indexed(table(TABLE.replace({"outcome": {"well": "dead"}})), coded)
    with pytest.raises(ValueError, match=r"b\.parquet: .*'sex'"):
        indexed(table(TABLE.drop(columns="sex")), coded)
    assert indexed(table(TABLE[:0]), coded).n_cases == N


# Workers


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0"
    ) as workers:
        yield workers


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_parts_on_workers(cluster, n_parts):
    p = Problem(0, **PROBLEMS["groups"])
    with in_parts(p, n_parts, scheduler=cluster.scheduler_address) as index:
        check(p, index)


def test_parquet_files_on_workers(coded, cluster, tmp_path):
    pytest.importorskip("pyarrow")
    from bayespatch.source.parquet_parts import training_parts

    table = training_parts(parquet_files(tmp_path), "outcome", None)
    with indexed(table, coded, scheduler=cluster.scheduler_address) as index:
        check(coded[1], index)
        holders = index.parts.client.who_has(index.parts.futures)
        assert len(holders) == 3
        assert all(len(workers) == 1 for workers in holders.values())  # no part is copied to another one


def test_a_dask_data_frame_of_an_active_client(coded, cluster):
    distributed = pytest.importorskip("distributed")
    dd = pytest.importorskip("dask.dataframe")
    with distributed.Client(cluster) as client:
        frame = dd.from_pandas(TABLE, npartitions=4).persist()
        index = indexed(Partitions.of_dask(frame, "outcome", None), coded, scheduler=cluster.scheduler_address)
        check(coded[1], index)
        index.close()
        assert client.status == "running"  # it was there before


def test_a_part_whose_worker_leaves_is_rebuilt(coded, tmp_path):
    pytest.importorskip("pyarrow")
    distributed = pytest.importorskip("distributed")
    from bayespatch.source.parquet_parts import training_parts

    table = training_parts(parquet_files(tmp_path), "outcome", None)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as workers,
        indexed(table, coded, scheduler=workers.scheduler_address) as index,
    ):
        check(coded[1], index)
        (holder,) = index.parts.client.who_has(index.parts.futures[:1]).values()
        gone = next(worker for worker in workers.workers.values() if worker.address in holder)
        workers.sync(gone.close, nanny=False)
        check(coded[1], index)


def test_a_part_whose_worker_leaves_during_a_vote_is_asked_again(coded, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    distributed = pytest.importorskip("distributed")
    from bayespatch import workers as bayespatch_workers
    from bayespatch.source.parquet_parts import training_parts

    monkeypatch.setattr(bayespatch_workers, "POLL_SECONDS", 0.2)
    table = training_parts(parquet_files(tmp_path), "outcome", None)
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as workers,
        indexed(table, coded, scheduler=workers.scheduler_address) as index,
    ):
        sent, parts = [], index.parts

        def send_and_leave(part, arguments):
            sent.append(type(parts)._send(parts, part, arguments))
            if len(sent) == 1:
                gone = next(worker for worker in workers.workers.values() if worker.address in sent[0][1])
                workers.sync(gone.close, nanny=False)
                sent[0][0].release()  # its result may have come before the worker left
                sent[0] = parts.client.submit(max, 1, 2, workers=sent[0][1], pure=False), sent[0][1]
            return sent[-1]

        monkeypatch.setattr(parts, "_send", send_and_leave)
        check(coded[1], index)
        assert len(sent) > 9  # three parts are asked three times, and one once more


def test_an_error_on_a_worker_is_raised_here(coded, cluster):
    with pytest.raises(ValueError, match="the table has no column 'age'"):
        PartitionedIndex.build(fails, [("age",)], 3, coded[1].windows, scheduler=cluster.scheduler_address)


def fails(name):
    raise ValueError(f"the table has no column {name!r}")
