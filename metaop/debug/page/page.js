/* The page around the map: chips, search, the selected node's numbers, tables.
 *
 * Names and messages come from models and frameworks that nobody vouches for: they become text nodes only, never markup.
 */

const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);

// -- words, numbers, elements ----------------------------------------------------------------------------------------

/** Classes of records, the worst first: what marks them, what they mean. */
const CLASSES = {
  fault: { mark: "!", means: "differs beyond rounding: one side is wrong" },
  failed: { mark: "✕", means: "one framework failed on it" },
  suspect: { mark: "!", means: "differs beyond a threshold" },
  convention: { mark: "≈", means: "the frameworks define it differently; no fault" },
  tail: { mark: "∿", means: "differs only in tiny values, relative to themselves" },
  unsupported: { mark: "∅", means: "one framework cannot compute it" },
  noise: { mark: "·", means: "differs by rounding" },
  same: { mark: "=", means: "equal to the bit" },
};
const STEPS = [
  { most: 0, label: "0" },
  { most: 0.1, label: "≤ 0.1" },
  { most: 1, label: "≤ 1 rounding" },
  { most: 10, label: "≤ 10" },
  { most: 1000, label: "≤ 1000" },
  { most: Infinity, label: "more" },
];
const KINDS = [
  { kind: "placeholder", label: "inputs" },
  { kind: "variable", label: "variables" },
  { kind: "constant", label: "constants" },
];
/** Above so many nodes variables and constants are hidden at first. */
const CROWDED = 300;
/** Rows of a table before it asks. */
const ROWS = 300;

const list = (value) => (Array.isArray(value) ? value : value === null || value === undefined ? [] : [value]);

function number(value) {
  if (value === null || value === undefined || value === "") return null;
  if (typeof value === "number") return value;
  return { inf: Infinity, "-inf": -Infinity, nan: NaN }[value] ?? null;
}

/** A number for people, with so many significant digits. */
function say(value, digits = 3) {
  const v = number(value);
  if (v === null) return "–";
  if (Number.isNaN(v)) return "NaN";
  if (!Number.isFinite(v)) return v > 0 ? "∞" : "−∞";
  if (v === 0) return "0";
  const size = Math.abs(v);
  if (size >= 1e-3 && size < Math.max(1e5, 10 ** digits)) return String(Number(v.toPrecision(digits)));
  return v.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e");
}

function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  fill(element, attributes, children);
  return element;
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") element.addEventListener("click", value);
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(key, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
}

const name = (text) => el("span", { class: "name" }, String(text));
const amount = (value, digits) => el("span", { class: "number" }, say(value, digits));
const classOf = (kind) => CLASSES[kind] ?? { mark: "?", means: "" };
const step = (score) => (score === null ? -1 : STEPS.findIndex(({ most }) => !(score > most)));

// -- the data --------------------------------------------------------------------------------------------------------

const frameworks = list(data.frameworks).map(String);
const versions = list(data.versions);
const records = list(data.records).map((record, order) => ({
  ...record,
  order,
  node: String(record.node),
  suspect: Boolean(record.suspect),
  class: record.kind ?? (record.suspect ? "suspect" : null),
}));
const recordOf = new Map(records.map((record) => [record.node, record]));
const verifications = list(data.verifications).map((v) => ({ ...v, nodes: list(v.nodes).map(String) }));

const nodes = [];
const indexOf = new Map();
for (const raw of list(data.graph?.nodes)) {
  const node = { ...raw, name: String(raw.name), index: nodes.length, consumers: [], record: recordOf.get(String(raw.name)) };
  // Only what ran before: edges that lead back would not be layers.
  node.inputs = [...new Set(list(raw.inputs).map((input) => indexOf.get(String(input))))].filter((i) => i !== undefined);
  node.inputs.forEach((i) => nodes[i].consumers.push(node.index));
  if (!indexOf.has(node.name)) indexOf.set(node.name, node.index);
  nodes.push(node);
}
// A record whose node the graph does not tell of still has its numbers.
for (const record of records) {
  if (indexOf.has(record.node)) continue;
  indexOf.set(record.node, nodes.length);
  nodes.push({ name: record.node, kind: "unplaced", op: record.op, index: nodes.length, inputs: [], consumers: [], record });
}

