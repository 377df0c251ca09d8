"""Two groups: which connections differ between patients and controls, on simulated BOLD series."""

from pathlib import Path

from mtgbn import MTGBN, Tasks
from mtgbn.compare import compare_design, write_study
from mtgbn.fmri import load_regions
from mtgbn.plot import plot_difference
from mtgbn.simulate import simulate_bold_groups

out = Path("gallery/two_groups")
truth = simulate_bold_groups(
    8, 8, regions=load_regions("dDMN").names, n_altered=2, drift=0, random_state=3
)
tasks = Tasks.from_arrays(
    truth.series, truth.regions, truth.subjects, standardise=True, effective_samples="bartlett"
)
# One row per subject; columns of covariates, such as age, could stand beside the group.
people = {
    name: {"group": group}
    for name, group in zip(truth.subjects, truth.groups.tolist(), strict=True)
}
study = compare_design(tasks, people, "group", MTGBN(), random_state=1, n_jobs=-1)

for altered in truth.altered:
    print(
        "altered:", truth.regions[altered.source], "->", truth.regions[altered.target], altered.kind
    )
print(*study.in_words(), sep="\n")
print("Tables:", write_study(study, out).parent)
(template,) = study.templates
is_patient = truth.groups == "patient"
graphs = template.estimator.graphs_
shares = [graphs[group].mean(axis=0) for group in (is_patient, ~is_patient)]
plot_difference(*shares, truth.regions, title="patient minus control").savefig(
    out / "difference.svg"
)
