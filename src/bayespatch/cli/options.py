"""Command-line options, each defined once for all commands that have it."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Literal

try:
    import typer
except ImportError as error:
    raise ImportError('the command line needs typer and rich: pip install "bayespatch[cli]"') from error

ModelKind = Literal["I", "II", "III"]
ParentsWay = Literal["auto", "all", "random", "balanced", "medoids"]
Hyper = Literal["auto", "default", "paper"]
Missing = Literal["auto", "category", "ignore", "error"]
Format = Literal["text", "json", "html", "png", "pdf"]
Period = Literal["day", "month", "year", "all"]

# Options by their panel of the help
_table = partial(typer.Option, rich_help_panel="The table")
_model = partial(typer.Option, rich_help_panel="The model")
_run = partial(typer.Option, rich_help_panel="The run")
_output = partial(typer.Option, rich_help_panel="Output")

DATA_HELP = (
    "A CSV (also .csv.gz), Excel, Parquet or Arrow file, - for standard input, or sqlite:///FILE, postgresql://..., "
    "duckdb:///FILE with --query."
)
Data = Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP, show_default=False)]
MaybeData = Annotated[str | None, typer.Argument(metavar="[DATA]", help=DATA_HELP, show_default=False)]
ModelFile = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file written by fit.", show_default=False)]

Query = Annotated[str | None, _table(help="The database query: a SELECT statement.")]
Delimiter = Annotated[
    str | None, _table(help="Delimiter of a CSV file: a character, tab or space. Detected by default.")
]
IdColumn = Annotated[
    str | None, _table("--id", metavar="COLUMN", help="A column of identifiers. Not used as a feature.")
]
GroupColumn = Annotated[
    str | None,
    _table(
        "--group",
        metavar="COLUMN",
        help="The column that identifies patients with several rows. Not used as a feature.",
    ),
]
Drop = Annotated[list[str] | None, _table(metavar="COLUMN", help="A column to drop; may be repeated.")]
Keep = Annotated[
    list[str] | None, _table(metavar="COLUMN", help="A feature that looks like an identifier; may be repeated.")
]
TimeColumn = Annotated[
    str | None,
    _table(
        "--time",
        metavar="COLUMN",
        help="Predict the time to an event, instead of --target: how long each case was followed.",
    ),
]
EventColumn = Annotated[
    str | None,
    _table(
        "--event",
        metavar="COLUMN",
        help="With --time: 1 if the event happened at that time, 0 if follow-up ended without it.",
    ),
]
TargetOrTime = Annotated[str | None, _table("--target", help="The column to predict.", show_default=False)]
FollowUpColumns = Annotated[
    list[str] | None,
    _table(
        "--follow-up",
        metavar="COLUMN[=KIND]",
        help="A column recorded for past cases and not compared: category, number, treatment or time:EVENT, where the "
        "column EVENT is 1 if the event happened and 0 if not; may be repeated.",
    ),
]
AgeOf = Annotated[
    list[str] | None,
    _table("--age", metavar="COLUMN", help="A date column to convert to years before --as-of; may be repeated."),
]
DaysOf = Annotated[
    list[str] | None,
    _table("--days", metavar="COLUMN", help="A date column to convert to days before --as-of; may be repeated."),
]
AsOf = Annotated[
    str, _table(metavar="DATE", help="The reference date: a date column, a date such as 2024-12-31, or today.")
]
DateColumn = Annotated[
    str | None,
    _table("--date", metavar="COLUMN", help="The date column for --since and --until. Not used as a feature."),
]
Since = Annotated[str | None, _table(metavar="DATE", help="Only cases seen on this day, such as 2024-12-31, or later.")]
Until = Annotated[str | None, _table(metavar="DATE", help="Only cases seen before this day.")]
DictionaryFile = Annotated[
    Path | None,
    _table(
        "--dictionary",
        metavar="FILE",
        help="The data dictionary (CSV, YAML or JSON); 'bayespatch describe' writes a draft.",
    ),
]
Labels = Annotated[
    str | None, _table(metavar="VALUE=LABEL,...", help="Labels of the classes, such as 0=absent,1=present.")
]
Categorical = Annotated[
    list[str] | None, _table(metavar="COLUMN", help="A column of numeric codes for categories; may be repeated.")
]
MissingRule = Annotated[
    Missing,
    _table(
        help="Missing values: a separate value (category), not compared (ignore), chosen by evidence (auto), "
        "rejected (error)."
    ),
]

Regression = Annotated[bool, _model("--regression", help="Predict a number instead of a class.")]
ModelOption = Annotated[
    ModelKind,
    _model(
        "--model",
        help="Influence of a neighbor: equal (I), by the number of features that matter (II), separate for each "
        "neighbor (III).",
    ),
]
ParentsRule = Annotated[ParentsWay, _model("--parents", help="Which past cases may vote.")]
NParents = Annotated[float | None, _model(help="Number of parents, or a fraction if below 1.", min=0.0)]
HyperRule = Annotated[
    Hyper,
    _model(
        "--hyper",
        help="The model's constants: learned from the table (auto), standard values (default), or the paper's (paper).",
    ),
]
VotesRule = Annotated[
    Literal["auto", "closed", "sampled"],
    _model("--votes", help="All past cases vote (closed), or several sampled neighbors, as in the paper (sampled)."),
]
Engine = Annotated[str, _run(help="Sampling engine: auto, cpu, cuda or paper.", metavar="NAME")]
Scheduler = Annotated[
    str | None,
    _run(
        help="Address of a Dask scheduler, such as tcp://10.0.0.1:8786, whose workers read and predict many files.",
        metavar="ADDRESS",
        show_default=False,
    ),
]
Chains = Annotated[int, _run(help="Independent chains.", min=1)]
Draws = Annotated[int, _run(help="Draws to keep from each chain.", min=1)]
Warmup = Annotated[int, _run(help="Sweeps of each chain before the first draw.", min=0)]
Seed = Annotated[int, _run(help="The same seed gives the same results.", min=0)]
Jobs = Annotated[int | None, _run(help="Threads; all cores by default.")]
Checkpoint = Annotated[
    Path | None,
    _run(
        metavar="FOLDER",
        help="With --votes sampled: folder for the state of the run. If it is interrupted, the same command continues. "
        "Delete it once the model is written.",
    ),
]
Folds = Annotated[int, _run(help="Folds of the cross-validation.", min=2)]

Cases = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The file with the past cases, if separate from the model.", show_default=False),
]
Level = Annotated[float, typer.Option(help="Level of the intervals, between 0 and 1.")]
Top = Annotated[int, typer.Option(help="Number of neighbors to show.", min=1)]
Force = Annotated[bool, _output("--force", help="Replace existing files.")]
Json = Annotated[bool, _output("--json", help="Print one JSON document for programs.")]

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
Times = Annotated[
    list[float],
    typer.Option("--at", metavar="TIME", help="Survival models: a time at which to predict; may be repeated."),
]
Horizon = Annotated[
    float | None,
    typer.Option("--at", metavar="TIME", help="Survival models: explain the risk by this time.", show_default=False),
]
Abstain = Annotated[
    bool, typer.Option("--abstain", help="Leave the prediction empty if a case has no adequate precedent.")
]
HideIds = Annotated[bool, _output("--hide-ids", help="Identify cases by row number, not by identifier.")]
Raw = Annotated[bool, _output("--raw", help="Do not escape texts in CSV that a spreadsheet would run as formulas.")]
Votes = Annotated[bool, typer.Option("--votes", help="Add the neighbors' votes, before calibration.")]
Row = Annotated[
    int | None,
    typer.Option(min=0, help="The row of the case, counting from 0, in DATA; without DATA, among the past cases."),
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
    list[str], typer.Option("--set", metavar="FEATURE=VALUE", help="A new value for a feature; may be repeated.")
]
Change = Annotated[
    list[str] | None,
    typer.Option(metavar="FEATURE", help="A feature that may change; may be repeated. By default all."),
]
MostChanges = Annotated[int, typer.Option("--most", help="Maximum number of features to change at once.", min=1)]
Wanted = Annotated[str | None, typer.Option("--to", metavar="CLASS", help="The class to reach; by default any other.")]
MaybeTarget = Annotated[
    str | None, typer.Option("--target", help="The column to predict, if already known.", show_default=False)
]
OutcomeColumn = Annotated[
    str | None,
    typer.Option("--target", help="The column with the outcomes; by default the model's.", show_default=False),
]
DraftOut = Annotated[
    Path | None,
    typer.Option(
        "--dictionary",
        metavar="FILE",
        help="The file for a draft of the data dictionary (CSV). Add labels and units, then pass it to fit.",
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
        help="Flag cases with at least this probability, such as 0.2; for a specific class: sick=0.2.",
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
