"""Regions: the paper's table, and what other tables and atlases may get wrong."""

import nibabel as nib
import numpy as np
import pytest

from mtgbn.errors import InputError
from mtgbn.fmri.regions import TEMPLATES, load_atlas, load_regions

# Copied by hand from the paper's last table, apart from the file: the numbers in its order.
PAPER = {
    "aDMN": "-6 52 -2 -8 -56 26 0 52 26 -54 -54 28 -60 -24 -18 -50 14 -40 0 26 -18 -44 -74 32 "
    "-14 -52 8 -28 -40 -12 -22 -20 -26",
    "dDMN": "-3 49 14 -48 -68 35 19 38 47 1 -53 28 2 -15 36 56 -66 36 6 -6 2 -24 -29 -13 27 -23 -17",
    "vDMN": "-12 -58 15 -24 12 55 -28 -37 -15 -44 -74 30 13 -53 14 1 -57 54 26 26 45 28 -33 -19 "
    "43 -74 32 8 -26 70",
}


@pytest.mark.parametrize(("template", "size"), [("aDMN", 11), ("dDMN", 9), ("vDMN", 10)])
def test_templates_of_the_paper(template, size):
    regions = load_regions(template)
    assert regions.names == tuple(f"{template}{number}" for number in range(1, size + 1))
    expected = np.array(PAPER[template].split(), dtype=float).reshape(-1, 3)
    np.testing.assert_array_equal(regions.coordinates, expected)
    assert set(regions.templates) == {template}
    assert len(regions.labels) == len(regions.subsystems) == size


def test_all_templates_side_by_side():
    everything = load_regions("all")
    parts = [load_regions(template) for template in TEMPLATES]
    assert everything.names == sum((part.names for part in parts), ())
    np.testing.assert_array_equal(
        everything.coordinates, np.concatenate([part.coordinates for part in parts])
    )
    assert len(set(everything.names)) == 30


def test_subsystems_of_the_andrews_hanna_template():
    regions = load_regions("aDMN")
    assert [regions.subsystems.count(name) for name in dict.fromkeys(regions.subsystems)] == [
        2,
        4,
        5,
    ]
    assert set(load_regions("dDMN").subsystems) == {""}


def test_a_table_of_ones_own(tmp_path):
    file = tmp_path / "mine.csv"
    file.write_text("\ufeffName,X,y,z,note\n A ,-1.5,2,3,x\nB,4,5,6,\n", encoding="utf-8")
    regions = load_regions(file)
    assert regions.names == regions.labels == ("A", "B")
    assert regions.coordinates.tolist() == [[-1.5, 2, 3], [4, 5, 6]]
    assert regions.templates == ("mine", "mine")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("r.csv", "name,x,y\na,1,2\n", r"lacks the column z; it has name, x, y"),
        ("r.csv", "roi,x,y,z\na,1,2,3\n", r"lacks the column name"),
        ("r.csv", "name,x,y,z\na,1,2,3\na,4,5,6\n", r"duplicate region name .a."),
        ("r.csv", "name,x,y,z\na,1,2,3\nb,1,2,3\n", r"'a' and 'b' .* the same point"),
        ("r.csv", "name,x,y,z\n,1,2,3\n", r"region number 0 has an empty name"),
        ("r.csv", "name,x,y,z\na,1,two,3\n", r"'a' .*: y is 'two'"),
        ("r.csv", "name,x,y,z\na,nan,2,3\n", r"outside the brain"),
        ("r.csv", "name,x,y,z\na,1,2,3\nb,1,200,3\n", r"'b' .*\(1, 200, 3\) is outside the brain"),
        ("r.csv", "name,x,y,z\na,1,2\n", r"row 1 .* has 3 cells, the header 4"),
        ("r.csv", "name,x,y,z\n", r"has no regions"),
        ("r.csv", "", r"has no regions"),
        ("r.xlsx", "name,x,y,z\na,1,2,3\n", r"neither \.tsv nor \.csv"),
    ],
)
def test_bad_tables(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load_regions(tmp_path / name)


def test_unknown_regions():
    with pytest.raises(InputError, match=r"no regions 'DMN'; give aDMN, dDMN, vDMN, all, or a"):
        load_regions("DMN")


def save(path, data):
    nib.save(nib.Nifti1Image(data, np.eye(4)), path)
    return path


@pytest.fixture
def atlas(tmp_path):
    data = np.zeros((4, 4, 4), dtype=np.int16)
    data[0], data[1], data[2] = 7, 3, 12
    return save(tmp_path / "atlas.nii.gz", data)


def test_an_atlas_without_labels(atlas):
    assert load_atlas(atlas)[1:] == ((3, 7, 12), ("region3", "region7", "region12"))


def test_labels_name_and_choose(atlas, tmp_path):
    (tmp_path / "dseg.tsv").write_text("index\tname\tcolor\n0\tBackground\t#000\n12\tc\t\n3\ta\t\n")
    assert load_atlas(atlas, tmp_path / "dseg.tsv")[1:] == ((3, 12), ("a", "c"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("index\tname\n3\ta\n4\tb\n", r"no voxel of b \(4\); remove"),
        ("index\tname\n3\ta\n3\tb\n", r"gives 3 to both 'a' and 'b'"),
        ("index\tname\n3\ta\nx\tb\n", r"'b' .*: index is 'x'"),
        ("number\tname\n3\ta\n", r"lacks the column index"),
        ("index\tname\n3\ta\n", r"fewer than two regions"),
    ],
)
def test_bad_labels(atlas, tmp_path, text, message):
    (tmp_path / "labels.tsv").write_text(text)
    with pytest.raises(InputError, match=message):
        load_atlas(atlas, tmp_path / "labels.tsv")


def test_bad_atlases(atlas, tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*labels\.tsv"):
        load_atlas(atlas, tmp_path / "labels.tsv")
    with pytest.raises(InputError, match=r"has the value 0\.5; .* probabilistic"):
        load_atlas(save(tmp_path / "p.nii", np.full((2, 2, 2), 0.5)))
    with pytest.raises(InputError, match=r"has 4 dimensions"):
        load_atlas(save(tmp_path / "four.nii", np.ones((2, 2, 2, 3))))
    (tmp_path / "no.nii").write_text("text")
    with pytest.raises(InputError, match=r"no\.nii' cannot be read"):
        load_atlas(tmp_path / "no.nii")
