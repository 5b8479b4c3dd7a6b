"""Commands that look after a case base: ``bayespatch casebase ...``."""

from __future__ import annotations

import getpass
import json as json_text
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from bayespatch.cli.app import usage_error
from bayespatch.cli.options import Delimiter, Drop, IdColumn, Json, Query
from bayespatch.cli.terminal import facts_text, say, show, table_text, working

try:
    import typer
except ImportError as error:
    raise ImportError('the command line needs typer and rich: pip install "bayespatch[cli]"') from error

if TYPE_CHECKING:
    from bayespatch.casebase import CaseBase
    from bayespatch.casebase.models import Model

ABOUT = (
    "Past cases, consultations, decisions and models in SQLite or PostgreSQL: retrieve, reuse, revise, retain, forget. "
    "BASE is a file, sqlite:///FILE or postgresql://USER@HOST/NAME; a PostgreSQL password may stand in PGPASSWORD."
)


class State(StrEnum):
    """Where a case stands."""

    open = "open"
    past = "past"
    withdrawn = "withdrawn"


class Role(StrEnum):
    """What a person may do on the consulting page."""

    viewer = "viewer"
    clinician = "clinician"
    steward = "steward"


class Period(StrEnum):
    """Over what drift is summed up."""

    day = "day"
    month = "month"
    year = "year"
    all = "all"


Base = Annotated[str, typer.Argument(metavar="BASE", help="The case base: a file, or a URL.", show_default=False)]
By = Annotated[str | None, typer.Option("--by", metavar="NAME", help="Who does this; your login name if left out.")]
Folder = Annotated[Path | None, typer.Option("--folder", metavar="FOLDER", help="For files that exist for moments.")]
TableArgument = Annotated[
    str,
    typer.Argument(
        metavar="DATA",
        help="A CSV, Parquet or Arrow file, or sqlite:///FILE, postgresql://..., duckdb:///FILE with --query.",
        show_default=False,
    ),
]
MaybeTarget = Annotated[str | None, typer.Option("--target", metavar="COLUMN", help="The column to predict.")]
DictionaryFile = Annotated[
    Path | None, typer.Option("--dictionary", metavar="FILE", help="The data dictionary: CSV, YAML or JSON.")
]
CaseName = Annotated[
    str,
    typer.Argument(
        metavar="CASE", help="Its number, or its external id; =17 where an external id is a number.", show_default=False
    ),
]
MaybeCases = Annotated[
    list[str] | None, typer.Argument(metavar="[CASE]...", help="Numbers or external ids.", show_default=False)
]
Number = Annotated[
    int, typer.Argument(metavar="CONSULTATION", help="The number of the consultation.", show_default=False)
]
Class = Annotated[str, typer.Argument(metavar="CLASS", help="The class, by its value or its label.")]
Version = Annotated[int, typer.Argument(metavar="VERSION", help="The version of the model.", show_default=False)]
Values = Annotated[str, typer.Option("--values", metavar="JSON", help="An object with a value for each feature.")]
OldCase = Annotated[str | None, typer.Option("--case", metavar="CASE", help="An open case that comes again.")]
ExternalId = Annotated[str | None, typer.Option("--id", metavar="TEXT", help="What others call the case.")]
Neighbors = Annotated[int, typer.Option("--top", help="How many neighbors to show.", min=1)]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")]
Code = Annotated[str, typer.Option("--code", metavar="TEXT", help="Why, as a code.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="CONDITION", help="Such as 'age>=60' or 'pain=none'; may be repeated."),
]
StateOption = Annotated[State | None, typer.Option("--state", help="Only cases in this state.")]
Order = Annotated[str, typer.Option("--order", metavar="COLUMN", help="The column to sort by.")]
Descending = Annotated[bool, typer.Option("--descending", help="The largest first.")]
Offset = Annotated[int, typer.Option("--offset", help="How many to skip.", min=0)]
Limit = Annotated[int, typer.Option("--limit", help="How many to show.", min=1, max=1000)]
Parameter = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="NAME=VALUE", help="A parameter of the classifier, as JSON; may be repeated."),
]
Head = Annotated[
    str | None, typer.Option("--head", metavar="NUMBER:HASH", help="An end of the log that was noted earlier.")
]
Out = Annotated[Path, typer.Argument(metavar="FILE", help="Where it goes.", show_default=False)]
Backup = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.", show_default=False)]
Target = Annotated[
    str,
    typer.Argument(metavar="TO", help="A file that ends in .csv or .parquet, or a database's URL.", show_default=False),
]
TableName = Annotated[str, typer.Option("--table", metavar="NAME", help="The new table of a database.")]
WithoutSensitive = Annotated[
    bool, typer.Option("--without-sensitive", help="Leave out columns that the dictionary calls sensitive.")
]
Every = Annotated[Period, typer.Option("--every", help="The period of a row.")]
PersonName = Annotated[str, typer.Argument(metavar="NAME", help="The person.", show_default=False)]
RoleOption = Annotated[Role, typer.Option("--role", help="What the person may do.")]
LogCase = Annotated[int | None, typer.Option("--case", metavar="NUMBER", help="Only about this case.")]
LogBy = Annotated[str | None, typer.Option("--of", metavar="NAME", help="Only what this person did.")]
LogAction = Annotated[str | None, typer.Option("--action", metavar="TEXT", help="Only this action.")]


