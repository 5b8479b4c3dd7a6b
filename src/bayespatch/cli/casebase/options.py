"""Options of the case base commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

try:
    import typer
except ImportError as error:
    raise ImportError('the command line needs typer and rich: pip install "bayespatch[cli]"') from error

from bayespatch.cli.options import Period

Base = Annotated[str, typer.Argument(metavar="BASE", help="The case base: a file, or a URL.", show_default=False)]
By = Annotated[
    str | None, typer.Option("--by", metavar="NAME", help="Your name for the audit log; by default your login name.")
]
Folder = Annotated[Path | None, typer.Option("--folder", metavar="FOLDER", help="Directory for temporary files.")]
TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet or Arrow file, or sqlite:///FILE, postgresql://..., duckdb:///FILE with --query; with "
        "--mapping a folder of NDJSON files or a database.",
        show_default=False,
    ),
]
AdmissionSource = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A database with --query, a CSV, Parquet or Arrow file; with --mapping a folder of NDJSON files or of "
        "Bundles, or an OMOP database.",
        show_default=False,
    ),
]
AdmissionId = Annotated[
    str | None, typer.Option("--id", metavar="COLUMN", help="The column that identifies the admission.")
]
SinceDay = Annotated[
    str | None,
    typer.Option("--since", metavar="DAY", help="With --mapping: only admissions since 2024-12-31, or today."),
]
Minutes = Annotated[
    float | None, typer.Option("--every", metavar="MINUTES", help="Repeat until stopped.", min=0.01, max=1440)
]
MaybeTarget = Annotated[str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")]
DictionaryFile = Annotated[
    Path | None, typer.Option("--dictionary", metavar="FILE", help="The data dictionary: CSV, YAML or JSON.")
]
MappingFile = Annotated[
    Path | None,
    typer.Option(
        "--mapping", metavar="FILE", help="Read health records: DATA is a FHIR bulk export or an OMOP database."
    ),
]
Demo = Annotated[bool, typer.Option("--demo", help="Fill it with the bundled heart data, a model and a consultation.")]
AllowRepeats = Annotated[bool, typer.Option("--allow-repeats", help="Add rows even if they repeat existing cases.")]
CaseName = Annotated[
    str,
    typer.Argument(
        metavar="CASE", help="Case number, or external id (=17 for the external id 17).", show_default=False
    ),
]
MaybeCases = Annotated[
    list[str] | None, typer.Argument(metavar="[CASE]...", help="Numbers or external ids.", show_default=False)
]
Number = Annotated[
    int, typer.Argument(metavar="CONSULTATION", help="The number of the consultation.", show_default=False)
]
Class = Annotated[str, typer.Argument(metavar="CLASS", help="The class, by value or label.")]
Version = Annotated[int, typer.Argument(metavar="VERSION", help="The version of the model.", show_default=False)]
Values = Annotated[str, typer.Option("--values", metavar="JSON", help="An object with a value for each feature.")]
OldCase = Annotated[str | None, typer.Option("--case", metavar="CASE", help="An existing open case.")]
ExternalId = Annotated[str | None, typer.Option("--id", metavar="TEXT", help="The external identifier of the case.")]
Patient = Annotated[
    str | None,
    typer.Option("--patient", metavar="TEXT", help="The patient, whose past visits do not vote."),
]
Neighbors = Annotated[int, typer.Option("--top", help="Number of neighbors to show.", min=1)]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="The reason.")]
Code = Annotated[str, typer.Option("--code", metavar="TEXT", help="A code for the reason.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="CONDITION", help="A condition such as 'age>=60' or 'pain=none'; may be repeated."),
]
StateOption = Annotated[
    Literal["open", "past", "withdrawn"] | None, typer.Option("--state", help="Only cases in this state.")
]
Order = Annotated[str, typer.Option("--order", metavar="COLUMN", help="The column to sort by.")]
Descending = Annotated[bool, typer.Option("--descending", help="Sort in descending order.")]
Offset = Annotated[int, typer.Option("--offset", help="Number of rows to skip.", min=0)]
Limit = Annotated[int, typer.Option("--limit", help="Maximum number of rows to show.", min=1, max=1000)]
Parameter = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the classifier, as JSON; may be repeated."),
]
Head = Annotated[
    str | None, typer.Option("--head", metavar="NUMBER:HASH", help="The end of the log that you recorded earlier.")
]
Out = Annotated[Path, typer.Argument(metavar="FILE", help="The output file.", show_default=False)]
Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", show_default=False)]
Target = Annotated[
    str,
    typer.Argument(metavar="TO", help="A file that ends in .csv or .parquet, or a database's URL.", show_default=False),
]
TableName = Annotated[str, typer.Option("--table", metavar="NAME", help="The new table of a database.")]
WithoutSensitive = Annotated[bool, typer.Option("--without-sensitive", help="Omit sensitive columns and external ids.")]
Window = Annotated[int, typer.Option("--days", metavar="DAYS", help="Number of past days to check.", min=1, max=3650)]
Every = Annotated[Period, typer.Option("--every", help="The period that each row covers.")]
PersonName = Annotated[str, typer.Argument(metavar="NAME", help="The person.", show_default=False)]
RoleOption = Annotated[
    Literal["viewer", "clinician", "steward"], typer.Option("--role", help="The role of the person.")
]
LogCase = Annotated[int | None, typer.Option("--case", metavar="NUMBER", help="Show only entries about this case.")]
LogBy = Annotated[str | None, typer.Option("--of", metavar="NAME", help="Show only actions of this person.")]
LogAfter = Annotated[int, typer.Option("--after", metavar="NUMBER", help="Show only rows after this one.", min=0)]
LaterLog = Annotated[
    Path | None,
    typer.Option("--log", metavar="FILE", help="Later audit log (JSON); patients forgotten in it are forgotten again."),
]
Days = Annotated[
    int | None,
    typer.Option("--consultations", metavar="DAYS", help="How long to keep consultations of past cases.", min=1),
]
OpenDays = Annotated[
    int | None,
    typer.Option("--open-cases", metavar="DAYS", help="Forget open cases not consulted for this long.", min=1),
]
PastDays = Annotated[
    int | None, typer.Option("--past-cases", metavar="DAYS", help="Forget past cases older than this.", min=1)
]
LogAction = Annotated[str | None, typer.Option("--action", metavar="TEXT", help="Show only this action.")]
