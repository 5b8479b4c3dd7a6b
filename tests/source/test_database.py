import sqlite3
import sys
import traceback
from contextlib import closing

import duckdb
import pytest

from bayespatch.source.database import read_query
from tests.source.server import postgresql_server, why_no_server

ROWS = [("P-1", 61, "à l'effort", 1.5), ("P-2", None, None, 2.5)]


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "clinic one.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute('CREATE TABLE patients (who TEXT, "âge" INTEGER, pain TEXT, dose REAL)')
        connection.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", ROWS)
        connection.commit()
    return path


def check(frame):
    assert list(frame.columns) == ["who", "âge", "pain", "dose"]
    assert frame["âge"].tolist()[0] == 61
    assert frame["âge"].isna().tolist() == frame["pain"].isna().tolist() == [False, True]
    assert frame["dose"].tolist() == [1.5, 2.5]
    assert frame["dose"].dtype.kind == "f"


def test_sqlite(database):
    check(read_query(f"sqlite:///{database}", "SELECT * FROM patients ORDER BY who"))


def test_sqlite_by_a_relative_path(database, monkeypatch):
    monkeypatch.chdir(database.parent)
    assert len(read_query("sqlite:///clinic one.db", "SELECT * FROM patients")) == 2


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        (None, "a database needs a query"),
        ("SELECT * FROM nobody", "no such table: nobody"),
        ("DROP TABLE patients", "does more than read"),
        ("DELETE FROM patients", "does more than read"),
        ("SELECT 1; DROP TABLE patients", "one statement at a time"),
        ("SELECT who, who FROM patients", "more than one column is named 'who'"),
        ("SELECT * FROM patients WHERE 0", "no rows"),
        ("PRAGMA foreign_keys = 0", "does more than read"),
        ("-- nothing", "returns no table; pass a SELECT"),
    ],
)
def test_a_query_that_gives_nothing_gets_one_sentence(database, query, complaint):
    with pytest.raises(ValueError, match=complaint):
        read_query(f"sqlite:///{database}", query)
    assert len(read_query(f"sqlite:///{database}", "SELECT * FROM patients")) == 2


def test_a_database_that_is_not_there_is_not_made(tmp_path):
    with pytest.raises(ValueError, match="there is no file"):
        read_query(f"sqlite:///{tmp_path}/none.db", "SELECT 1")
    assert not list(tmp_path.iterdir())


def test_an_unknown_kind_of_database():
    with pytest.raises(ValueError, match="mysql:// is not supported"):
        read_query("mysql://host/db", "SELECT 1")


@pytest.mark.parametrize(
    "query",
    [
        "VACUUM INTO '{path}'",
        "ATTACH 'file:{path}?mode=rwc' AS other",
        "ATTACH '{path}' AS other",
        "CREATE TABLE other AS SELECT 1",
        "PRAGMA journal_mode = WAL",
    ],
)
def test_sqlite_writes_no_file(database, tmp_path, query):
    with pytest.raises(ValueError, match="does more than read"):
        read_query(f"sqlite:///{database}", query.format(path=tmp_path / "written"))
    assert [path.name for path in tmp_path.iterdir()] == [database.name]


@pytest.mark.parametrize(
    "query",
    [
        "COPY (SELECT 1) TO '{path}'",
        "SELECT 1; COPY (SELECT 1) TO '{path}'",
        "COPY (SELECT 1) TO '{path}' (FORMAT parquet)",
        "ATTACH '{path}'",
        "EXPORT DATABASE '{path}'",
        "CREATE TABLE other AS SELECT 1",
        "SET temp_directory = '{path}'",
    ],
)
@pytest.mark.parametrize("where", ["duckdb://", "duckdb:///:memory:", "duckdb:///{file}"])
def test_duckdb_writes_no_file(tmp_path, where, query):
    (tmp_path / "data").mkdir()
    duckdb.connect(str(tmp_path / "data" / "a.duckdb")).close()
    with pytest.raises(ValueError, match="must be a single SELECT"):
        read_query(where.format(file=tmp_path / "data" / "a.duckdb"), query.format(path=tmp_path / "written"))
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_duckdb_reads_files_in_memory_and_none_beside_a_file_of_its_own(tmp_path):
    (tmp_path / "a.csv").write_text("one\n1\n")
    query = f"SELECT * FROM read_csv('{tmp_path}/a.csv')"
    assert read_query("duckdb://", query).to_dict("list") == {"one": [1]}
    duckdb.connect(str(tmp_path / "a.duckdb")).close()
    with pytest.raises(ValueError, match="disabled"):
        read_query(f"duckdb:///{tmp_path}/a.duckdb", query)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:S3CR3T@127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?password=S3CR3T",
        "postgresql://me@127.0.0.1:1/db?sslpassword=S3CR3T&sslmode=require",
        "postgresql://me:S3CR3T@half@127.0.0.1:1/db",
        "postgresql://me:half@S3CR3T@127.0.0.1:1/db",
        "postgresql://me:S3CR3T%@127.0.0.1:1/db",
        "postgresql://me:%zzS3CR3T@127.0.0.1:1/db",
        "postgresql://me:half/S3CR3T@127.0.0.1:1/db",
        "postgresql://me:half?S3CR3T@127.0.0.1:1/db",
        "postgresql://me:half#S3CR3T@127.0.0.1:1/db",
        "postgresql://me:S3CR3T",
        "postgresql://me:S3CR3T/db",
        "postgresql://me:S3CR3T127.0.0.1:1/db",
        "postgresql://me@127.0.0.1:1/db?S3CR3T",
        "postgresql://me@127.0.0.1:1/db?passwrd=S3CR3T",
        "postgresql://me@127.0.0.1:S3CR3T/db",
        "postgresql://[S3CR3T@127.0.0.1:1/db",
        "mysql://me:S3CR3T@host/db",
        "sqlite://me:S3CR3T@host/db",
        "sqlite:///none.db?key=S3CR3T",
        "duckdb:///none.db?motherduck_token=S3CR3T",
    ],
)
@pytest.mark.parametrize("query", [None, "SELECT 1"])
def test_a_password_is_not_repeated(url, query):
    with pytest.raises(ValueError) as refused:
        read_query(url, query)
    told = "".join(traceback.format_exception(refused.value))
    assert "S3CR3T" not in told


