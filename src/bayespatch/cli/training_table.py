"""The table that a command trains on: reading it, checking it, and applying the data dictionary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

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
from bayespatch.source.parquet_parts import column_names, one_after_the_other, training_parts
from bayespatch.source.roles import check_column, check_identifiers, outcomes_of
from bayespatch.types import Parameters
from bayespatch.validation import listed

if TYPE_CHECKING:
    from bayespatch.encode import Sample
    from bayespatch.encode.table import DataFrame, Series
    from bayespatch.follow_up import KindOf


@dataclass(frozen=True)
class TableOptions:
    """The options for reading a training table."""

    data: Data
    target: TargetOrTime = None
    time: TimeColumn = None
    event: EventColumn = None
    query: Query = None
    delimiter: Delimiter = None
    id_column: IdColumn = None
    group: GroupColumn = None
    drop: Drop = None
    keep: Keep = None
    follow_up: FollowUpColumns = None
    age: AgeOf = None
    days: DaysOf = None
    as_of: AsOf = "today"
    date: DateColumn = None
    since: Since = None
    until: Until = None
    dictionary: DictionaryFile = None
    regression: Regression = False

    def __post_init__(self) -> None:
        """Refuse options that contradict each other."""
        if (self.time is None) != (self.event is None):
            raise usage_error(
                "pass --time and --event together: how long each case was followed, and whether the event happened"
            )
        if self.time is not None and (self.target is not None or self.regression):
            raise usage_error("--time replaces --target and --regression; remove these")
        if self.time is None and self.target is None:
            raise usage_error("pass the column to predict: --target COLUMN, or --time COLUMN and --event COLUMN")

    @property
    def outcome(self) -> str:
        """The column to predict."""
        return str(self.target if self.time is None else self.time)

    @property
    def is_number(self) -> bool:
        """Whether the outcome is a number or a time."""
        return self.regression or self.time is not None


class TrainingColumns(NamedTuple):
    """A training table, its columns of numeric category codes, and its follow-up columns by kind."""

    table: Training
    categorical: tuple[str, ...]
    follow_up: dict[str, KindOf]

    @property
    def features(self) -> DataFrame:
        """The table without follow-up columns."""
        return _features(self.table.X, self.follow_up)


def read_training(options: TableOptions, labels: str | None = None) -> TrainingColumns:
    """Read the table, with notes on uninformative columns; reject columns that may be identifiers."""
    data = options.data
    dictionary = _dictionary(options)
    texts = [name for name in (options.id_column, options.group) if name]
    texts += [name for name, entry in dictionary.entries.items() if entry.identifier or entry.kind == "text"]
    numbers = {name: unit for name, unit in dictionary.measured.items() if name not in texts}
    with working(f"Reading {data.partition('://')[0] if '://' in data else data}"):
        frame = read(data, options.query, delimiter=options.delimiter, texts=texts, numbers=numbers)
    frame = chosen_rows(frame, options.date, options.since, options.until)
    if options.date is not None and options.date not in (*(options.age or ()), *(options.days or ()), options.as_of):
        frame = frame.drop(columns=options.date)
    roles = _roles(options, dictionary, list(map(str, frame.columns)))
    table = training_table(frame, options.outcome, regression=options.is_number, group_column=options.group, **roles)
    if options.event is not None:
        check_column(table.X, options.event, "--event")
        table = table._replace(event=table.X[options.event], X=table.X.drop(columns=options.event))
    follow_up = _follow_up(options, dictionary, [name for name in table.X.columns if name != options.outcome])
    table = _described(table, options, dictionary, follow_up, labels)
    return TrainingColumns(table, _coded(dictionary, _features(table.X, follow_up).columns), follow_up)


def chosen_rows(frame: DataFrame, date: str | None, since: str | None, until: str | None) -> DataFrame:
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
    options: TableOptions,
    files: Sequence[str],
    labels: str | None,
    *,
    categorical: Sequence[str],
    seed: int,
    scheduler: str | None,
) -> tuple[TrainingColumns, Sample]:
    """A table in many files: a sample of its rows, checked like in `read_training`."""
    single = {
        "--time": options.time,
        "--follow-up": options.follow_up or None,
        "--query": options.query,
        "--delimiter": options.delimiter,
        "--group": options.group,
        "--date": options.date,
    }
    for option, given in single.items():
        if given is not None:
            raise ValueError(f"{option} works with one table, but {options.data!r} names several files; remove it")
    from bayespatch.workers import computed

    dictionary = _dictionary(options)
    each = one_after_the_other if scheduler is None else partial(computed, scheduler=scheduler)
    columns = column_names(files[0])
    table = training_parts(files, options.outcome, each, **_roles(options, dictionary, columns))
    with working(f"Reading {len(files)} files"):
        sample = table.sample(
            seed, classes=not options.is_number, categorical=(*categorical, *_coded(dictionary, columns))
        )
    check_identifiers(sample.X)  # two files may share an identifier
    training = Training(sample.X, outcomes_of(sample.y, options.is_number), sample.n_unknown)
    training = _described(training, options, dictionary, {}, labels)
    return TrainingColumns(training, _coded(dictionary, training.X.columns), {}), replace(
        sample, X=training.X, y=training.y
    )


def _dictionary(options: TableOptions) -> Dictionary:
    return Dictionary() if options.dictionary is None else Dictionary.read(options.dictionary)


def _roles(options: TableOptions, dictionary: Dictionary, columns: Sequence[str]) -> Parameters:
    """The identifier, dropped columns and date columns, from the options and the dictionary."""
    id_column, drop = options.id_column, list(options.drop or ())
    identifiers = [name for name in dictionary.names if dictionary[name].identifier and name in columns]
    named = [name for name in identifiers if name not in drop and name != options.group]
    id_column = id_column or (named[0] if len(named) == 1 else None)
    drop += [name for name in named if name != id_column]
    intervals = [Interval("years", name, options.as_of) for name in options.age or ()]
    intervals += [Interval("days", name, options.as_of) for name in options.days or ()]
    return {"id_column": id_column, "drop": drop, "intervals": intervals}


def _coded(dictionary: Dictionary, columns: Iterable[object]) -> tuple[str, ...]:
    """The columns whose numbers are category codes, according to the dictionary."""
    named = [name for name in map(str, columns) if name in dictionary]
    return tuple(name for name in named if dictionary[name].kind == "number" and dictionary[name].levels)


def _follow_up(options: TableOptions, dictionary: Dictionary, columns: Sequence[str]) -> dict[str, KindOf]:
    """Follow-up columns and their kinds, from the dictionary and --follow-up; event columns are among them."""
    kinds: dict[str, KindOf] = {name: kind for name, kind in dictionary.follow_up.items() if name in columns}
    for text in options.follow_up or ():
        name, _, kind = (text, "", "") if text in columns else text.partition("=")
        how, _, event = kind.partition(":")
        kinds[name] = (how, event) if event else (kind or None)
    events = {kind[1] for kind in kinds.values() if isinstance(kind, tuple)}
    if options.outcome in {*kinds, *events}:
        raise ValueError(f"column {options.outcome!r} is both --target and --follow-up; remove it from one of them")
    from bayespatch.follow_up import columns_of, follow_up_roles  # slow to import

    roles = follow_up_roles(kinds)
    if roles:
        columns_of(roles, columns)
    return kinds


def _features(X: DataFrame, follow_up: dict[str, KindOf]) -> DataFrame:
    """The features, without follow-up columns."""
    from bayespatch.follow_up import columns_of, follow_up_roles  # slow to import

    roles = follow_up_roles(follow_up)
    return X.drop(columns=columns_of(roles, list(X.columns))) if roles else X


def _described(
    table: Training, options: TableOptions, dictionary: Dictionary, follow_up: dict[str, KindOf], labels: str | None
) -> Training:
    """Check the table and apply the labels of the dictionary and of --labels."""
    table = _looked_at(table, options, follow_up)
    if dictionary.names:
        X, y = dictionary.describe(table.X, table.y)
        table = table._replace(X=X, y=y)
    if labels is not None:
        table = table._replace(y=_labelled(table.y, labels, options.is_number))
    return table


def _looked_at(table: Training, options: TableOptions, follow_up: dict[str, KindOf]) -> Training:
    """Print notes about the columns; reject apparent identifiers that the options do not mention."""
    if table.n_unknown:
        say(f"note: {table.n_unknown} rows without {options.outcome!r} were dropped")
    features = _features(table.X, follow_up)
    empty = [name for name in features.columns if features[name].isna().all()]
    if empty and len(empty) < features.shape[1]:
        say(f"note: column {listed(empty)} is empty and was dropped")
        table = table._replace(X=table.X.drop(columns=empty))
        features = features.drop(columns=empty)
    findings = notice(features, table.y)
    ambiguous = {name: why for name, why in findings.identifiers.items() if name not in (options.keep or ())}
    if ambiguous:
        name, why = next(iter(ambiguous.items()))
        more = f" (so do {listed(list(ambiguous)[1:])})" if len(ambiguous) > 1 else ""
        as_id = f"--id {name!r} to identify cases by it, " if options.id_column is None else ""
        raise ValueError(
            f"column {name!r} looks like an identifier: {why}{more}; pass {as_id}--drop {name!r} to remove it, or "
            f"--keep {name!r} if it is a feature"
        )
    repeated = {name: n for name, n in findings.repeated.items() if name not in (options.keep or ())}
    if repeated:
        name, n = next(iter(repeated.items()))
        raise ValueError(
            f"column {name!r} identifies patients, and {n} rows share a value with another row; pass --group {name!r}, "
            f"so that no patient is predicted from their own rows, or --keep {name!r} if it is a feature"
        )
    if findings.unique:
        say(
            f"note: nearly all values are different in {listed(findings.unique)}; remove it with --drop, or pass it as "
            f"--id"
        )
    for name, value in findings.constant.items():
        say(f"note: column {name!r} is {value} in every row and carries no information; remove it with --drop")
    for name, other in findings.copies.items():
        say(f"note: column {name!r} duplicates {other!r}; remove one with --drop")
    for name, share in findings.leaks.items():
        how = f"{100 * share:.4g}% of the cases" if not options.is_number else f"a correlation of {share:.4f}"
        say(
            f"note: column {name!r} predicts {options.outcome!r} on its own ({how}): is it known only after the "
            "outcome? If so, remove it with --drop"
        )
    return table


def _labelled(y: Series, text: str, regression: bool) -> Series:
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
