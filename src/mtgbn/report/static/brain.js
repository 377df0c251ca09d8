// Effects in the brain: a schematic outline that can be turned, regions at their places, lines of effects.
"use strict";

// Ellipsoids (centre, half axes; MNI mm) that look like a brain from every side: hemispheres, temporal
// lobes, cerebellum, brain stem. They are a backdrop, no anatomy.
const OUTLINE = [
  ...[-1, 1].flatMap((side) => [
    [[19 * side, -17, 18], [51, 89, 60]], [[49 * side, -10, -22], [20, 40, 22]],
    [[22 * side, -66, -36], [30, 26, 22]],
  ]),
  [[0, -28, -44], [11, 12, 24]],
];
// Half of the side of the picture, in millimetres: the outline fits in from every side.
const REACH = 118;
const MIDDLE = [0, -17, 8];
// Angles in degrees: around the vertical axis (0: seen from the front), and up.
const VIEWS = { left: [-90, 0], right: [90, 0], front: [0, 0], top: [180, 90] };
const SEEN_FROM = { left: "the left", right: "the right", front: "the front", top: "above" };
const MOST_NAMED = 40, STRONGEST = 20, KEY_STEP = 10;
// More lines are drawn thin; of many more, the strongest are shown at first.
const MOST_WIDE = 80, MOST_LEGIBLE = 200;

/** Screen axes (right, up) and the direction to the viewer. */
function axesOf([turn, rise]) {
  const a = (turn * Math.PI) / 180, b = (rise * Math.PI) / 180;
  const level = [Math.sin(a), Math.cos(a), 0];
  return {
    right: [-Math.cos(a), Math.sin(a), 0],
    up: [-Math.sin(b) * level[0], -Math.sin(b) * level[1], Math.cos(b)],
    near: [Math.cos(b) * level[0], Math.cos(b) * level[1], Math.sin(b)],
  };
}

const dot = (one, other) => one[0] * other[0] + one[1] * other[1] + one[2] * other[2];

/** The outline of an ellipsoid on the screen, which is an ellipse. */
function ellipseOf([centre, half], axes, place) {
  const [u, v] = [axes.right, axes.up].map((axis) => axis.map((part, k) => part * half[k]));
  const [a, b, c] = [dot(u, u), dot(u, v), dot(v, v)];
  const spread = Math.hypot((a - c) / 2, b), mean = (a + c) / 2;
  const at = place(centre);
  const angle = (-90 / Math.PI) * Math.atan2(2 * b, a - c);
  return {
    cx: at.x, cy: at.y, rx: Math.sqrt(mean + spread), ry: Math.sqrt(Math.max(mean - spread, 0)),
    transform: `rotate(${angle} ${at.x} ${at.y})`,
  };
}

/**
 * Effects in the brain, in `root`, a section made by the template.
 *
 * edges: [{source, target, value, text, headless, doubtful, p, q}], the smallest p first; `value` decides
 *   colour and width.
 */