def init(
    base: Base,
    target: MaybeTarget = None,
    dictionary: DictionaryFile = None,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Make a new case base; with a data dictionary it also knows what its cases are.

    Examples
    --------
    $ bayespatch casebase init clinic.db
    $ bayespatch casebase init clinic.db --dictionary columns.csv --target outcome
    """
    from bayespatch.casebase import CaseBase

    if (target is None) != (dictionary is None):
        raise usage_error("--dictionary and --target belong together: what the columns are, and which is predicted")
    with CaseBase.open(base, folder=folder) as opened:
        if dictionary is not None and target is not None:
            opened.define(dictionary, target, by=_by(by))
        features = [] if opened.dictionary is None else list(opened.dictionary.names)
        said = {"target": opened.target, "features": features}
    text = (
        f"the case base predicts {said['target']!r} from {len(features)} features" if features else "import cases next"
    )
    show(said, json, f"{_name(base)} is ready; {text}")


def import_(
    base: Base,
    data: TableArgument,
    target: MaybeTarget = None,
    id_column: IdColumn = None,
    dictionary: DictionaryFile = None,
    drop: Drop = None,
    query: Query = None,
    delimiter: Delimiter = None,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Add the cases of a table, all or none: past ones where the outcome is known, open ones where it is missing.

    Examples
    --------
    $ bayespatch casebase import clinic.db patients.csv --target outcome --id patient --dictionary columns.csv
    $ bayespatch casebase import clinic.db sqlite:///ward.db --query 'SELECT * FROM stays'
    """
    with _opened(base, folder) as opened, working("Importing"):
        ids = opened.import_cases(
            data,
            by=_by(by),
            target=target,
            id_column=id_column,
            dictionary=dictionary,
            drop=drop or (),
            query=query,
            delimiter=delimiter,
        )
    said = {"cases": len(ids), "first": ids.start, "last": ids.stop - 1}
    show(said, json, f"{_counted(len(ids), 'case')}, numbers {ids.start} to {ids.stop - 1}")


def consult(
    base: Base,
    values: Values,
    case: OldCase = None,
    external_id: ExternalId = None,
    top: Neighbors = 4,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Ask the active model about a patient, and keep what it showed.

    Examples
    --------
    $ bayespatch casebase consult clinic.db --values '{"age": 61, "pain": "rest"}' --id P-17
    $ bayespatch casebase consult clinic.db --values '{"age": 61, "pain": null}' --case 304 --json
    """
    with _opened(base, folder) as opened:
        again = None if case is None else _case(case)
        seen = opened.consult(_object(values), by=_by(by), case=again, external_id=external_id, top=top)
    show(seen.to_dict(), json, _seen_text(seen))


def decide(
    base: Base,
    consultation: Number,
    decided: Class,
    reason: Reason = "",
    code: Code = "",
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Write down what was decided after a consultation; to override the model needs a reason or a code.

    Examples
    --------
    $ bayespatch casebase decide clinic.db 1204 sick
    $ bayespatch casebase decide clinic.db 1204 well --reason 'the pain is from a broken rib'
    """
    with _opened(base, folder) as opened:
        made = opened.decide(consultation, decided, by=_by(by), reason=reason, code=code)
    word = "agrees with" if made.agrees else "overrides"
    show(made.to_dict(), json, f"decided: {made.decided}, which {word} the model")


def outcome(
    base: Base, case: CaseName, outcome: Class, by: By = None, folder: Folder = None, json: Json = False
) -> None:
    """Write down what became of a case; a second outcome is refused.

    Examples
    --------
    $ bayespatch casebase outcome clinic.db 304 sick
    $ bayespatch casebase outcome clinic.db P-17 well
    """
    with _opened(base, folder) as opened:
        found = opened.outcome(_case(case), outcome, by=_by(by))
        label = opened.definition.class_name(found.outcome)
    show(found.to_dict(), json, f"case {found.id}: {label}; retain it, and the next refit learns from it")


def retain(base: Base, cases: MaybeCases = None, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Make open cases past ones, which the next refit learns from: those named, or all whose outcome is known.

    Examples
    --------
    $ bayespatch casebase retain clinic.db
    $ bayespatch casebase retain clinic.db 304 P-17
    """
    with _opened(base, folder) as opened:
        ids = opened.retain([_case(case) for case in cases] if cases else None, by=_by(by))
    show({"retained": ids}, json, f"{_counted(len(ids), 'more past case')}")


def refit(base: Base, settings: Parameter = None, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Learn anew from all past cases, beside the active model; the new version is only offered.

    Killed or stopped, the same command goes on where it was.

    Examples
    --------
    $ bayespatch casebase refit clinic.db
    $ bayespatch casebase refit clinic.db --set draws=500 --set model='"II"'
    """
    from bayespatch.casebase.models import Model

    with _opened(base, folder) as opened, working("Learning from the past cases"):
        model = opened.refit(by=_by(by), **_parameters(settings or []))
    assert isinstance(model, Model)
    show(model.to_dict(), json, _comparison_text(model))


def models(base: Base, folder: Folder = None, json: Json = False) -> None:
    """List the versions of the model, the newest first.

    Examples
    --------
    $ bayespatch casebase models clinic.db
    """
    with _opened(base, folder) as opened:
        found = opened.models()
    rows = [
        [str(one.version), one.state, str(one.n_cases), str(one.n_forgotten), one.made_at[:19], one.made_by]
        for one in found
    ]
    text = table_text(["version", "state", "cases", "forgotten", "made at", "by"], rows) if rows else "no models yet"
    show({"models": [one.to_dict() for one in found]}, json, text)


def promote(base: Base, version: Version, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Make a version of the model the active one.

    Examples
    --------
    $ bayespatch casebase promote clinic.db 2
    """
    with _opened(base, folder) as opened:
        model = opened.promote(version, by=_by(by))
    show(model.to_dict(), json, f"version {model.version} is active")


def roll_back(base: Base, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Go back to the version that was active before.

    Examples
    --------
    $ bayespatch casebase roll-back clinic.db
    """
    with _opened(base, folder) as opened:
        model = opened.roll_back(by=_by(by))
    show(model.to_dict(), json, f"version {model.version} is active")


def forget(
    base: Base, case: CaseName, reason: Reason, by: By = None, folder: Folder = None, json: Json = False
) -> None:
    """Forget a patient: the values go from every table and every model at once, and from the disk.

    The log keeps who forgot the case, when and why.

    Examples
    --------
    $ bayespatch casebase forget clinic.db 304 --reason 'asked for it on 3 May'
    """
    with _opened(base, folder) as opened:
        done = opened.forget(_case(case), reason, by=_by(by))
    if done.note is not None:
        say(f"note: {done.note}; it will be done when the case base is opened next")
    n = len(done.versions) + len(done.removed)
    gone = f"gone from {_counted(n, 'version')} of the model, a refit is due" if n else "it was in no model"
    show(done.to_dict(), json, f"case {done.case_id} is forgotten; {gone}")


def search(
    base: Base,
    where: Where = None,
    state: StateOption = None,
    order: Order = "id",
    descending: Descending = False,
    offset: Offset = 0,
    limit: Limit = 20,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Find cases; a value may be 'null', which is a missing one.

    Examples
    --------
    $ bayespatch casebase search clinic.db --where 'age>=60' --where 'pain=rest' --state past
    $ bayespatch casebase search clinic.db --where 'external_id=P-17' --json
    """
    from bayespatch.casebase.cases import read_condition

    with _opened(base, folder) as opened:
        known = opened.definition
        page = opened.search(
            [read_condition(one, known) for one in where or ()],
            by=_by(by),
            state=None if state is None else state.value,
            order=order,
            descending=descending,
            offset=offset,
            limit=limit,
        )
    rows = [
        [str(one.id), one.external_id or "", one.state, _value(one.outcome), *map(_value, (one.values or {}).values())]
        for one in page.cases
    ]
    names = ["case", "external id", "state", "outcome", *known.features.names]
    rows = [row + [""] * (len(names) - len(row)) for row in rows]
    shown = _counted(page.total, "case") + (f", from {page.offset + 1}" if rows and page.offset else "")
    show(page.to_dict(), json, f"{table_text(names, rows)}\n\n{shown}" if rows else shown)


def log(
    base: Base,
    case: LogCase = None,
    person: LogBy = None,
    action: LogAction = None,
    limit: Limit = 20,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Show the audit log, the newest first: who did what and when.

    Examples
    --------
    $ bayespatch casebase log clinic.db
    $ bayespatch casebase log clinic.db --case 304 --json
    """
    with _opened(base, folder) as opened:
        found = opened.audit(case=case, by=person, action=action, limit=limit)
    rows = [
        [str(one.number), one.at[:19], one.by, one.action, "" if one.case_id is None else str(one.case_id)]
        for one in found
    ]
    text = table_text(["row", "at", "by", "action", "case"], rows) if rows else "nothing yet"
    show({"log": [one.to_dict() for one in found]}, json, text)


def verify(base: Base, head: Head = None, folder: Folder = None, json: Json = False) -> None:
    """Hold the log and the models against their hashes; exit code 1 where something was changed.

    Note the end of the log elsewhere and pass it the next time: then even a log that was rewritten as a whole is found.

    Examples
    --------
    $ bayespatch casebase verify clinic.db
    $ bayespatch casebase verify clinic.db --head 1204:5d41402a...
    """
    with _opened(base, folder) as opened:
        found = opened.verify_audit(head)
    said = {"intact": found.intact, "entries": found.n_entries, "head": found.head, "problems": list(found.problems)}
    if found.intact:
        show(said, json, f"intact: {found.n_entries} rows; the log ends with {found.head}")
        return
    if json:
        show(said, json, "")
    raise ValueError(f"{_name(base)}: {'; '.join(found.problems)}")


def backup(base: Base, out: Out, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Copy the whole case base into one file, which is a case base itself, while others go on working.

    Examples
    --------
    $ bayespatch casebase backup clinic.db backups/2025-03-01.db
    """
    with _opened(base, folder) as opened, working("Copying"):
        path = opened.backup(out, by=_by(by))
        head = opened.verify_audit().head
    show({"backup": str(path), "head": head}, json, f"the backup is in {path}; the log ends with {head}")


def restore(base: Base, file: Backup, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Fill a new, empty case base from a backup.

    Who was forgotten after the backup was made is in it again, and has to be forgotten again.

    Examples
    --------
    $ bayespatch casebase restore postgresql://steward@db/clinic backups/2025-03-01.db
    """
    from bayespatch.casebase import CaseBase

    with CaseBase.open(base, folder=folder) as opened, working("Copying"):
        opened.restore(file, by=_by(by))
        found = opened.verify_audit()
    show({"entries": found.n_entries, "head": found.head}, json, f"{_name(base)} is as the backup was")


def export(
    base: Base,
    to: Target,
    state: StateOption = None,
    without_sensitive: WithoutSensitive = False,
    table: TableName = "cases",
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Write the cases to a CSV or Parquet file, or into a new table of a database.

    Examples
    --------
    $ bayespatch casebase export clinic.db past.csv --state past
    $ bayespatch casebase export clinic.db sqlite:///research.db --table cases --without-sensitive
    """
    with _opened(base, folder) as opened, working("Writing"):
        chosen = None if state is None else state.value
        n = opened.export(to, by=_by(by), state=chosen, sensitive=not without_sensitive, table=table)
    show({"cases": n}, json, f"{_counted(n, 'case')} written")


def drift(base: Base, every: Every = Period.month, by: By = None, folder: Folder = None, json: Json = False) -> None:
    """Hold what the model said against what happened since.

    Examples
    --------
    $ bayespatch casebase drift clinic.db
    $ bayespatch casebase drift clinic.db --every year --json
    """
    with _opened(base, folder) as opened:
        found = opened.drift(by=_by(by), every=every.value)
    names = ["consultations", "without_precedent", "decisions", "agreement", "outcomes", "log_score", "accuracy"]
    rows = [[one["period"], *(_value(one[name]) for name in names)] for one in found]
    headings = ["period", *(name.replace("_", " ") for name in names)]
    show({"periods": found}, json, table_text(headings, rows) if rows else "no consultations yet")


def invite(
    base: Base,
    name: PersonName,
    role: RoleOption = Role.clinician,
    by: By = None,
    folder: Folder = None,
    json: Json = False,
) -> None:
    """Make a link by which a person chooses a password for the consulting page; it can be used once, for 72 hours.

    Examples
    --------
    $ bayespatch casebase invite clinic.db 'Dr. Roe'
    $ bayespatch casebase invite clinic.db 'Sam Steward' --role steward
    """
    with _opened(base, folder) as opened:
        secret = opened.people.invite(name, role.value, by=_by(by))
    show({"path": f"/join/{secret}"}, json, f"after the address of the consulting page: /join/{secret}")


COMMANDS = (
    *(init, import_, consult, decide, outcome, retain, refit, models, promote, roll_back, forget),
    *(search, log, verify, backup, restore, export, drift, invite),
)


@contextmanager
def _opened(base: str, folder: Path | None) -> Iterator[CaseBase]:
    """A case base that is there."""
    from bayespatch.casebase import CaseBase

    with CaseBase.open(base, create=False, folder=folder) as opened:
        yield opened


def _by(given: str | None) -> str:
    return given if given is not None else getpass.getuser()


def _name(base: str) -> str:
    """What a case base is called; a URL may have a password."""
    return base.partition("://")[0] + "://..." if "://" in base and not base.startswith("sqlite") else base


def _case(text: str) -> int | str:
    """A number is the number of a case; anything else is an external id. An id that is a number is quoted: "=17"."""
    if text.startswith("="):
        return text[1:]
    return int(text) if text.isascii() and text.isdecimal() else text


def _object(text: str) -> Mapping[str, Any]:
    try:
        found = json_text.loads(text)
    except ValueError as error:
        raise ValueError(f"--values is not JSON ({error}); pass an object such as '{{\"age\": 61}}'") from error
    if not isinstance(found, dict):
        raise ValueError(f"--values is {text[:40]}, which is no object; pass one such as '{{\"age\": 61}}'")
    return found


def _parameters(settings: Sequence[str]) -> dict[str, Any]:
    found = {}
    for one in settings:
        name, sign, value = one.partition("=")
        try:
            if not sign or not name.isidentifier():
                raise ValueError("no name")
            found[name] = json_text.loads(value)
        except ValueError as error:
            raise usage_error(f"--set {one!r} is not NAME=VALUE with the value as JSON, such as draws=500") from error
    return found


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _value(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _seen_text(seen: Any) -> str:
    """A consultation in a few lines."""
    shown = seen.explanation
    facts = {
        "consultation": f"{seen.id}, case {seen.case_id}, model version {seen.version}",
        "prediction": ", ".join(f"{name} {p:.0%}" for name, p in shown["prediction"]["probabilities"].items()),
        "precedent": "adequate" if shown["precedent"]["adequate"] else "no adequate precedent",
        "past cases": "; ".join(
            f"{one['id']} and {one['stands_for'] - 1} like it ({one['outcome']}), {one['vote_share']:.0%} of the votes"
            for one in shown["exemplars"][:4]
        ),
    }
    if shown["case"]["warnings"]:
        facts["warnings"] = "; ".join(shown["case"]["warnings"])
    return facts_text(facts)


def _comparison_text(model: Model) -> str:
    """How an offered version compares with the active one."""
    head = f"version {model.version} is offered, {model.n_cases} past cases; promote it to use it"
    found = (model.metrics or {}).get("both")
    if found is None:
        return head
    names = ("log_score", "brier", "accuracy")
    rows = [[which, *(f"{found[which][name]:.3f}" for name in names)] for which in ("old", "new")]
    error = "" if found["gain_error"] is None else f" ± {found['gain_error']:.3f}"
    changes = [[str(one["case"]), one["old"], one["new"], one["outcome"]] for one in found["changes"][:20]]
    parts = [
        f"Leave-one-out on the {found['n']} past cases that both know:",
        table_text(["", "log score", "Brier", "accuracy"], rows),
        f"gain in log score {found['gain']:+.3f}{error}; {len(found['changes'])} cases are given another class",
    ]
    if changes:
        parts.append(table_text(["case", "old", "new", "outcome"], changes))
    return "\n\n".join([*parts, head])
