/* The numbers of the selected node. */

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