const grade = (record) => number(record.score) ?? (record.suspect ? Infinity : null);
const suspects = records.filter((r) => r.suspect).sort((a, b) => (grade(b) ?? -1) - (grade(a) ?? -1) || a.order - b.order);
const proven = verifications.find((v) => v.confirmed && v.nodes.some((n) => indexOf.has(n)));
const fault = indexOf.get(proven?.nodes.find((n) => indexOf.has(n)) ?? suspects[0]?.node) ?? -1;

// -- how a node looks, and in words ----------------------------------------------------------------------------------

let palette = {};

function look(node) {
  const { record } = node;
  if (!record) return { fill: palette.plain, strong: palette.trace, ink: palette.ink, mark: "", detail: "" };
  const at = step(grade(record));
  const background = at < 0 ? palette.plain : palette.ramp[at];
  return {
    fill: background,
    strong: at > 2 ? background : palette.trace,
    ink: contrast(background),
    mark: classOf(record.class).mark,
    detail: say(record.score),
    suspect: record.suspect,
    dashed: record.class === "unsupported" || record.class === "failed",
  };
}

function describe(node) {
  const parts = [node.name, node.op && node.op !== node.name ? node.op : node.kind];
  if (node.record) {
    if (node.record.class) parts.push(node.record.class);
    if (grade(node.record) !== null) parts.push(`score ${say(node.record.score)}`);
    if (node.record.status && node.record.status !== "ok") parts.push(node.record.status);
  }
  return parts.filter(Boolean).join(", ");
}

const inks = new Map();
function contrast(background) {
  if (!inks.has(background)) {
    const [r, g, b] = background.match(/[\d.]+/g).map((c) => (c / 255) ** 2.2);
    inks.set(background, 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.24 ? "#15191c" : "#ffffff");
  }
  return inks.get(background);
}

function readPalette() {
  const probe = document.body.appendChild(el("span"));
  const colour = (variable) => {
    probe.style.color = `var(--${variable})`;
    return getComputedStyle(probe).color;
  };
  palette = {
    ground: colour("map-ground"),
    edge: colour("edge"),
    outline: colour("outline"),
    accent: colour("accent"),
    fault: colour("fault"),
    halo: colour("halo"),
    haloPlain: colour("halo-plain"),
    plain: colour("plain"),
    trace: colour("trace"),
    ink: colour("ink"),
    ramp: STEPS.map((_, n) => colour(`ramp-${n}`)),
  };
  probe.remove();
  return palette;
}

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

// -- tables ----------------------------------------------------------------------------------------------------------

/** A table that sorts by click and key, whose rows are walked with arrows and picked with Enter.
 *
 * `columns` are `{title, value(row), cell(row), numeric}`; what has no value stands last either way.
 */
