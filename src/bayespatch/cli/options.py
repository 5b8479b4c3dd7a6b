"""Command-line options, each defined once for all commands that have it."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

try:
    import typer
except ImportError as error:
    raise ImportError('the command line needs typer and rich: pip install "bayespatch[cli]"') from error


class Model(StrEnum):
    """How much a neighbor influences a case."""

    I = "I"  # noqa: E741
    II = "II"
    III = "III"


class ParentsWay(StrEnum):
    """Which past cases may vote."""

    auto = "auto"
    all = "all"
    random = "random"
    balanced = "balanced"
    medoids = "medoids"


class Hyper(StrEnum):
    """Source of the model's constants."""

    auto = "auto"
    default = "default"
    paper = "paper"


class VotingWay(StrEnum):
    """How past cases vote."""

    auto = "auto"
    closed = "closed"
    sampled = "sampled"


class Missing(StrEnum):
    """How missing values are handled."""

    auto = "auto"
    category = "category"
    ignore = "ignore"
    error = "error"


class Format(StrEnum):
    """How an explanation is shown."""

    text = "text"
    json = "json"
    html = "html"
    png = "png"
    pdf = "pdf"


class Period(StrEnum):
    """Periods of summaries."""

    day = "day"
    month = "month"
    year = "year"
    all = "all"


_TABLE, _MODEL, _RUN, _OUTPUT = "The table", "The model", "The run", "Output"

DATA_HELP = (
    "A CSV (also .csv.gz), Excel, Parquet or Arrow file, - for standard input, or sqlite:///FILE, postgresql://..., "
    "duckdb:///FILE with --query."
)
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
MaybeData = Annotated[str | None, typer.Argument(metavar="[DATA]", help=DATA_HELP, show_default=False)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.", show_default=False)]

Target = Annotated[str, typer.Option(help="The column to predict.", rich_help_panel=_TABLE, show_default=False)]
Query = Annotated[
    str | None,
    typer.Option(help="The database query: a SELECT statement.", rich_help_panel=_TABLE),
]
Delimiter = Annotated[
    str | None,
    typer.Option(
        help="Delimiter of a CSV file: a character, tab or space. Detected by default.",
        rich_help_panel=_TABLE,
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id", metavar="COLUMN", help="A column of identifiers. Not used as a feature.", rich_help_panel=_TABLE
    ),
]
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="COLUMN",
        help="The column that identifies patients with several rows. Not used as a feature.",
        rich_help_panel=_TABLE,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(metavar="COLUMN", help="A column to drop; may be repeated.", rich_help_panel=_TABLE),
]
Keep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A feature that looks like an identifier; may be repeated.",
        rich_help_panel=_TABLE,
    ),
]
TimeColumn = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="COLUMN",
        help="Predict the time to an event, instead of --target: how long each case was followed.",
        rich_help_panel=_TABLE,
    ),
]
EventColumn = Annotated[
    str | None,
    typer.Option(
        "--event",
        metavar="COLUMN",
        help="With --time: 1 if the event happened at that time, 0 if follow-up ended without it.",
        rich_help_panel=_TABLE,
    ),
]
TargetOrTime = Annotated[
    str | None, typer.Option("--target", help="The column to predict.", rich_help_panel=_TABLE, show_default=False)
]
FollowUpColumns = Annotated[
    list[str] | None,
    typer.Option(
        "--follow-up",
        metavar="COLUMN[=KIND]",
        help="A column recorded for past cases and not compared: category, number, treatment or time:EVENT, where the "
        "column EVENT is 1 if the event happened and 0 if not; may be repeated.",
        rich_help_panel=_TABLE,
    ),
]
AgeOf = Annotated[
    list[str] | None,
    typer.Option(
        "--age",
        metavar="COLUMN",
        help="A date column to convert to years before --as-of; may be repeated.",
        rich_help_panel=_TABLE,
    ),
]
DaysOf = Annotated[
    list[str] | None,
    typer.Option(
        "--days",
        metavar="COLUMN",
        help="A date column to convert to days before --as-of; may be repeated.",
        rich_help_panel=_TABLE,
    ),
]
AsOf = Annotated[
    str,
    typer.Option(
        metavar="DATE",
        help="The reference date: a date column, a date such as 2024-12-31, or today.",
        rich_help_panel=_TABLE,
    ),
]
DateColumn = Annotated[
    str | None,
    typer.Option(
        "--date",
        metavar="COLUMN",
        help="The date column for --since and --until. Not used as a feature.",
        rich_help_panel=_TABLE,
    ),
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="DATE", help="Only cases seen on this day, such as 2024-12-31, or later.", rich_help_panel=_TABLE
    ),
]
Until = Annotated[
    str | None,
    typer.Option(metavar="DATE", help="Only cases seen before this day.", rich_help_panel=_TABLE),
]
DictionaryFile = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        metavar="FILE",
        help="The data dictionary (CSV, YAML or JSON); 'bayespatch describe' writes a draft.",
        rich_help_panel=_TABLE,
    ),
]
Labels = Annotated[
    str | None,
    typer.Option(
        metavar="VALUE=LABEL,...",
        help="Labels of the classes, such as 0=absent,1=present.",
        rich_help_panel=_TABLE,
    ),
]
Categorical = Annotated[
    list[str] | None,
    typer.Option(
        metavar="COLUMN",
        help="A column of numeric codes for categories; may be repeated.",
        rich_help_panel=_TABLE,
    ),
]
MissingRule = Annotated[
    Missing,
    typer.Option(
        help="Missing values: a separate value (category), not compared (ignore), chosen by evidence (auto), "
        "rejected (error).",
        rich_help_panel=_TABLE,
    ),
]