def test_digits_that_may_be_a_password_are_not_repeated_either():
    with pytest.raises(ValueError, match="hidden because it repeats a part of the URL that may be a password"):
        read_query("postgresql://127.0.0.1:48213/db", "SELECT 1")  # me:48213, had the @ not been forgotten


def test_what_is_no_secret_is_shown():
    with pytest.raises(ValueError, match=r"postgresql://me@127\.0\.0\.1/db.*Connection refused"):
        read_query("postgresql://me:pw48@127.0.0.1:1/db", "SELECT 1")


@pytest.mark.parametrize("scheme", ["postgresql", "duckdb"])
def test_a_missing_driver_is_named(scheme, monkeypatch):
    monkeypatch.setitem(sys.modules, {"postgresql": "psycopg", "duckdb": "duckdb"}[scheme], None)
    with pytest.raises(ImportError, match=r'pip install "bayespatch\[sql\]"'):
        read_query(f"{scheme}://", "SELECT 1")


def test_duckdb(tmp_path):
    path = tmp_path / "clinic.duckdb"
    with closing(duckdb.connect(str(path))) as connection:
        connection.execute('CREATE TABLE patients (who TEXT, "âge" INTEGER, pain TEXT, dose DECIMAL(4, 2))')
        connection.executemany("INSERT INTO patients VALUES (?, ?, ?, ?)", ROWS)
    check(read_query(f"duckdb:///{path}", "SELECT * FROM patients ORDER BY who"))
    assert read_query("duckdb://", "SELECT 1 AS one").to_dict("list") == {"one": [1]}
    with pytest.raises(ValueError, match="must be a single SELECT"):
        read_query(f"duckdb:///{path}", "DROP TABLE patients")


@pytest.fixture
def server():
    missing = why_no_server()
    if missing:
        pytest.skip(missing)
    with postgresql_server() as url:
        yield url


def test_postgresql(server, tmp_path):
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute('CREATE TABLE patients (who TEXT, "âge" INTEGER, pain TEXT, dose NUMERIC(4, 2))')
        connection.cursor().executemany("INSERT INTO patients VALUES (%s, %s, %s, %s)", ROWS)
    check(read_query(server, "SELECT * FROM patients ORDER BY who"))
    assert len(read_query(server, "SELECT * FROM patients WHERE who LIKE 'P-%'")) == 2
    for query in (
        "DROP TABLE patients",
        "COMMIT; CREATE TABLE others (a INTEGER)",
        "SELECT 1; COMMIT; CREATE TABLE others (a INTEGER)",
        "SELECT 1 AS one INTO others",
        "WITH gone AS (DELETE FROM patients RETURNING who) SELECT * FROM gone",
        f"COPY patients TO '{tmp_path}/written'",
        "SET TRANSACTION READ WRITE",
    ):
        with pytest.raises(ValueError, match="the database reports an error"):
            read_query(server, query)
    assert len(read_query(server, "SELECT * FROM patients;")) == 2
    with pytest.raises(ValueError, match='relation "others" does not exist'):
        read_query(server, "SELECT * FROM others")
    with pytest.raises(ValueError, match='relation "nobody" does not exist'):
        read_query(server, "SELECT * FROM nobody")