function sortable({ host, label, columns, rows, sorted, onPick, rowClass }) {
  let by = sorted;
  let descending = columns[by].numeric ?? false;
  let kept = rows;
  let limit = ROWS;
  let picked = null;
  const drawn = new Map();
  const body = el("tbody");
  const more = el("div", { class: "more" });
  const heads = columns.map((column, n) =>
    el(
      "th",
      { scope: "col", class: column.numeric ? "right" : null, title: column.about },
      el("button", { type: "button", onclick: () => order(n) }, column.title, el("span", { class: "arrow", "aria-hidden": "true" })),
    ),
  );
  host.append(el("table", { class: onPick ? "rows pick" : "rows", role: onPick ? "grid" : null, "aria-label": label }, el("thead", {}, el("tr", {}, heads)), body), more);

  function order(n) {
    descending = n === by ? !descending : (columns[n].numeric ?? false);
    by = n;
    fillRows();
  }

  function compare(a, b) {
    const [u, v] = [columns[by].value(a), columns[by].value(b)];
    if (u === null || v === null) return u === v ? a.order - b.order : u === null ? 1 : -1;
    const [x, y] = columns[by].numeric ? [Number.isNaN(u) ? Infinity : u, Number.isNaN(v) ? Infinity : v] : [u, v];
    const sign = x === y ? 0 : columns[by].numeric ? (x < y ? -1 : 1) : String(x).localeCompare(String(y), "en", { numeric: true });
    return (descending ? -sign : sign) || Number(b.suspect ?? 0) - Number(a.suspect ?? 0) || a.order - b.order;
  }

  function fillRows() {
    heads.forEach((head, n) => {
      if (n === by) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
      head.querySelector(".arrow").textContent = n === by ? (descending ? " ↓" : " ↑") : "";
    });
    const all = kept.slice().sort(compare);
    const part = all.slice(0, limit);
    drawn.clear();
    body.replaceChildren(
      ...part.map((row, n) => {
        const line = el(
          "tr",
          { tabindex: onPick ? "-1" : null, class: rowClass?.(row) || null, "aria-selected": onPick ? "false" : null, onclick: () => onPick?.(row) },
          columns.map((column) => el("td", { class: [column.numeric && "right", column.clip && "clip"].filter(Boolean).join(" ") || null }, column.cell(row))),
        );
        line.row = row;
        drawn.set(row, line);
        if (!n && onPick) line.tabIndex = 0;
        return line;
      }),
    );
    more.replaceChildren();
    if (all.length > part.length) {
      const everything = () => {
        limit = Infinity;
        fillRows();
      };
      more.append(`${part.length} of ${all.length} rows`, el("button", { type: "button", onclick: everything }, "Show all"));
    } else if (!all.length) {
      more.append("Nothing matches.");
    }
    more.hidden = !more.childNodes.length;
    if (picked) mark(picked);
  }

  function roam(line) {
    body.querySelectorAll('tr[tabindex="0"]').forEach((other) => (other.tabIndex = -1));
    line.tabIndex = 0;
  }

  function mark(row) {
    picked = row;
    if (!onPick) return;
    body.querySelectorAll('tr[aria-selected="true"]').forEach((line) => line.setAttribute("aria-selected", "false"));
    const line = drawn.get(row);
    if (!line) return;
    line.setAttribute("aria-selected", "true");
    roam(line);
  }

  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr");
    if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
    const lines = [...body.children];
    const here = lines.indexOf(line);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: lines.length - 1, PageDown: here + 15, PageUp: here - 15 }[event.key];
    if (to !== undefined) {
      const next = lines[Math.max(0, Math.min(lines.length - 1, to))];
      roam(next);
      next.focus();
    } else if (event.key === "Enter" || event.key === " ") onPick?.(line.row);
    else return;
    event.preventDefault();
  });

  fillRows();
  return {
    mark,
    keep(test) {
      kept = rows.filter(test);
      fillRows();
    },
    everything() {
      limit = Infinity;
      fillRows();
    },
  };
}

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

// -- the selected node -----------------------------------------------------------------------------------------------

function pairs(rows, heads = null) {
  return el(
    "table",
    { class: "pairs" },
    heads && el("thead", {}, el("tr", {}, heads.map((head) => el("th", { scope: "col" }, head)))),
    el("tbody", {}, rows.map(([label, ...cells]) => el("tr", {}, el("th", { scope: "row" }, label), cells.map((cell) => el("td", {}, cell))))),
  );
}

