// Builds the parts of the page from the data within the page.
"use strict";

const DATA = JSON.parse(document.getElementById("report-data").textContent);
// For the browser's console and for tests.
window.mtgbnViews = {};

for (const root of document.querySelectorAll("[data-table]")) {
  showTable(root, DATA.tables[root.dataset.table]);
}

/** The rows of a table as objects. */
function records(name) {
  const [header, ...rows] = parseTsv(DATA.tables[name]);
  return rows.map((row) => Object.fromEntries(header.map((column, k) => [column, row[k]])));
}

const part = (id) => document.getElementById(id);

if (part("task-networks")) {
  const place = new Map(DATA.variables.map((name, k) => [name, k]));
  const networks = DATA.tasks.map((name) => ({ name, edges: [] }));
  const byTask = new Map(networks.map((network) => [network.name, network]));
  const sampled = DATA.tables.edges.slice(0, DATA.tables.edges.indexOf("\n")).includes("\tprobability\t");
  const reasons = {
    compelled: "direction compelled by the data", known: "direction given by prior knowledge",
    chosen: "direction chosen, the data allow either",
  };
  for (const row of records("edges")) {
    const value = { coefficient: Number(row.coefficient) };
    let isTold = row.direction !== "chosen";
    let text = `${row.source} → ${row.target}: coefficient ${shortNumber(row.coefficient)}`;
    if (sampled) {
      value.probability = Number(row.probability);
      value.adjacency_probability = Number(row.adjacency_probability);
      text += `, probability ${value.probability.toFixed(2)} (in either direction ` +
        `${value.adjacency_probability.toFixed(2)})`;
      // Of the draws with the edge, those with this direction.
      isTold = value.probability >= DATA.least_support * value.adjacency_probability;
    }
    text += `; ${reasons[row.direction]}; in ${row.tasks_with_edge} task` +
      (row.tasks_with_edge === "1" ? "" : "s");
    byTask.get(row.task).edges.push({
      source: place.get(row.source), target: place.get(row.target), value, text,
      chosen: !isTold,
    });
  }
  const measures = { coefficient: "|coefficient|" };
  if (sampled) {
    measures.probability = "probability";
    measures.adjacency_probability = "probability in either direction";
  }
  const view = networkView(part("task-networks"), DATA.variables, networks, measures, DATA.positions);
  window.mtgbnViews.tasks = view.cy;
  networkGrid(part("network-grid"), networks, DATA.variables.length, "coefficient", view.open);

  const total = DATA.counts.most;
  const shared = records("shared").map((row) => ({
    source: place.get(row.source), target: place.get(row.target), value: { share: Number(row.share) },
    text: `${row.source} → ${row.target}: in ${row.tasks} of ${total} tasks` +
      (row.other_way === "0" ? "" : `, in ${row.other_way} of them the other way`) +
      `; mean coefficient ${shortNumber(row.mean_coefficient)}; the direction is decided in ` +
      `${Math.round(100 * Number(row.compelled))} % of the tasks with the edge`,
    chosen: sampled
      ? Number(row.mean_probability) < DATA.least_support * Number(row.mean_adjacency_probability)
      : Number(row.compelled) < DATA.least_support,
  }));
  window.mtgbnViews.shared = networkView(
    part("shared-network"), DATA.variables, [{ name: "shared", edges: shared }],
    { share: "share of tasks" }, DATA.positions, true).cy;
  heatMap(part("counts"), DATA.variables, DATA.counts);
  if (DATA.rhat) bars(part("rhat"), DATA.rhat);
}

for (const root of document.querySelectorAll("[data-group-networks]")) {
  const template = DATA.templates[root.dataset.groupNetworks];
  const networks = template.networks.map((network) => ({
    name: network.name,
    edges: network.edges.map(([source, target, share, text]) => (
      { source, target, value: { share }, text, chosen: false })),
  }));
  window.mtgbnViews[root.id] = networkView(
    root, template.variables, networks, { share: "share of subjects" }, template.positions, true).cy;
}

for (const root of document.querySelectorAll("[data-effect-networks]")) {
  const template = DATA.templates[root.dataset.effectNetworks];
  const networks = template.networks.map((network) => ({
    name: network.name,
    edges: network.edges.map(({ values, ...edge }) => ({
      ...edge, value: Object.fromEntries(template.measures.map(([name], k) => [name, values[k]])), chosen: false,
    })),
  }));
  window.mtgbnViews[root.id] = networkView(
    root, template.variables, networks, Object.fromEntries(template.measures), template.positions, true).cy;
}

for (const root of document.querySelectorAll("[data-brain]")) {
  const template = DATA.templates[root.dataset.brain];
  // The last network has all connections that are on the page; of their measures the first is drawn.
  const edges = template.networks.at(-1).edges.map(({ values, ...edge }) => (
    { ...edge, value: values[0], strength: Math.abs(values.at(-1)) }));
  window.mtgbnViews[root.id] = brainView(
    root, template.variables, template.coordinates, edges, template.level, template.n_connections);
}

for (const button of document.querySelectorAll("[data-copy]")) {
  button.addEventListener("click", async () => {
    const source = part(button.dataset.copy);
    try {
      await navigator.clipboard.writeText(source.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(source); // a page from a file may not use the clipboard
    }
  });
}
document.documentElement.dataset.ready = "true";
