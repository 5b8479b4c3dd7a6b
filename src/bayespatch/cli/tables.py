"""The table that a command learns from: read, looked at, and called by its dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from bayespatch.cli.app import usage_error
from bayespatch.cli.options import (
    AgeOf,
    AsOf,
    Data,
    DateColumn,
    DaysOf,
    Delimiter,
    DictionaryFile,
    Drop,
    EventColumn,
    FollowUpColumns,
    GroupColumn,
    IdColumn,
    Keep,
    Query,
    Regression,
    Since,
    TargetOrTime,
    TimeColumn,
    Until,
)
from bayespatch.cli.terminal import say, working
from bayespatch.dictionary import Dictionary
from bayespatch.source import Training, read, training_table
from bayespatch.source.columns import notice
from bayespatch.source.dates import Interval, in_period
from bayespatch.source.frame import listed
from bayespatch.source.parts import column_names, one_after_the_other, training_parts
from bayespatch.source.roles import check_column, check_identifiers, outcomes_of

if TYPE_CHECKING:
    from bayespatch.encode import Sample


class Wishes(NamedTuple):
    """What was said about a table."""

    data: str
    target: str
    regression: bool = False
    event: str | None = None
    query: str | None = None
    delimiter: str | None = None
    id_column: str | None = None
    group: str | None = None
    drop: Sequence[str] = ()
    keep: Sequence[str] = ()
    follow_up: Sequence[str] = ()
    age: Sequence[str] = ()
    days: Sequence[str] = ()
    as_of: str = "today"
    date: str | None = None
    since: str | None = None
    until: str | None = None
    dictionary: Path | None = None
    labels: str | None = None


class Learned(NamedTuple):
    """A table to learn from, its columns of numbers that name categories, and its follow-up columns by kind."""

    table: Training
    categorical: tuple[str, ...]
    follow_up: dict[str, Any]

    @property
    def features(self) -> Any:
        """The table without follow-up columns."""
        return _features(self.table.X, self.follow_up)


def table_wishes(
    data: Data,
    target: TargetOrTime = None,
    time: TimeColumn = None,
    event: EventColumn = None,
    query: Query = None,
    delimiter: Delimiter = None,
    id_column: IdColumn = None,
    group: GroupColumn = None,
    drop: Drop = None,
    keep: Keep = None,
    follow_up: FollowUpColumns = None,
    age: AgeOf = None,
    days: DaysOf = None,
    as_of: AsOf = "today",
    date: DateColumn = None,
    since: Since = None,
    until: Until = None,
    dictionary: DictionaryFile = None,
    regression: Regression = False,
) -> Wishes:
    """The options about a table to learn from."""
    if (time is None) != (event is None):
        raise usage_error(
            "--time and --event go together: how long a case was followed, and whether the event happened"
        )
    if time is not None and (target is not None or regression):
        raise usage_error("--time takes the place of --target and --regression; leave these out")
    outcome = target if time is None else time
    if outcome is None:
        raise usage_error("name the column to predict: --target COLUMN, or --time COLUMN and --event COLUMN")
    return Wishes(
        data,
        outcome,
        regression or time is not None,
        event,
        query,
        delimiter,
        id_column,
        group,
        drop=drop or (),
        keep=keep or (),
        follow_up=follow_up or (),
        age=age or (),
        days=days or (),
        as_of=as_of,
        date=date,
        since=since,
        until=until,
        dictionary=dictionary,
    )


def read_training(wishes: Wishes) -> Learned:
    """The table, with a word about columns that will not help and a question about those that may be identifiers."""
    data = wishes.data
    said = _dictionary(wishes)
    texts = [name for name in (wishes.id_column, wishes.group) if name]
    if said is not None:
        texts += [name for name, entry in said.entries.items() if entry.identifier or entry.kind == "text"]
    numbers = {} if said is None else {name: unit for name, unit in said.measured.items() if name not in texts}
    with working(f"Reading {data.partition('://')[0] if '://' in data else data}"):
        frame = read(data, wishes.query, delimiter=wishes.delimiter, texts=texts, numbers=numbers)
    frame = chosen_rows(frame, wishes.date, wishes.since, wishes.until)
    if wishes.date is not None and wishes.date not in (*wishes.age, *wishes.days, wishes.as_of):
        frame = frame.drop(columns=wishes.date)
    roles = _roles(wishes, said, list(map(str, frame.columns)))
    table = training_table(frame, wishes.target, regression=wishes.regression, group_column=wishes.group, **roles)
    if wishes.event is not None:
        check_column(table.X, wishes.event, "--event")
        table = table._replace(event=table.X[wishes.event], X=table.X.drop(columns=wishes.event))
    follow_up = _follow_up(wishes, said, [name for name in table.X.columns if name != wishes.target])
    table = _described(table, wishes, said, follow_up)
    return Learned(table, _coded(said, _features(table.X, follow_up).columns), follow_up)


def chosen_rows(frame: Any, date: str | None, since: str | None, until: str | None) -> Any:
    """The rows of a period, with a note."""
    if date is None:
        if since is not None or until is not None:
            raise ValueError("--since and --until need --date, the date column of the cases")
        return frame
    check_column(frame, date, "--date")
    chosen = in_period(frame, date, since, until)
    say(f"note: {len(chosen)} of {len(frame)} rows are within the period")
    return chosen.reset_index(drop=True)


def read_training_files(
    wishes: Wishes, files: Sequence[str], *, categorical: Sequence[str], seed: int, scheduler: str | None
) -> tuple[Learned, Sample]:
    """A table that lies in many files: a sample of its rows, looked at as `read_training` does."""
    if wishes.event:
        raise ValueError(f"--time is for one table, and {wishes.data!r} names many files; leave it out")
    if wishes.follow_up:
        raise ValueError(f"--follow-up works with one table, but {wishes.data!r} names several files; remove it")
    single = {"--query": wishes.query, "--delimiter": wishes.delimiter, "--group": wishes.group, "--date": wishes.date}
    for option, given in single.items():
        if given is not None:
            raise ValueError(f"{option} works with one table, but {wishes.data!r} names several files; remove it")
    from bayespatch.workers import computed

    said = _dictionary(wishes)
    each = one_after_the_other if scheduler is None else partial(computed, scheduler=scheduler)
    columns = column_names(files[0])
    table = training_parts(files, wishes.target, each, **_roles(wishes, said, columns))
    with working(f"Reading {len(files)} files"):
        sample = table.sample(seed, classes=not wishes.regression, categorical=(*categorical, *_coded(said, columns)))
    check_identifiers(sample.X)  # two parts may have the same
    found = Training(sample.X, outcomes_of(sample.y, wishes.regression), sample.n_unknown)
    found = _described(found, wishes, said, {})
    return Learned(found, _coded(said, found.X.columns), {}), replace(sample, X=found.X, y=found.y)


def _dictionary(wishes: Wishes) -> Dictionary | None:
    return None if wishes.dictionary is None else Dictionary.read(wishes.dictionary)


def _roles(wishes: Wishes, said: Dictionary | None, columns: Sequence[str]) -> dict[str, Any]:
    """Which of the columns are identifiers, left out, or dates; a dictionary may say so, too."""
    id_column, drop = wishes.id_column, list(wishes.drop)
    if said is not None:
        named = [name for name in said.names if said[name].identifier and name in columns and name not in drop]
        named = [name for name in named if name != wishes.group]
        id_column = id_column or (named[0] if len(named) == 1 else None)
        drop += [name for name in named if name != id_column]
    intervals = [Interval("years", name, wishes.as_of) for name in wishes.age]
    intervals += [Interval("days", name, wishes.as_of) for name in wishes.days]
    return {"id_column": id_column, "drop": drop, "intervals": intervals}


def _coded(said: Dictionary | None, columns: Iterable[object]) -> tuple[str, ...]:
    """Those of the columns whose numbers are names of categories, by the dictionary."""
    if said is None:
        return ()
    named = [name for name in map(str, columns) if name in said]
    return tuple(name for name in named if said[name].kind == "number" and said[name].levels)


def _follow_up(wishes: Wishes, said: Dictionary | None, columns: Sequence[str]) -> dict[str, Any]:
    """Follow-up columns and their kinds, from the dictionary and --follow-up; event columns are among them."""
    described = {} if said is None else said.follow_up
    kinds: dict[str, Any] = {name: kind for name, kind in described.items() if name in columns}
    for text in wishes.follow_up:
        name, _, kind = (text, "", "") if text in columns else text.partition("=")
        how, _, event = kind.partition(":")
        kinds[name] = (how, event) if event else (kind or None)
    events = {kind[1] for kind in kinds.values() if isinstance(kind, tuple)}
    if wishes.target in {*kinds, *events}:
        raise ValueError(f"--target {wishes.target!r} is also named by --follow-up; name another column there")
    from bayespatch.follow_up import columns_of, follow_up_roles  # slow to import

    roles = follow_up_roles(kinds)
    if roles:
        columns_of(roles, columns)
    return kinds


def _features(X: Any, follow_up: dict[str, Any]) -> Any:
    """The columns that are compared."""
    from bayespatch.follow_up import columns_of, follow_up_roles  # slow to import

    roles = follow_up_roles(follow_up)
    return X.drop(columns=columns_of(roles, list(X.columns))) if roles else X


def _described(table: Training, wishes: Wishes, said: Dictionary | None, follow_up: dict[str, Any]) -> Training:
    """The table, looked at, and called as the dictionary and --labels say."""
    table = _looked_at(table, wishes, follow_up)
    if said is not None:
        X, y = said.describe(table.X, table.y)
        table = table._replace(X=X, y=y)
    if wishes.labels is not None:
        table = table._replace(y=_labelled(table.y, wishes.labels, wishes.regression))
    return table


def _looked_at(table: Training, wishes: Wishes, follow_up: dict[str, Any]) -> Training:
    """Notes about the columns; what looks like an identifier has to be named as one, or as a feature."""
    if table.n_unknown:
        say(f"note: {table.n_unknown} rows without {wishes.target!r} dropped: nothing can be learned from them")
    features = _features(table.X, follow_up)
    empty = [name for name in features.columns if features[name].isna().all()]
    if empty and len(empty) < features.shape[1]:
        say(f"note: column {listed(empty)} is empty and was dropped")
        table = table._replace(X=table.X.drop(columns=empty))
        features = features.drop(columns=empty)
    found = notice(features, table.y)
    asked = {name: why for name, why in found.identifiers.items() if name not in wishes.keep}
    if asked:
        name, why = next(iter(asked.items()))
        more = f" (so do {listed(list(asked)[1:])})" if len(asked) > 1 else ""
        as_id = f"--id {name!r} to identify cases by it, " if wishes.id_column is None else ""
        raise ValueError(
            f"column {name!r} looks like an identifier: {why}{more}; pass {as_id}--drop {name!r} to leave it out, or "
            f"--keep {name!r} if it is a feature"
        )
    for name, n in found.repeated.items():
        say(
            f"note: column {name!r} identifies patients, and {n} rows share a value with another row; pass --group "
            f"{name!r}, so that nobody is predicted from their own other rows"
        )
    if found.unique:
        say(
            f"note: values are nearly all different in {listed(found.unique)}; leave it out with --drop, or name it "
            f"--id"
        )
    for name, value in found.constant.items():
        say(f"note: column {name!r} is {value} in every row and carries no information; remove it with --drop")
    for name, other in found.copies.items():
        say(f"note: column {name!r} duplicates {other!r}; remove one with --drop")
    for name, share in found.leaks.items():
        how = f"{100 * share:.4g}% of the cases" if not wishes.regression else f"a correlation of {share:.4f}"
        say(
            f"note: column {name!r} alone predicts {wishes.target!r} ({how}): is it known only after the "
            f"outcome? If so, remove it with --drop"
        )
    return table


def _labelled(y: Any, text: str, regression: bool) -> Any:
    """Classes with the labels of --labels."""
    if regression:
        raise ValueError("--labels is for classes, but --regression predicts a number; remove one of them")
    given: dict[str, str] = {}
    for part in text.split(","):
        value, equals, label = part.partition("=")
        if not equals or not value.strip() or not label.strip():
            raise ValueError(f"--labels {text!r}: {part!r} is not VALUE=LABEL; pass, for example, 0=absent,1=present")
        given[value.strip()] = label.strip()
    classes = {str(value): value for value in y.unique().tolist()}
    unknown = [value for value in given if value not in classes]
    if unknown:
        raise ValueError(f"--labels: {unknown[0]!r} is not a class; the classes are {listed(sorted(classes), 20)}")
    if len(set(given.values())) < len(given):
        raise ValueError(f"--labels {text!r} gives two classes the same label; labels must differ")
    y = y.copy(deep=False)
    y.attrs["labels"] = {**y.attrs.get("labels", {}), **{classes[value]: label for value, label in given.items()}}
    return y
