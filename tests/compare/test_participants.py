"""Tables of participants as labs write them: ids, columns, labels, and what is wrong with them."""

import pytest

from mtgbn.compare.participants import choose_groups, participant_of, read_participants
from mtgbn.errors import InputError


@pytest.fixture
def table(tmp_path):
    def write(text, name="participants.tsv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_ids_with_and_without_sub_and_labels_that_are_none(table):
    text = "participant_id\tage\tGroup\nsub-01\t30\tpatient\n02\t31\tcontrol\nsub-03\tn/a\tn/a\n"
    found = read_participants(table(text))
    assert found.labels == {"01": "patient", "02": "control", "03": None}
    assert found.column == "group"
    assert choose_groups(found) == ("patient", "control")


def test_a_column_by_name_and_csv(table):
    path = table("id,arm,dx\n1,x,MDD\n2,y,HC\n", "people.csv")
    assert read_participants(path).labels == {"1": "MDD", "2": "HC"}
    assert read_participants(path, "Arm").labels == {"1": "x", "2": "y"}


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        (("control", "patient"), ("patient", "control")),
        (("HC", "ADHD"), ("ADHD", "HC")),
        (("old", "young"), ("old", "young")),
        (("1", "2"), ("1", "2")),
    ],
)
def test_controls_are_group_b_else_the_alphabet_decides(table, labels, expected):
    rows = "".join(f"{k}\t{label}\n" for k, label in enumerate(labels))
    found = read_participants(table("participant_id\tgroup\n" + rows))
    assert choose_groups(found) == expected
    assert choose_groups(found, labels) == labels
    assert choose_groups(found, labels[::-1]) == labels[::-1]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("name\tgroup\n1\ta\n", None, "no column participant_id; it has name, group"),
        ("participant_id\tage\n1\t30\n", None, "no column group or diagnosis; it has age"),
        ("participant_id\tgroup\tdx\n1\ta\tb\n", None, "may be the group: group, dx"),
        ("participant_id\tgroup\n1\ta\n", "arm", "no column 'arm'; it has group"),
        ("participant_id\tgroup\nsub-1\ta\n1\tb\n", None, "has participant '1' twice"),
        ("participant_id\tgroup\n\ta\n", None, "row 1 of .* has no participant_id"),
        ("participant_id\tgroup\n", None, "has no participants"),
        ("participant_id\tgroup\n1\n", None, "has 1 cells, the header 2"),
    ],
)
def test_bad_tables_are_named(table, text, column, message):
    with pytest.raises(InputError, match=message):
        read_participants(table(text), column)


def test_a_table_that_is_not_utf_8(tmp_path):
    path = tmp_path / "participants.tsv"
    path.write_bytes("participant_id\tgroup\n1\tpatiënt\n".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8 text; save it as UTF-8"):
        read_participants(path)
    with pytest.raises(InputError, match=r"neither \.tsv nor \.csv"):
        read_participants(tmp_path / "participants.xlsx")


@pytest.mark.parametrize(
    ("labels", "groups", "message"),
    [
        ("abc", None, r"has 3 labels: 'a' \(1\), 'b' \(1\), 'c' \(1\); choose two"),
        ("aa", None, r"has 'a' \(2\); two groups are needed, and the other one is empty"),
        ("ab", ("a", "c"), r"group 'c' is empty: .* has no such label, but 'a' \(1\), 'b' \(1\)"),
        ("ab", ("a", "a"), "both groups are 'a'"),
    ],
)
def test_bad_groups_are_named(table, labels, groups, message):
    rows = "".join(f"{k}\t{label}\n" for k, label in enumerate(labels))
    found = read_participants(table("participant_id\tgroup\n" + rows))
    with pytest.raises(InputError, match=message):
        choose_groups(found, groups)


def test_whose_series_a_task_is():
    for task in ("sub-01", "01", "sub-01_ses-1", "sub-01_run-2"):
        assert participant_of(task, {"01", "02"}) == "01"
    assert participant_of("sub-011", {"01"}) is None
    assert participant_of("1", {"01"}) is None
    assert participant_of("a_b", {"a_b", "a"}) == "a_b"