Regression = Annotated[
    bool, typer.Option("--regression", help="Predict a number instead of a class.", rich_help_panel=_MODEL)
]
ModelOption = Annotated[
    Model,
    typer.Option(
        "--model",
        help="Influence of a neighbor: equal (I), by the number of features that matter (II), separate for each "
        "neighbor (III).",
        rich_help_panel=_MODEL,
    ),
]
ParentsRule = Annotated[
    ParentsWay, typer.Option("--parents", help="Which past cases may vote.", rich_help_panel=_MODEL)
]
NParents = Annotated[
    float | None,
    typer.Option(help="Number of parents, or a fraction if below 1.", rich_help_panel=_MODEL, min=0.0),
]
HyperRule = Annotated[
    Hyper,
    typer.Option(
        "--hyper",
        help="The model's constants: learned from the table (auto), standard values (default), or the paper's (paper).",
        rich_help_panel=_MODEL,
    ),
]
VotesRule = Annotated[
    VotingWay,
    typer.Option(
        "--votes",
        help="All past cases vote (closed), or several sampled neighbors, as in the paper (sampled).",
        rich_help_panel=_MODEL,
    ),
]
Engine = Annotated[
    str,
    typer.Option(help="Sampling engine: auto, cpu, cuda or paper.", rich_help_panel=_RUN, metavar="NAME"),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers read and predict many files.",
        rich_help_panel=_RUN,
        metavar="ADDRESS",
        show_default=False,
    ),
]
Chains = Annotated[int, typer.Option(help="Independent chains.", rich_help_panel=_RUN, min=1)]
Draws = Annotated[int, typer.Option(help="Draws to keep from each chain.", rich_help_panel=_RUN, min=1)]
Warmup = Annotated[int, typer.Option(help="Sweeps of each chain before the first draw.", rich_help_panel=_RUN, min=0)]
Seed = Annotated[int, typer.Option(help="The same seed gives the same results.", rich_help_panel=_RUN, min=0)]
Jobs = Annotated[
    int | None,
    typer.Option(help="Threads; all cores by default.", rich_help_panel=_RUN),
]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER",
        help="With --votes sampled: folder for the state of the run. If it is interrupted, the same command continues. "
        "Delete it once the model is written.",
        rich_help_panel=_RUN,
    ),
]
Folds = Annotated[int, typer.Option(help="Folds of the cross-validation.", rich_help_panel=_RUN, min=2)]

