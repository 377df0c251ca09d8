// Networks: interactive views, thumbnails, heat maps.
"use strict";

// Okabe and Ito's blue and vermilion, which colour-blind readers can tell apart; lines also show the sign.
const POSITIVE = "#0072B2", NEGATIVE = "#D55E00", INK = "#1f2933", FAINT = "#9aa5b1";
const THUMBNAILS = 24;

function onCircle(n) {
  return Array.from({ length: n }, (_, k) => {
    const angle = (2 * Math.PI * k) / n - Math.PI / 2;
    return { x: Math.cos(angle), y: Math.sin(angle) };
  });
}

/** Positions on a map seen from above, scaled to the square from -1 to 1. */
function onMap(positions) {
  const spread = Math.max(...positions.flat().map(Math.abs), 1);
  return positions.map(([x, y]) => ({ x: x / spread, y: -y / spread }));
}

/** Steps of a threshold for values up to `most`: hundredths, or finer ones for small values. */
function stepFor(most) {
  return most === 0 || most > 0.2 ? 0.01 : 10 ** (Math.floor(Math.log10(most)) - 1);
}

/**
 * The smallest threshold at which no network shows many more edges than it has variables; where some
 * edges are doubtful, the others are shown in any case.
 */
function legibleStart(networks, n, measure, step) {
  const all = networks.flatMap(({ edges }) => edges);
  const certain = all.some((edge) => edge.doubtful) ? all.filter((edge) => !edge.doubtful) : [];
  const least = certain.reduce((low, edge) => Math.min(low, Math.abs(edge.value[measure])), Infinity);
  return Math.max(0, ...networks.map(({ edges }) => {
    const sizes = edges.map((edge) => Math.abs(edge.value[measure])).sort((one, other) => other - one);
    const most = (n > 60 ? 2 : 3) * n;
    const start = sizes.length > most ? Math.ceil(sizes[most] / step) * step : 0;
    return Math.min(start, Math.floor(least / step) * step);
  }));
}

/**
 * A network in cytoscape with its controls, in `root`, a section made by the template.
 *
 * networks: [{name, edges: [{source, target, value: {measure: number}, chosen, text}]}]; an edge may be
 *   `headless` (it has no direction) and `doubtful` (it is drawn in grey).
 * measures: {name: words}; the first decides widths and colours.
 * legible: whether to show only the strongest edges at first, if there are many.
 */
