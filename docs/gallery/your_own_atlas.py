"""Your own atlas: an image with one number per region, scans, and from them series and networks."""

from pathlib import Path

import nibabel
import numpy as np

from mtgbn import MTGBN, Tasks
from mtgbn.fmri import extract_series, load_atlas
from mtgbn.report import report_of
from mtgbn.simulate import simulate_bold_groups
from mtgbn.simulate.bold_images import paint_images

out = Path("gallery/your_own_atlas")
out.mkdir(parents=True, exist_ok=True)
names = ["left M1", "right M1", "SMA", "left putamen", "right putamen"]
centres = np.array([[-38, -22, 56], [38, -22, 56], [0, -4, 60], [-26, 4, 2], [26, 4, 2]])

# Scans such as fMRIPrep leaves, and an atlas in the same space. You have both already.
scans = out / "scans"
if not scans.exists():
    truth = simulate_bold_groups(4, 0, 150, regions=names, random_state=1)
    paint_images(truth, centres, scans, random_state=1)
grid = nibabel.load(next(scans.rglob("*_bold.nii.gz")))
voxels = np.stack(np.meshgrid(*map(np.arange, grid.shape[:3]), indexing="ij"), axis=-1)
places = nibabel.affines.apply_affine(grid.affine, voxels)
atlas = np.zeros(grid.shape[:3], dtype=np.int16)
for value, centre in enumerate(centres, start=1):
    atlas[np.linalg.norm(places - centre, axis=-1) <= 6] = value
nibabel.save(nibabel.Nifti1Image(atlas, grid.affine), out / "atlas.nii.gz")
rows = [f"{value}\t{name}" for value, name in enumerate(names, start=1)]
(out / "labels.tsv").write_text("\n".join(["index\tname", *rows]) + "\n")

extract_series(scans, load_atlas(out / "atlas.nii.gz", out / "labels.tsv"), out / "series")
tasks = Tasks.from_folder(out / "series", effective_samples="bartlett")
learner = MTGBN(random_state=1).fit(tasks)
for i, j in np.argwhere(learner.graphs_.mean(axis=0) > 0.5):
    print(f"{learner.variables_[i]} -> {learner.variables_[j]} in most subjects")
print("Open", report_of(learner).save_as_html(out / "report.html"))
