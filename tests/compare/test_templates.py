"""Variables sorted into templates: the paper's, a table's, or all as one."""

import pytest

from mtgbn.compare import find_templates
from mtgbn.compare.templates import coordinates_in
from mtgbn.errors import InputError
from mtgbn.fmri import load_regions


def test_the_papers_regions_are_known_by_name_and_by_label():
    regions = load_regions("all")
    templates, notes = find_templates(regions.names)
    assert {name: len(each) for name, each in templates.items()} == {
        "aDMN": 11,
        "dDMN": 9,
        "vDMN": 10,
    }
    assert notes == ()
    assert templates["vDMN"] == load_regions("vDMN").names
    backwards, _ = find_templates(regions.names[::-1])
    assert backwards["aDMN"] == load_regions("aDMN").names[::-1]
    assert find_templates(load_regions("aDMN").labels)[0] == {"aDMN": load_regions("aDMN").labels}


def test_other_variables_are_one_template():
    assert find_templates(["x", "y"]) == ({"all": ("x", "y")}, ())
    mixed = [*load_regions("aDMN").names, "y"]
    assert list(find_templates(mixed)[0]) == ["all"]
    # In two templates, so that a label does not say which.
    ambiguous = ["Right angular gyrus", "Precuneus"]
    assert list(find_templates(ambiguous)[0]) == ["all"]
    assert list(find_templates(load_regions("all").names, "all")[0]) == ["all"]


def test_a_table_decides(tmp_path):
    table = tmp_path / "templates.tsv"
    table.write_text("name\ttemplate\nb\tT\na\tT\nc\tS\na\tS\nz\tS\nd\tn/a\n")
    templates, notes = find_templates(["a", "b", "c", "d"], table)
    assert templates == {"T": ("a", "b"), "S": ("a", "c")}
    assert notes[0] == "in no template, and left out: 'd'"
    assert "but not in the data: 'z'" in notes[1]
    with pytest.raises(InputError, match=r"template 'S' of .* has 1 of the variables"):
        find_templates(["a", "b", "d"], table)
    table.write_text("name\tlabel\nb\tT\n")
    with pytest.raises(InputError, match="lacks the column template; it has name, label"):
        find_templates(["a", "b"], table)


def test_places_of_regions_are_read_where_a_table_has_them(tmp_path):
    table = tmp_path / "regions.csv"
    table.write_text("name,template,x,y,z\na,one,-40,2.5,7\nb,one,n/a,1,2\nc,one,inf,0,0\n")
    assert coordinates_in(table) == {"a": [-40.0, 2.5, 7.0]}
    table.write_text("name,template\na,one\nb,one\n")
    assert coordinates_in(table) == coordinates_in("all") == coordinates_in(None) == {}
