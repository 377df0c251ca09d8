"""Two groups: connections that patients have and controls lack, on simulated BOLD series."""

from pathlib import Path

import numpy as np

from mtgbn import MTGBN, Tasks
from mtgbn.compare import compare_groups, write_study
from mtgbn.fmri import load_regions
from mtgbn.plot import plot_difference
from mtgbn.report import report_of
from mtgbn.simulate import simulate_bold_groups

out = Path("gallery/two_groups")
truth = simulate_bold_groups(
    8, 8, regions=load_regions("dDMN").names, n_altered=2, drift=0, random_state=3
)
tasks = Tasks.from_arrays(
    truth.series, truth.regions, truth.subjects, standardise=True, effective_samples="bartlett"
)
is_patient = truth.groups == "patient"
study = compare_groups(
    tasks, is_patient, MTGBN(), labels=("patient", "control"), random_state=1, n_jobs=-1
)

for altered in truth.altered:
    print(
        "altered:", truth.regions[altered.source], "->", truth.regions[altered.target], altered.kind
    )
found = study.templates[0].undirected
for k in np.flatnonzero(found.q < 0.05):
    pair = " - ".join(truth.regions[v] for v in (found.source[k], found.target[k]))
    print(f"found: {pair}: {found.count_a[k]} patients, {found.count_b[k]} controls")
write_study(study, out)
print("Open", report_of(study).save_as_html(out / "report.html"))
shares = [graphs.mean(axis=0) for graphs in study.templates[0].fits[:2]]
plot_difference(*shares, truth.regions, title="patient minus control").savefig(
    out / "difference.svg"
)
