import sqlite3
import sys
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
        ("DROP TABLE patients", "readonly database"),
        ("SELECT who, who FROM patients", "more than one column is named 'who'"),
        ("SELECT * FROM patients WHERE 0", "no rows"),
        ("PRAGMA foreign_keys = 0", "returns no table; pass a SELECT"),
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
    with pytest.raises(ValueError, match="mysql:// is not known"):
        read_query("mysql://host/db", "SELECT 1")


def test_a_password_is_not_repeated():
    with pytest.raises(ValueError, match=r"postgresql://me:\*\*\*@host/db") as refused:
        read_query("postgresql://me:secret@host/db", None)
    assert "secret" not in str(refused.value)


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
    with pytest.raises(ValueError, match="read-only"):
        read_query(f"duckdb:///{path}", "DROP TABLE patients")


@pytest.fixture
def server():
    missing = why_no_server()
    if missing:
        pytest.skip(missing)
    with postgresql_server() as url:
        yield url


def test_postgresql(server):
    import psycopg

    with psycopg.connect(server) as connection:
        connection.execute('CREATE TABLE patients (who TEXT, "âge" INTEGER, pain TEXT, dose NUMERIC(4, 2))')
        connection.cursor().executemany("INSERT INTO patients VALUES (%s, %s, %s, %s)", ROWS)
    check(read_query(server, "SELECT * FROM patients ORDER BY who"))
    assert len(read_query(server, "SELECT * FROM patients WHERE who LIKE 'P-%'")) == 2
    with pytest.raises(ValueError, match="read-only transaction"):
        read_query(server, "DROP TABLE patients")
    with pytest.raises(ValueError, match='relation "nobody" does not exist'):
        read_query(server, "SELECT * FROM nobody")
