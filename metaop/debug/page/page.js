/* The page around the map: chips, tables, search, dark and light, and how they hang together. */

// -- chips -----------------------------------------------------------------------------------------------------------

function fact(label, value, { note = "", bad = false, title = null } = {}) {
  if (value === null || value === undefined || value === "") return;
  byId("facts").append(
    el("div", { class: bad ? "bad" : null, title }, el("dt", {}, label), el("dd", {}, String(value), note && el("small", {}, ` ${note}`))),
  );
}

function showFacts() {
  frameworks.forEach((framework, n) => fact(n ? "Compared with" : "Framework", framework, { note: versions[n] ?? "" }));
  fact("Target", list(data.target).join(", "));
  const parameters = list(data.parameters);
  const gradients = { note: parameters.length > 1 ? "parameters" : "parameter", title: parameters.slice(0, 60).join(", ") };
  if (parameters.length) fact("Gradients of", parameters.length, gradients);
  fact("Method", data.method);
  fact("Judge", data.judge);
  const limits = Object.entries(data.thresholds ?? {}).filter(([, value]) => number(value) !== null);
  fact("Thresholds", limits.map(([what, value]) => `${what} ${say(value)}`).join(" · "));
  fact("Seed", data.seed);
  fact("Nodes", nodes.length || records.length, { note: `${records.length} compared` });
  fact("Suspects", suspects.length, { bad: suspects.length > 0 });
  const notes = list(data.notes);
  byId("notes").hidden = !notes.length;
  byId("notes").append(...notes.map((note) => el("li", {}, String(note))));
}

function showLegend() {
  byId("legend").append(
    el(
      "div",
      { class: "steps" },
      el("span", {}, "Score, in units of rounding:"),
      STEPS.map(({ label }, n) => el("span", { class: "step" }, el("i", { class: `s${n}` }), label)),
    ),
  );
}

// -- the columns of the tables ---------------------------------------------------------------------------------------

const figure = (title, key, about) => ({
  title,
  about,
  numeric: true,
  value: (row) => number(row[key]),
  cell: (row) => amount(row[key]),
});

const recordColumns = [
  {
    title: "Class",
    value: (r) => (r.class ? Object.keys(CLASSES).indexOf(r.class) + 1 || 99 : null),
    cell: (r) => el("span", { class: "word" }, el("span", { class: `mark${r.suspect ? " bad" : ""}`, "aria-hidden": "true" }, classOf(r.class).mark), ` ${r.class ?? "–"}`),
  },
  { title: "Node", clip: true, value: (r) => r.node, cell: (r) => name(r.node) },
  { title: "Operator", value: (r) => r.op ?? null, cell: (r) => name(r.op ?? "–") },
  {
    title: "Score",
    about: "the difference in units of rounding; more than 1 is beyond rounding",
    numeric: true,
    value: grade,
    cell: (r) => [step(grade(r)) < 0 ? null : el("span", { class: `chip s${step(grade(r))}`, "aria-hidden": "true" }), amount(r.score)],
  },
  figure("Output Δ", "output_delta", "how far the output moved when this node was swapped"),
  figure("Gradient Δ", "gradient_delta", "how far the parameters' gradients moved when this node was swapped"),
  figure("Local output", "local_output_delta", "the difference of the node's own output, fed the same inputs"),
  figure("Local gradient", "local_gradient_delta", "the difference of the node's own gradients, fed the same"),
  { title: "Status", value: (r) => r.status ?? null, cell: (r) => r.status ?? "–" },
  {
    title: "Time",
    numeric: true,
    value: (r) => number(r.seconds),
    cell: (r) => el("span", { class: "number" }, number(r.seconds) === null ? "–" : `${say(r.seconds * 1e3)} ms`),
  },
];

const feeds = list(data.feeds).map((feed, order) => ({ ...feed, order }));
const feedColumns = [
  { title: "Input", clip: true, value: (f) => String(f.name), cell: (f) => name(f.name) },
  figure("Score", "score"),
  figure("Output Δ", "output_delta"),
  figure("Class distance", "class_distance"),
  figure("MAD distance", "mad_distance"),
];

// -- search and classes ----------------------------------------------------------------------------------------------

const words = nodes.map((node) =>
  [node.name, node.op, node.kind, node.type, node.record?.class, node.record?.status, node.record?.wrong].filter(Boolean).join(" ").toLowerCase(),
);
const wanted = new Set();

function matching() {
  const terms = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  if (!terms.length && !wanted.size) return null;
  return new Set(
    nodes
      .filter((node) => terms.every((term) => words[node.index].includes(term)) && (!wanted.size || wanted.has(node.record?.class)))
      .map((node) => node.index),
  );
}

function search() {
  const found = matching();
  map.search(found);
  table.keep((record) => !found || found.has(indexOf.get(record.node)));
  byId("found").textContent = found ? `${found.size} of ${nodes.length} nodes` : "";
  return found;
}

function showClasses() {
  const counts = new Map();
  records.forEach((r) => r.class && counts.set(r.class, (counts.get(r.class) ?? 0) + 1));
  const known = Object.keys(CLASSES);
  const rank = (kind) => (known.indexOf(kind) + 1 || 99);
  [...counts.keys()]
    .sort((a, b) => rank(a) - rank(b))
    .forEach((kind) => {
      const button = el(
        "button",
        {
          type: "button",
          "aria-pressed": "false",
          title: classOf(kind).means,
          class: kind === "fault" || kind === "failed" || kind === "suspect" ? "bad" : null,
          onclick: () => {
            if (!wanted.delete(kind)) wanted.add(kind);
            button.setAttribute("aria-pressed", String(wanted.has(kind)));
            search();
          },
        },
        el("span", { class: "mark", "aria-hidden": "true" }, classOf(kind).mark),
        el("b", {}, kind),
        el("span", { class: "number" }, String(counts.get(kind))),
      );
      byId("classes").append(button);
    });
}