function brainView(root, variables, coordinates, edges, level, total) {
  const part = (name) => root.querySelector(`[data-part="${name}"]`);
  const [frame, select, output, tip, seen, list] =
    ["frame", "choice", "shown", "tip", "seen", "list"].map(part);
  let angles = [...VIEWS.left], shown = [], lines = [], chosen = -1;

  const strongest = [...edges].sort((one, other) => other.strength - one.strength).slice(0, STRONGEST);
  const choices = [
    [`corrected p of at most ${level}`, edges.filter((edge) => edge.p <= level)],
    [`false discovery rate q of at most ${level}`, edges.filter((edge) => edge.q <= level)],
    [edges.length > STRONGEST ? `the ${STRONGEST} with the largest statistic` : "all connections", strongest],
  ];
  choices.forEach(([words, own], place) => {
    select.append(make("option", { value: place }, `${words} (${own.length})`));
  });
  select.value = choices.findIndex(([, own], place) => (
    place === choices.length - 1 || (own.length > 0 && own.length <= MOST_LEGIBLE)));
  const widest = Math.max(...edges.map((edge) => Math.abs(edge.value)), 0) || 1;

  const backdrop = make("g", { class: "outline" }), marks = make("g", { class: "marks" });
  const wires = make("g", {}), points = make("g", {}), names = make("g", {});
  const picture = make("svg", {
    viewBox: `${-REACH} ${-REACH} ${2 * REACH} ${2 * REACH}`, tabindex: "0", role: "img",
    "aria-label": `${root.getAttribute("aria-label")}. Arrow keys turn it; the connections are below as a list`,
  }, backdrop, marks, wires, points, names);
  frame.prepend(picture);
  // All borders lie below all fillings, so that the ellipses look like one shape.
  const borders = OUTLINE.map(() => make("ellipse", { class: "border" }));
  const fillings = OUTLINE.map(() => make("ellipse", { class: "filling" }));
  backdrop.append(...borders, ...fillings);
  const sides = [["left", [-92, -17, 8]], ["right", [92, -17, 8]], ["front", [0, 92, 8]], ["back", [0, -126, 8]]]
    .map(([word, at]) => ({ at, text: make("text", {}, word) }));
  marks.append(...sides.map(({ text }) => text));
  const dots = variables.map((name, k) => {
    const point = make("circle", { class: "region" });
    point.addEventListener("mouseenter", () => say(name));
    point.addEventListener("mouseleave", () => say(""));
    return point;
  });
  points.append(...dots);
  let spots = [];

  function set(element, attributes) {
    for (const [name, value] of Object.entries(attributes)) {
      element.setAttribute(name, typeof value === "number" ? value.toFixed(2) : value);
    }
  }

  /** Shows a text below the picture, where it hides nothing. */
  function say(text) {
    tip.textContent = text;
    tip.hidden = !text;
  }

  function mark(number) {
    lines.forEach(({ group }, k) => {
      group.classList.toggle("chosen", k === number);
      group.classList.toggle("faded", number >= 0 && k !== number);
    });
    chosen = number;
    say(number < 0 ? "" : shown[number].text);
  }

  function choose() {
    shown = choices[Number(select.value)][1];
    // Wide lines are drawn first, so that narrow ones are not hidden.
    lines = shown.map((edge, k) => {
      const kind = ["edge", edge.value < 0 ? "negative" : "positive"];
      if (edge.doubtful) kind.push("doubtful");
      if (edge.headless) kind.push("headless");
      const wide = (0.6 + (3 * Math.abs(edge.value)) / widest) * (shown.length > MOST_WIDE ? 0.35 : 1);
      const line = make("line", { class: "line", "stroke-width": wide });
      const head = edge.headless ? null : make("path", { class: "head" });
      const reach = make("line", { class: "reach" });
      const group = make("g", { class: kind.join(" ") }, line, head, reach);
      group.addEventListener("mouseenter", () => mark(k));
      group.addEventListener("mouseleave", () => mark(-1));
      group.addEventListener("click", () => mark(k));
      return { group, line, head, reach, wide };
    });
    wires.replaceChildren(...lines.map(({ group }) => group));
    const ends = new Set(shown.flatMap((edge) => [edge.source, edge.target]));
    dots.forEach((point, k) => point.classList.toggle("joined", ends.has(k)));
    const named = ends.size <= MOST_NAMED ? [...ends] : [];
    names.replaceChildren(...named.map((k) => {
      const text = [...variables[k]].length > 24 ? `${[...variables[k]].slice(0, 23).join("")}…` : variables[k];
      return make("text", { class: "name", "data-region": k }, text);
    }));
    output.textContent = `${shown.length.toLocaleString("en")} of ${total.toLocaleString("en")} connections`;
    list.replaceChildren(...shown.map((edge, k) => make("li", {}, make("button", {
      type: "button", class: "plain", onfocus: () => mark(k), onblur: () => mark(-1), onclick: () => mark(k),
    }, edge.text))));
    part("previous").disabled = part("next").disabled = shown.length === 0;
    mark(-1);
    draw();
  }

  function draw() {
    const axes = axesOf(angles);
    const place = (at) => {
      const from = at.map((value, k) => value - MIDDLE[k]);
      return { x: dot(from, axes.right), y: -dot(from, axes.up), near: dot(from, axes.near) };
    };
    OUTLINE.forEach((each, k) => {
      const ellipse = ellipseOf(each, axes, place);
      set(borders[k], ellipse);
      set(fillings[k], ellipse);
    });
    for (const { at, text } of sides) {
      const { x, y, near } = place(at);
      set(text, { x, y });
      text.style.visibility = Math.abs(near) > 60 ? "hidden" : "visible";
    }
    spots = coordinates.map(place);
    dots.forEach((point, k) => {
      const { x, y, near } = spots[k];
      const small = shown.length > MOST_WIDE;
      const size = point.classList.contains("joined") ? (small ? 1.3 : 2.4) : variables.length > 200 ? 0.7 : 1.5;
      set(point, { cx: x, cy: y, r: size * (1 + near / 400) });
    });
    lines.forEach(({ line, head, reach, wide }, k) => {
      const from = spots[shown[k].source], to = spots[shown[k].target];
      const length = Math.hypot(to.x - from.x, to.y - from.y) || 1;
      const [u, v] = [(to.x - from.x) / length, (to.y - from.y) / length];
      let end = to;
      if (head) {
        const size = Math.min(3.5 + 1.2 * wide, 0.6 * length), tip2 = { x: to.x - 3 * u, y: to.y - 3 * v };
        end = { x: tip2.x - size * u, y: tip2.y - size * v };
        const half = size * 0.45;
        set(head, { d: `M${tip2.x} ${tip2.y}L${end.x - half * v} ${end.y + half * u}L${end.x + half * v} ${end.y - half * u}Z` });
      }
      set(line, { x1: from.x, y1: from.y, x2: end.x, y2: end.y });
      set(reach, { x1: from.x, y1: from.y, x2: to.x, y2: to.y });
    });
    const taken = [];
    for (const text of names.children) {
      const { x, y } = spots[Number(text.dataset.region)];
      const wide = text.getComputedTextLength(), isLeft = x < 0;
      // A long name stays within the picture, even if it then covers its region.
      const left = Math.max(-REACH, Math.min(isLeft ? x - wide - 3.5 : x + 3.5, REACH - wide));
      const box = [left, y - 4, left + wide, y + 4];
      const isFree = taken.every((other) => (
        box[0] > other[2] || box[2] < other[0] || box[1] > other[3] || box[3] < other[1]));
      if (isFree) taken.push(box);
      set(text, { x: isLeft ? left + wide : left, y, "text-anchor": isLeft ? "end" : "start" });
      text.style.visibility = isFree ? "visible" : "hidden";
    }
    const known = Object.keys(VIEWS).find((name) => VIEWS[name].every((angle, k) => angle === angles[k]));
    seen.textContent = known ? `seen from ${SEEN_FROM[known]}` : "turned";
    for (const name of Object.keys(VIEWS)) part(name).setAttribute("aria-pressed", String(name === known));
  }

  function turn(right, up) {
    const around = ((angles[0] + right + 540) % 360) - 180;
    angles = [around === -180 ? 180 : around, Math.max(-90, Math.min(90, angles[1] + up))];
    draw();
  }

  let held = null;
  picture.addEventListener("pointerdown", (event) => {
    held = { x: event.clientX, y: event.clientY };
  });
  picture.addEventListener("pointermove", (event) => {
    if (!held) return;
    // A tap on a line is no drag: it would be taken from the line by the capture.
    if (!picture.hasPointerCapture(event.pointerId)) {
      if (Math.hypot(event.clientX - held.x, event.clientY - held.y) < 4) return;
      picture.setPointerCapture(event.pointerId);
    }
    turn((event.clientX - held.x) * 0.5, (event.clientY - held.y) * 0.5);
    held = { x: event.clientX, y: event.clientY };
  });
  for (const name of ["pointerup", "pointercancel", "pointerleave"]) {
    picture.addEventListener(name, () => { held = null; });
  }
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) { event.preventDefault(); turn(KEY_STEP * step[0], KEY_STEP * step[1]); }
    if (event.key === "Escape") mark(-1);
  });
  for (const name of Object.keys(VIEWS)) {
    part(name).addEventListener("click", () => { angles = [...VIEWS[name]]; draw(); });
  }
  const step = (by) => () => mark((Math.max(chosen, by < 0 ? 0 : -1) + by + shown.length) % shown.length);
  part("previous").addEventListener("click", step(-1));
  part("next").addEventListener("click", step(1));
  select.addEventListener("change", choose);
  choose();
  return { turn, get angles() { return [...angles]; }, get chosen() { return chosen; } };
}