function networkView(root, variables, networks, measures, positions, legible) {
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const [select, slider, measure, output, tip, layout, undirected, list] =
    ["network", "threshold", "measure", "shown", "tip", "layout", "undirected", "list"].map(part);
  const main = Object.keys(measures)[0];
  let network = networks[0];
  for (const [place, each] of networks.entries()) {
    select.append(make("option", { value: place }, each.name));
  }
  for (const [name, words] of Object.entries(measures)) {
    measure.append(make("option", { value: name }, words));
  }
  part("networks").hidden = networks.length < 2;
  if (!positions) layout.querySelector('[value="map"]').remove();

  const largest = (name) => Math.max(
    ...networks.map((each) => each.edges.reduce((top, edge) => Math.max(top, Math.abs(edge.value[name])), 0)));
  const widest = largest(main) || 1;
  const small = variables.length > 60;
  let step = 0.01;
  const cy = cytoscape({
    container: part("canvas"),
    elements: variables.map((name, place) => ({ data: { id: `v${place}`, label: name, place } })),
    layout: { name: "preset" },
    minZoom: 0.2, maxZoom: 6,
    style: [
      { selector: "node", style: {
        width: small ? 7 : 13, height: small ? 7 : 13, "background-color": INK,
        label: "data(label)", color: INK, "font-size": small ? 8 : 12,
        "font-family": "system-ui, sans-serif", "text-valign": "center",
        "text-halign": (node) => (node.scratch("side") || "right"),
        "text-margin-x": (node) => (node.scratch("side") === "left" ? -4 : 4),
        "text-background-color": "#fff", "text-background-opacity": 0.75, "text-background-padding": 1,
        "text-max-width": 160, "text-wrap": "ellipsis",
      } },
      { selector: "edge", style: {
        width: "data(width)", "line-color": "data(colour)", "target-arrow-color": "data(colour)",
        "target-arrow-shape": "triangle", "arrow-scale": small ? 0.7 : 1.1, "curve-style": "bezier",
        "line-style": "data(line)", opacity: 0.85,
      } },
      { selector: "edge.undirected", style: { "target-arrow-shape": "none" } },
      { selector: "edge.doubtful", style: {
        "line-color": FAINT, "target-arrow-color": FAINT, opacity: 0.55,
      } },
      { selector: ".hidden", style: { display: "none" } },
      { selector: ".faded", style: { opacity: 0.12 } },
    ],
  });

  function place() {
    const height = Math.max(cy.height() - 60, 160) / 2;
    const width = Math.min(Math.max(cy.width() - (small ? 120 : 220), 160) / 2, 1.5 * height);
    const points = layout.value === "map" ? onMap(positions) : onCircle(variables.length);
    cy.nodes().forEach((node) => {
      const { x, y } = points[node.data("place")];
      node.scratch("side", x < -0.01 ? "left" : "right");
      node.position({ x: x * width, y: y * height });
    });
    if (layout.value === "force") {
      cy.layout({ name: "cose", animate: false, randomize: false, nodeRepulsion: 40000, padding: 40 }).run();
    }
    cy.style().update();
    cy.fit(undefined, 24);
  }

  function show() {
    network = networks[Number(select.value)];
    cy.batch(() => {
      cy.edges().remove();
      cy.add(network.edges.map((edge, number) => ({
        group: "edges",
        data: {
          id: `e${number}`, source: `v${edge.source}`, target: `v${edge.target}`, number,
          width: (small ? 0.4 : 1) + ((small ? 2 : 5) * Math.abs(edge.value[main])) / widest,
          colour: edge.value[main] < 0 ? NEGATIVE : POSITIVE,
          line: edge.value[main] < 0 ? "dashed" : "solid",
        },
      })));
    });
    filter();
  }

  function scale() {
    const most = largest(measure.value);
    step = stepFor(most);
    slider.step = step;
    slider.max = most > 1 || most <= 0.2 ? Math.ceil(most / step) * step || 1 : 1;
    slider.value = legible ? legibleStart(networks, variables.length, measure.value, step) : 0;
    filter();
  }

  function filter() {
    const least = Number(slider.value), name = measure.value;
    let shown = 0;
    cy.batch(() => cy.edges().forEach((each) => {
      const edge = network.edges[each.data("number")];
      const visible = Math.abs(edge.value[name]) >= least;
      shown += visible;
      each.toggleClass("hidden", !visible);
      each.toggleClass("undirected", Boolean(edge.headless || (undirected.checked && edge.chosen)));
      each.toggleClass("doubtful", Boolean(edge.doubtful));
    }));
    const total = network.edges.length;
    output.textContent = total === 0 ? "no edges"
      : `${shown} of ${total} edge${total > 1 ? "s" : ""} (at least ${least.toFixed(step < 0.01 ? Math.round(-Math.log10(step)) : 2)})`;
    write();
  }

  function write() {
    if (!list.open) return;
    const least = Number(slider.value), name = measure.value;
    list.querySelector("ul").replaceChildren(...network.edges
      .filter((edge) => Math.abs(edge.value[name]) >= least)
      .map((edge) => make("li", {}, edge.text)));
  }

  function say(text, at) {
    tip.textContent = text;
    tip.hidden = !text;
    if (!text) return;
    tip.style.left = `${Math.min(Math.max(at.x - tip.offsetWidth / 2, 4), cy.width() - tip.offsetWidth - 4)}px`;
    tip.style.top = `${Math.max(at.y - tip.offsetHeight - 14, 4)}px`;
  }

  cy.on("mouseover tap", "edge", (event) => {
    say(network.edges[event.target.data("number")].text, event.renderedPosition);
  });
  cy.on("mouseover tap", "node", (event) => {
    const near = event.target.connectedEdges(":visible");
    cy.elements().not(near.connectedNodes()).not(near).not(event.target).addClass("faded");
    const arrows = near.filter((edge) => !edge.hasClass("undirected"));
    const into = arrows.filter((edge) => edge.target().id() === event.target.id()).length;
    const lines = near.length - arrows.length;
    say(`${event.target.data("label")}: ${into} in, ${arrows.length - into} out` +
      (lines ? `, ${lines} without a direction` : ""),
      event.renderedPosition || event.target.renderedPosition());
  });
  cy.on("mouseout", () => { cy.elements().removeClass("faded"); say(""); });
  cy.on("tap", (event) => { if (event.target === cy) { cy.elements().removeClass("faded"); say(""); } });
  // The wheel scrolls the page unless the picture was clicked first; then it zooms the picture.
  cy.userZoomingEnabled(false);
  cy.on("tapstart", () => cy.userZoomingEnabled(true));
  part("canvas").addEventListener("mouseleave", () => cy.userZoomingEnabled(false));
  select.addEventListener("change", show);
  slider.addEventListener("input", filter);
  measure.addEventListener("change", scale);
  undirected.addEventListener("change", filter);
  layout.addEventListener("change", place);
  list.addEventListener("toggle", write);
  part("reset").addEventListener("click", () => { place(); });
  part("near").addEventListener("click", () => cy.zoom({ level: cy.zoom() * 1.3, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } }));
  part("far").addEventListener("click", () => cy.zoom({ level: cy.zoom() / 1.3, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } }));
  scale();
  show();
  place();
  let width = cy.width();
  new ResizeObserver(() => {
    if (Math.abs(cy.width() - width) > 8) { width = cy.width(); place(); }
  }).observe(part("canvas"));
  return {
    cy,
    open(number) {
      select.value = number;
      show();
      root.scrollIntoView({ behavior: "smooth", block: "start" });
      select.focus({ preventScroll: true });
    },
  };
}