Cases = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The file with the past cases, if separate from the model.", show_default=False),
]
Level = Annotated[float, typer.Option(help="Probability of the intervals, between 0 and 1.")]
Top = Annotated[int, typer.Option(help="Number of neighbors to show.", min=1)]
Force = Annotated[bool, typer.Option("--force", help="Replace existing files.", rich_help_panel=_OUTPUT)]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document for programs.", rich_help_panel=_OUTPUT)]

ModelOut = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the model.")]
PageOut = Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the page.")]
FolderOut = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where to write the results.")]
MaybeOut = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="Where to write the output; standard output by default.", show_default=False
    ),
]
FileOrFolderOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="Where to write the output; standard output by default. A folder for many Parquet files.",
        show_default=False,
    ),
]

Intervals = Annotated[bool, typer.Option("--intervals", help="Add prediction intervals.")]
Abstain = Annotated[
    bool,
    typer.Option(
        "--abstain",
        help="Leave the prediction empty if a case has no adequate precedent.",
    ),
]
HideIds = Annotated[
    bool, typer.Option("--hide-ids", help="Identify cases by row number, not by identifier.", rich_help_panel=_OUTPUT)
]
Raw = Annotated[
    bool,
    typer.Option(
        "--raw",
        help="Do not escape texts in CSV that a spreadsheet would run as formulas.",
        rich_help_panel=_OUTPUT,
    ),
]
Votes = Annotated[bool, typer.Option("--votes", help="Add the neighbors' votes, before calibration.")]
Row = Annotated[
    int | None,
    typer.Option(min=0, help="The row of the case, from 0: in DATA, or among the past cases without DATA."),
]
Identifier = Annotated[
    str | None,
    typer.Option("--id", help="The identifier of the case: in DATA (with --id-column), or among the past cases."),
]
IdentifierColumn = Annotated[
    str | None, typer.Option("--id-column", metavar="COLUMN", help="The column of identifiers in DATA.")
]
JsonRow = Annotated[
    str | None, typer.Option(metavar="JSON", help="The case itself: a JSON object with a value for each feature.")
]
Form = Annotated[
    Format | None,
    typer.Option("--format", help="The output format; by default taken from the extension of --out, else text."),
]

Worklist = Annotated[
    bool,
    typer.Option(
        "--worklist",
        help="One line per case with interval, both opinions, closest past case and warnings; highest relative risk "
        "first.",
    ),
]
Set = Annotated[
    list[str],
    typer.Option("--set", metavar="FEATURE=VALUE", help="A new value for a feature; may be repeated."),
]
Change = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FEATURE",
        help="A feature that may change; may be repeated. By default all.",
    ),
]
MostChanges = Annotated[int, typer.Option("--most", help="Maximum number of features that may change together.", min=1)]
Wanted = Annotated[str | None, typer.Option("--to", metavar="CLASS", help="The class to reach; by default any other.")]
MaybeTarget = Annotated[
    str | None, typer.Option("--target", help="The column to predict, if already known.", show_default=False)
]
DraftOut = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        metavar="FILE",
        help="Where to write a draft of the data dictionary (CSV). Add labels and units, then pass it to fit.",
        show_default=False,
    ),
]

ByPeriod = Annotated[
    Period, typer.Option("--every", help="With --date: the periods for which performance is reported.")
]
ValidationOut = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where to write an HTML page; none by default.", show_default=False),
]
Threshold = Annotated[
    str | None,
    typer.Option(
        "--threshold",
        metavar="[CLASS=]P",
        help="The probability from which a case is flagged, such as 0.2; for one class: sick=0.2.",
        show_default=False,
    ),
]
Cost = Annotated[
    str | None,
    typer.Option(
        "--cost",
        metavar="[CLASS=]MISS:ALARM",
        help="Instead of --threshold: the costs of a missed case and a false alarm, such as 10:1.",
        show_default=False,
    ),
]
Patient = Annotated[int, typer.Option(min=0, max=302, help="The patient (0 to 302) to treat as new.")]
IntendedUse = Annotated[str, typer.Option(metavar="TEXT", help="The intended use of the model.")]
CaseBaseUrl = Annotated[
    str | None,
    typer.Option("--casebase", metavar="BASE", help="The case base whose model versions the change log lists."),
]
