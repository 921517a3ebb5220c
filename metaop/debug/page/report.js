/* The report: its records and nodes, and how they look and are called. */

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
const classOf = (kind) => CLASSES[kind] ?? { mark: "?", means: "" };
const step = (score) => (score === null ? -1 : STEPS.findIndex(({ most }) => !(score > most)));

// -- the data --------------------------------------------------------------------------------------------------------

const data = JSON.parse(byId("data").textContent);
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