/** A small picture of a network on a circle. */
function thumbnail(network, n, widest, measure) {
  const points = onCircle(n).map(({ x, y }) => ({ x: 50 + 42 * x, y: 50 + 42 * y }));
  const picture = make("svg", { viewBox: "0 0 100 100", "aria-hidden": "true" });
  for (const edge of network.edges) {
    const from = points[edge.source], to = points[edge.target], value = edge.value[measure];
    picture.append(make("line", {
      x1: from.x, y1: from.y, x2: to.x, y2: to.y, stroke: value < 0 ? NEGATIVE : POSITIVE,
      "stroke-width": 0.4 + (1.6 * Math.abs(value)) / widest, "stroke-opacity": n > 60 ? 0.35 : 0.7,
    }));
  }
  const radius = n > 60 ? 0.8 : 1.8;
  picture.append(...points.map(({ x, y }) => make("circle", { cx: x, cy: y, r: radius, fill: INK })));
  return picture;
}

/** Thumbnails of all networks, page by page; a click opens one network. */
function networkGrid(root, networks, n, measure, open) {
  const widest = Math.max(
    ...networks.map((each) => each.edges.reduce((top, edge) => Math.max(top, Math.abs(edge.value[measure])), 0))) || 1;
  const grid = make("div", { class: "grid" });
  const status = make("p", { class: "status", role: "status" });
  let first = 0;
  const back = make("button", { type: "button", onclick: () => turn(-THUMBNAILS) }, "Previous");
  const next = make("button", { type: "button", onclick: () => turn(THUMBNAILS) }, "Next");
  const many = networks.length > THUMBNAILS;
  root.append(grid, make("div", { class: "bar" }, status, many ? back : null, many ? next : null));
  function turn(by) { first += by; draw(); }
  function draw() {
    const shown = networks.slice(first, first + THUMBNAILS);
    grid.replaceChildren(...shown.map((network, k) => make("button", {
      type: "button", class: "thumbnail", title: network.name,
      "aria-label": `Open the network of ${network.name}, ${network.edges.length} edges`,
      onclick: () => open(first + k),
    }, thumbnail(network, n, widest, measure),
    make("span", { class: "name" }, network.name),
    make("span", { class: "count" }, `${network.edges.length} edges`))));
    status.textContent = many
      ? `Tasks ${first + 1} to ${first + shown.length} of ${networks.length}` : "";
    back.disabled = first === 0;
    next.disabled = first + THUMBNAILS >= networks.length;
  }
  draw();
}

/** Heat map of the counts of i -> j; i in rows, j in columns. */
function heatMap(root, variables, counts) {
  const n = variables.length;
  const size = Math.max(7, Math.min(30, Math.floor(620 / n)));
  const letters = Math.min(18, Math.max(...variables.map((name) => [...name].length)));
  const font = Math.max(6, Math.min(12, size - 1));
  const margin = Math.ceil(letters * font * 0.62) + 10;
  const cut = (name) => ([...name].length > 18 ? [...name].slice(0, 17).join("") + "…" : name);
  const side = margin + n * size + 8;
  const picture = make("svg", {
    viewBox: `0 0 ${side} ${side}`, width: side, height: side, role: "img",
    "aria-label": root.dataset.label,
  });
  picture.append(make("rect", { x: margin, y: margin, width: n * size, height: n * size, fill: "#f5f7fa" }));
  variables.forEach((name, k) => {
    const middle = margin + (k + 0.5) * size;
    picture.append(
      make("text", { x: margin - 5, y: middle, "text-anchor": "end", "dominant-baseline": "central", "font-size": font },
        cut(name), make("title", {}, name)),
      make("text", { transform: `translate(${middle},${margin - 5}) rotate(-90)`, "dominant-baseline": "central", "font-size": font },
        cut(name), make("title", {}, name)),
      make("rect", { x: margin + k * size, y: margin + k * size, width: size, height: size, fill: "#e4e7eb" }));
  });
  for (const [i, j, count] of counts.cells) {
    const share = count / counts.most;
    const x = margin + j * size, y = margin + i * size;
    const cell = make("rect", {
      x: x + 0.5, y: y + 0.5, width: size - 1, height: size - 1, fill: POSITIVE,
      "fill-opacity": 0.12 + 0.88 * share, "data-cell": `${i},${j}`, "data-count": count,
    }, make("title", {}, `${variables[i]} → ${variables[j]}: ${count} of ${counts.most}`));
    picture.append(cell);
    if (size >= 18) {
      picture.append(make("text", {
        x: x + size / 2, y: y + size / 2, "text-anchor": "middle", "dominant-baseline": "central",
        "font-size": Math.min(11, size * 0.45), fill: share > 0.45 ? "#fff" : INK, "pointer-events": "none",
      }, String(count)));
    }
  }
  root.append(make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": root.dataset.label }, picture));
}

/** Horizontal bars with their numbers. */
function bars(root, rows) {
  const most = Math.max(...rows.map((row) => row[1]), 1);
  root.append(make("table", { class: "bars" },
    make("caption", { class: "unseen" }, root.dataset.label),
    make("tbody", {}, ...rows.map(([name, value]) => make("tr", {},
      make("th", { scope: "row" }, name),
      make("td", {}, make("span", { class: "stick", style: `width:${(100 * value) / most}%` })),
      make("td", { class: "number" }, String(value)))))));
}
