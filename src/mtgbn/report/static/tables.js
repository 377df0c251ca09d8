// Tables: read from TSV, sorted, filtered, shown page by page, downloaded unchanged.
"use strict";

const PAGE_ROWS = 25;
// Texts of at most this length stay in one line; columns of longer ones are wide.
const SHORT = 24;

/** An element with attributes and children; text is never parsed as HTML. */
function make(tag, attributes, ...children) {
  const svg = ["svg", "g", "line", "circle", "ellipse", "rect", "text", "title", "path"].includes(tag);
  const element = svg
    ? document.createElementNS("http://www.w3.org/2000/svg", tag)
    : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false) {
      element.setAttribute(name, value === true ? "" : value);
    }
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** The rows of a TSV, in which names with tabs, quotes or line breaks are quoted. */
function parseTsv(text) {
  const rows = [];
  let row = [], cell = "", quoted = false, place = 0;
  while (place < text.length) {
    const character = text[place];
    if (quoted) {
      if (character !== '"') cell += character;
      else if (text[place + 1] === '"') { cell += '"'; place += 1; }
      else quoted = false;
    } else if (character === '"' && cell === "") quoted = true;
    else if (character === "\t") { row.push(cell); cell = ""; }
    else if (character === "\n") { row.push(cell); rows.push(row); row = []; cell = ""; }
    else {
      let end = place + 1;
      while (end < text.length && text[end] !== "\t" && text[end] !== "\n") end += 1;
      cell += text.slice(place, end);
      place = end - 1;
    }
    place += 1;
  }
  if (cell !== "" || row.length) { row.push(cell); rows.push(row); }
  return rows;
}

/** A number with few digits; the cell's title has all digits. */
function shortNumber(text) {
  const value = Number(text);
  if (Number.isInteger(value)) return text;
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.0001 || size >= 1e6)) return value.toExponential(1);
  if (size !== 0 && size < 0.001) return String(Number(value.toPrecision(2)));
  return value.toFixed(size >= 100 ? 1 : 3);
}

function isNumber(text) {
  return text.trim() !== "" && Number.isFinite(Number(text));
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/tab-separated-values" }));
  const link = make("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/**
 * Fill `root` (data-table, data-file, data-label) with the table in `text`.
 *
 * The columns that data-first names are shown first; downloads have the order of the file.
 */
function showTable(root, text) {
  const [header, ...rows] = parseTsv(text);
  const label = root.dataset.label;
  const file = root.dataset.file;
  const about = JSON.parse(root.dataset.about || "{}");
  const numeric = header.map((_, column) => {
    const filled = rows.map((row) => row[column]).filter((cell) => cell !== "n/a");
    return filled.length > 0 && filled.every(isNumber);
  });
  const searchable = rows.map((row) => row.join("\t").toLowerCase());
  const early = (root.dataset.first || "").split(" ").map((name) => header.indexOf(name)).filter((at) => at >= 0);
  const columns = [...early, ...header.keys()].filter((at, place, all) => all.indexOf(at) === place);
  let order = rows.map((_, place) => place);
  let found = order, first = 0, sorted = null, ascending = true;

  const status = make("p", { class: "status", role: "status" });
  const body = make("tbody", {});
  const heads = columns.map((column) => {
    const name = header[column];
    const button = make("button", {
      type: "button", title: about[name] || `sort by ${name}`, onclick: () => sortBy(column),
    }, name.replaceAll("_", " "));
    return make("th", { scope: "col", class: numeric[column] ? "number" : null }, button);
  });
  const filter = make("input", {
    type: "search", placeholder: "words, all of which a row must have",
    "aria-label": `Filter ${label}`,
    oninput: () => { first = 0; search(); },
  });
  const back = make("button", { type: "button", onclick: () => turn(-1) }, "Previous");
  const next = make("button", { type: "button", onclick: () => turn(1) }, "Next");
  const isLong = rows.length > PAGE_ROWS;
  root.append(
    make("div", { class: "bar" },
      isLong || rows.length > 8 ? make("label", {}, "Filter ", filter) : null,
      file ? make("button", {
        type: "button", class: "download", onclick: () => download(file, text),
      }, `Download ${file}`) : null),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      make("table", {},
        make("caption", { class: "unseen" }, label),
        make("thead", {}, make("tr", {}, ...heads)), body)),
    make("div", { class: "bar" }, status, isLong ? back : null, isLong ? next : null),
  );

  function sortBy(column) {
    ascending = sorted === column ? !ascending : true;
    sorted = column;
    const sign = ascending ? 1 : -1;
    const key = numeric[column]
      ? (cell) => (cell === "n/a" ? sign * Infinity : Number(cell)) : (cell) => cell;
    const keys = rows.map((row) => key(row[column]));
    order = rows.map((_, place) => place).sort((one, other) => {
      if (numeric[column]) return sign * (keys[one] - keys[other] || 0) || one - other;
      return sign * keys[one].localeCompare(keys[other], "en", { numeric: true }) || one - other;
    });
    heads.forEach((head, place) => {
      if (columns[place] === column) head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    first = 0;
    search();
  }

  function search() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    found = order.filter((place) => words.every((word) => searchable[place].includes(word)));
    draw();
  }

  function turn(pages) {
    first = Math.max(0, Math.min(first + pages * PAGE_ROWS, found.length - 1));
    first -= first % PAGE_ROWS;
    draw();
  }

  function draw() {
    const shown = found.slice(first, first + PAGE_ROWS);
    body.replaceChildren(...shown.map((place) => make("tr", {}, ...columns.map((column) => {
      const cell = rows[place][column];
      return numeric[column] && cell !== "n/a"
        ? make("td", { class: "number", "data-value": cell, title: cell }, shortNumber(cell))
        : make("td", { class: numeric[column] ? "number" : cell.length <= SHORT ? "short" : "long" }, cell);
    }))));
    const last = first + shown.length;
    const whole = found.length === rows.length ? "" : ` of ${rows.length}`;
    if (!rows.length) status.textContent = "There are no rows.";
    else if (!shown.length) status.textContent = `No row of ${rows.length} has these words.`;
    else status.textContent = `Rows ${first + 1} to ${last} of ${found.length}` +
      (whole ? ` that fit, ${rows.length} in all` : "");
    back.disabled = first === 0;
    next.disabled = last >= found.length;
  }
  draw();
}