function neighbours(title, indices) {
  if (!indices.length) return [];
  const some = indices.slice(0, 24);
  const buttons = some.map((i) => el("button", { type: "button", class: "name", onclick: () => select(i) }, nodes[i].name));
  return [el("h3", {}, title), el("div", { class: "links" }, buttons, indices.length > some.length ? el("span", {}, `and ${indices.length - some.length} more`) : null)];
}

/** How many elements differ by how much, on a logarithmic axis; those equal to the bit apart, on the left. */
function histogram(part) {
  const edges = list(part.histogram?.edges).map(number);
  const counts = list(part.histogram?.counts).map(number);
  const equal = number(part.equal ?? part.histogram?.equal) ?? 0;
  if (edges.length !== counts.length + 1 || !counts.length || edges.some((e) => !Number.isFinite(e))) return null;
  const [width, height, base, top] = [320, 104, 86, 6];
  const left = equal ? 66 : 20;
  const [low, high] = [edges[0], edges[edges.length - 1]];
  const most = Math.max(equal, ...counts, 1);
  const x = (e) => left + ((e - low) / (high - low || 1)) * (width - left - 20);
  const y = (count) => (count > 0 ? Math.max(2, ((base - top) * Math.log1p(count)) / Math.log1p(most)) : 0);
  const bar = (x0, x1, count, what) =>
    svg("rect", { x: x0, y: base - y(count), width: Math.max(1, x1 - x0 - 1), height: y(count), class: what === "equal" ? "equal" : null },
      svg("title", {}, `${say(count, 9)} ${what}`));
  const ticks = [];
  const every = Math.max(1, Math.ceil((high - low) / 6));
  for (let e = Math.ceil(low); e <= high; e += every) ticks.push(e);
  const total = counts.reduce((a, b) => a + b, 0);
  const peak = counts.indexOf(Math.max(...counts));
  const summary = `${say(total, 9)} elements differ${equal ? `, ${say(equal, 9)} are equal` : ""}; most by 1e${say(edges[peak])} to 1e${say(edges[peak + 1])}`;
  return [
    svg(
      "svg",
      { class: "histogram", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "Histogram of differences" },
      svg("line", { x1: 4, x2: width - 4, y1: base + 0.5, y2: base + 0.5 }),
      equal ? [bar(8, 32, equal, "equal"), svg("text", { x: 20, y: base + 14, "text-anchor": "middle" }, "equal")] : null,
      counts.map((count, n) => bar(x(edges[n]), x(edges[n + 1]), count, `differ by 1e${say(edges[n])} to 1e${say(edges[n + 1])}`)),
      ticks.map((e) => svg("text", { x: x(e), y: base + 14, "text-anchor": "middle" }, e === 0 ? "1" : `1e${e}`)),
    ),
    el("p", { class: "caption" }, `${summary}. Heights are logarithmic.`),
  ];
}

function partOf(part) {
  const { worst } = part;
  const where = list(worst?.index);
  return el(
    "div",
    { class: "part" },
    el("h3", {}, name(part.what ?? "result"), el("span", { class: "number" }, `score ${say(part.score)}`)),
    el("p", {}, "mean difference ", amount(part.delta)),
    histogram(part),
    worst
      ? pairs([
          ["worst at", el("span", { class: "number" }, where.length ? `[${where.join(", ")}]` : "the scalar")],
          [frameworks[0] ?? "a", amount(worst.a, 9)],
          [frameworks[1] ?? "b", amount(worst.b, 9)],
          number(worst.reference) === null ? null : ["float64 reference", amount(worst.reference, 9)],
        ].filter(Boolean))
      : null,
  );
}

