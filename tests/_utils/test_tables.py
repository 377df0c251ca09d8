"""The reader and the writer of delimited tables."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtgbn._utils.tables import (
    check_columns,
    parse_records,
    parse_table,
    read_records,
    read_table,
    read_text,
    table_text,
)
from mtgbn.errors import InputError

CELLS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip)


@given(st.lists(st.lists(CELLS, min_size=1), min_size=1), st.sampled_from("\t,;"))
def test_what_is_written_is_read(rows, delimiter):
    text = table_text(rows, delimiter)
    assert [line.cells for line in parse_table(text, delimiter, "text")] == rows
    assert list(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)) == rows


def test_plain_cells_are_joined():
    assert table_text([["a", "b"], [1.5, None]]) == "a\tb\n1.5\t\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [("t.csv", "a,b\r\n\r\n1,2"), ("t.tsv", "a\tb\n \n1\t2\n"), ("t.txt", "\ufeffa  b\n\n 1 2\n")],
)
def test_delimiters_and_line_numbers(tmp_path, name, content):
    (tmp_path / name).write_bytes(content.encode())
    assert read_table(tmp_path / name) == [(1, ["a", "b"]), (3, ["1", "2"])]


@pytest.mark.parametrize("delimiter", ["\t", ",", ";", " "])
def test_the_header_shows_the_delimiter(tmp_path, delimiter):
    (tmp_path / "t.txt").write_text(f"a{delimiter}b\n1{delimiter}2")
    assert read_table(tmp_path / "t.txt") == [(1, ["a", "b"]), (2, ["1", "2"])]


def test_records_have_columns_in_lower_case(tmp_path):
    (tmp_path / "t.csv").write_text("Name, X \n a ,1\n,\nb,2\n")
    records = read_records(tmp_path / "t.csv", "region")
    assert records == [{"name": "a", "x": "1"}, {"name": "b", "x": "2"}]
    with pytest.raises(InputError, match="'t' lacks the columns y, z; it has name, x"):
        check_columns(records, ("x", "y", "z"), "t")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n", "'t' has no regions; give a header and one row per region"),
        ("a,A\n1,2\n", "has the column 'a' twice"),
        ("a,b\n\n1,2,3\n", r"row 1 of 't' \(line 3\) has 3 cells, the header 2"),
        ('a,b\n1,"2\n', "an earlier quote that is not closed"),
    ],
)
def test_bad_records(text, message):
    with pytest.raises(InputError, match=message):
        parse_records(text, ",", "t", "region")


def test_bad_files(tmp_path):
    with pytest.raises(InputError, match="there is no file"):
        read_text(tmp_path / "t.csv")
    with pytest.raises(InputError, match=r"neither \.tsv nor \.csv"):
        read_records(tmp_path / "t.xlsx", "region")
    (tmp_path / "t.csv").write_bytes(b"a,\xff")
    with pytest.raises(InputError, match=r"not UTF-8 text; .* 0xff at position 2"):
        read_table(tmp_path / "t.csv")
