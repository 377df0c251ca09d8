"""First fit: ten related tasks, one network each, a report and a figure for a paper."""

from pathlib import Path

from mtgbn import MTGBN, Tasks, save_result
from mtgbn.plot import plot_shared_network
from mtgbn.report import report_of
from mtgbn.simulate import simulate_tasks

out = Path("gallery/first_fit")
truth = simulate_tasks(n_tasks=10, n_variables=8, n_rows=100, random_state=1)
tasks = Tasks.from_arrays(truth.arrays)  # or from_frames, from_long, from_folder, from_file
estimator = MTGBN(random_state=1).fit(tasks)

for sentence in estimator.relatedness_.in_words():
    print(sentence)
save_result(estimator, out)
print("Open", report_of(estimator).save_as_html(out / "report.html"))
figure = plot_shared_network(estimator.graphs_, estimator.variables_, title="Edges of most tasks")
figure.savefig(out / "shared.pdf")