/** What is known of a node, in a sentence or two. */
function finding(record, checks) {
  const { means } = classOf(record.class);
  const failed = record.status && record.status !== "ok" && record.status !== "unsupported";
  const title = record.wrong ? `Wrong on ${record.wrong}` : (record.class ?? "compared").replace(/^./, (c) => c.toUpperCase());
  return el(
    "div",
    { class: `verdict-line${record.suspect ? " bad" : ""}` },
    el("p", {}, el("b", {}, title), failed ? `: ${record.status}.` : means ? `: ${means}.` : "."),
    record.message ? el("div", { class: "message" }, String(record.message)) : null,
    checks.map((v) =>
      el(
        "p",
        {},
        el("b", {}, v.confirmed ? "Confirmed" : "Not confirmed"),
        v.confirmed ? `: rebinding only ${v.nodes.length > 1 ? "these nodes" : "this node"} explains the difference.` : ": this alone does not explain the difference.",
        v.blame && v.blame !== record.wrong ? ` The float64 reference speaks against ${v.blame}.` : "",
      ),
    ),
  );
}

function evidence(v) {
  const lines = list(v.evidence);
  return lines.length ? [el("h3", {}, "Evidence"), el("ul", { class: "evidence" }, lines.map((line) => el("li", {}, String(line))))] : [];
}

function distances(v) {
  if (!v.before && !v.after && !v.reproduced) return [];
  const of = (d) => [amount(d?.output), amount(d?.gradient)];
  const rows = [
    ["as it was", ...of(v.before)],
    [`with it on ${frameworks[0] ?? "the first"}`, ...of(v.after)],
    [`with only it on ${frameworks[1] ?? "the second"}`, ...of(v.reproduced)],
  ];
  return [el("h3", {}, "Distance of whole runs"), pairs(rows, ["", "output", "gradient"])];
}

function scores(record) {
  const split = number(record.output_score) !== null || number(record.gradient_score) !== null;
  const rows = [
    split ? ["score", amount(record.output_score), amount(record.gradient_score)] : ["score", amount(record.score), ""],
    number(record.tail_score) === null ? null : ["score of tiny values", amount(record.tail_score), ""],
    ["Δ on swapping it", amount(record.output_delta), amount(record.gradient_delta)],
    ["Δ on the same inputs", amount(record.local_output_delta), amount(record.local_gradient_delta)],
  ];
  return [el("h3", {}, "Numbers"), pairs(rows.filter(Boolean), ["", "output", "gradient"])];
}

function detail(index) {
  const host = byId("details");
  host.scrollTop = 0;
  const node = nodes[index];
  if (!node) {
    host.replaceChildren(
      el("h2", {}, suspects.length ? "No node selected" : "Nothing suspect"),
      el("p", { class: "kind-line" }, "Select a node in the map or a row of the table to see its numbers."),
    );
    return;
  }
  const { record } = node;
  const kinds = list(record?.gradient_kind);
  const checks = verifications.filter((v) => v.nodes.includes(node.name));
  const about = [
    ["type", node.type && el("code", {}, String(node.type))],
    ["attributes", node.attrs && el("code", {}, String(node.attrs))],
    ["gradients", kinds.length && number(record.local_gradient_delta) !== null ? kinds.map((kind, n) => `${kind} on ${frameworks[n] ?? n}`).join(", ") : null],
    ["time", record && number(record.seconds) !== null ? el("span", { class: "number" }, `${say(record.seconds * 1e3)} ms`) : null],
    ["memory", record && number(record.bytes) ? el("span", { class: "number" }, `${say(record.bytes / 2 ** 20)} MiB`) : null],
  ].filter(([, value]) => value);
  const children = [
    el("h2", {}, name(node.name)),
    el("p", { class: "kind-line" }, name(node.op ?? node.kind ?? "")),
    map.visible(index) ? null : el("p", { class: "kind-line" }, "Not drawn on the map."),
    record ? finding(record, checks) : null,
    checks.map(evidence),
    record ? scores(record) : null,
    record ? list(record.parts).map(partOf) : null,
    checks.map(distances),
    about.length ? [el("h3", {}, "Node"), pairs(about)] : null,
    neighbours("Reads", node.inputs),
    neighbours("Read by", node.consumers),
  ];
  host.replaceChildren(...children.flat(3).filter((child) => child !== null));
}

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