/** Enter in the search box goes from match to match, the worst first. */
function nextMatch() {
  const found = matching();
  if (!found?.size) return;
  const ranked = [...found].sort((a, b) => (nodes[b].record ? (grade(nodes[b].record) ?? 0) : -1) - (nodes[a].record ? (grade(nodes[a].record) ?? 0) : -1) || a - b);
  select(ranked[(ranked.indexOf(selected) + 1) % ranked.length]);
}

// -- kinds -----------------------------------------------------------------------------------------------------------

const KINDS = [
  { kind: "placeholder", label: "inputs" },
  { kind: "variable", label: "variables" },
  { kind: "constant", label: "constants" },
];
/** Above so many nodes variables and constants are hidden at first. */
const CROWDED = 300;

const drawnKinds = new Set(["operator"]);

function showKinds() {
  for (const { kind, label } of KINDS) {
    const count = nodes.filter((node) => node.kind === kind).length;
    if (!count) continue;
    if (kind === "placeholder" || nodes.length <= CROWDED) drawnKinds.add(kind);
    const box = el("input", { type: "checkbox", name: kind });
    box.checked = drawnKinds.has(kind);
    box.addEventListener("change", () => {
      if (box.checked) drawnKinds.add(kind);
      else drawnKinds.delete(kind);
      redraw();
      map.open();
    });
    byId("kinds").append(el("label", {}, box, ` ${count} ${count === 1 ? label.slice(0, -1) : label}`));
  }
}

function redraw() {
  map.show((node) => drawnKinds.has(node.kind));
  map.select(selected, { quiet: true });
}

// -- dark and light --------------------------------------------------------------------------------------------------

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => (document.documentElement.dataset.theme ?? (prefersDark.matches ? "dark" : "light")) === "dark";

function paint() {
  byId("theme").setAttribute("aria-pressed", String(isDark()));
  byId("theme").querySelector(".label").textContent = isDark() ? "Light" : "Dark";
  map.paint(readPalette());
}

/** The choice outlives the page where the browser lets it: frames without an origin have no storage. */
const remembered = {
  get: () => {
    try {
      return localStorage.getItem("metaop-theme");
    } catch {
      return null;
    }
  },
  set: (theme) => {
    try {
      localStorage.setItem("metaop-theme", theme);
    } catch {
      // Nothing is lost but the memory of it.
    }
  },
};

// -- all together ----------------------------------------------------------------------------------------------------

let selected = -1;

function select(index, options) {
  selected = index;
  map.select(index, options);
  detail(index);
  const record = nodes[index]?.record;
  table.mark(record ?? null);
}

const earlier = remembered.get();
if (earlier === "dark" || earlier === "light") document.documentElement.dataset.theme = earlier;

const map = createMap({ host: byId("map"), nodes, look, describe, onSelect: select });
const table = sortable({
  host: byId("records"),
  label: "Records, one per compared node",
  columns: recordColumns,
  rows: records,
  sorted: 3,
  onPick: (record) => select(indexOf.get(record.node)),
  rowClass: (record) => record.suspect && "suspect",
});
if (feeds.length) {
  byId("feeds-panel").hidden = false;
  sortable({ host: byId("feeds"), label: "Inputs, the worst first", columns: feedColumns, rows: feeds, sorted: 1 });
}
showFacts();
showLegend();
showClasses();
showKinds();
paint();
redraw();
if (!map.count()) {
  // Without a graph there is still the table.
  for (const part of [byId("map"), byId("legend"), byId("map-help"), ...document.querySelectorAll(".buttons")]) part.hidden = true;
  document.querySelector(".map-panel").append(el("p", { class: "empty" }, "This report does not tell how the nodes are connected."));
}
select(fault, { quiet: true });
map.open();

byId("search").addEventListener("input", search);
byId("search").addEventListener("keydown", (event) => {
  if (event.key === "Enter") nextMatch();
  else if (event.key === "Escape") {
    event.target.value = "";
    search();
  }
});
byId("map").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" && event.key !== " ") return;
  byId("details").focus();
  event.preventDefault();
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input")) return;
  byId("search").focus();
  event.preventDefault();
});
byId("fit").addEventListener("click", () => map.fit());
byId("zoom-in").addEventListener("click", () => map.zoom(1.35));
byId("zoom-out").addEventListener("click", () => map.zoom(1 / 1.35));
byId("to-fault").hidden = fault < 0;
byId("to-fault").addEventListener("click", () => {
  select(fault);
  map.open();
});
byId("theme").addEventListener("click", () => {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  remembered.set(theme);
  paint();
});
prefersDark.addEventListener("change", paint);
// Paper is light, and has no button that shows all rows.
let onScreen;
addEventListener("beforeprint", () => {
  onScreen = document.documentElement.dataset.theme;
  document.documentElement.dataset.theme = "light";
  table.everything();
  paint();
  map.fit();
});
addEventListener("afterprint", () => {
  if (onScreen) document.documentElement.dataset.theme = onScreen;
  else delete document.documentElement.dataset.theme;
  paint();
});
// What tests and screenshots wait for: everything is drawn.
requestAnimationFrame(() => (document.documentElement.dataset.ready = "true"));
