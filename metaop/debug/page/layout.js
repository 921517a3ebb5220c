/* Where each node of the map goes.
 *
 * A layered drawing from top to bottom: a node stands below all that it reads. A deep model would be a thread that no
 * screen can show, so the layers are folded into columns, read as in a newspaper, and cut where few edges pass.
 * Variables and constants stand as satellites beside the first operator that reads them. All steps are linear in the
 * nodes and edges but for sorting within a layer.
 */

const SIZE = {
  row: 44, // height of an operator
  data: 28, // height of a placeholder
  satellite: { width: 104, height: 18, gap: 5, rows: 4 },
  gapX: 26,
  gapY: 28,
  gutter: 64, // between columns, where edges to other columns run
  lane: 6, // between two such edges
};
/** Edges over more layers than this run beside the column instead of through it. */
const FAR = 16;

/** The layout of `nodes`, `{inputs: [index], leaf: bool, data: bool}` in execution order, for a view of some size.
 *
 * Gives `{width, height, columns, x, y, w, h, layer, edges}`: centres and sizes by node, and for each edge
 * `{from, to, smooth, points: [x, y, x, y, ...]}`.
 */
function layOut(nodes, { nodeWidth = 190, viewWidth = 900, viewHeight = 600 } = {}) {
  const count = nodes.length;
  const consumers = nodes.map(() => []);
  nodes.forEach((node, i) => node.inputs.forEach((from) => consumers[from].push(i)));

  const home = nodes.map((node, i) => (node.leaf && consumers[i].length ? consumers[i][0] : -1));
  const satellites = nodes.map(() => []);
  home.forEach((owner, i) => owner >= 0 && satellites[owner].push(i));
  const main = [...nodes.keys()].filter((i) => home[i] < 0);

  const out = {
    x: new Float64Array(count),
    y: new Float64Array(count),
    w: new Float64Array(count),
    h: new Float64Array(count),
    layer: assignLayers(nodes, consumers, home),
    edges: [],
  };
  const block = main.reduce((blocks, i) => {
    const n = satellites[i].length;
    const rows = Math.min(n, SIZE.satellite.rows);
    const columns = rows ? Math.ceil(n / rows) : 0;
    out.w[i] = nodes[i].data ? nodeWidth * 0.8 : nodeWidth;
    out.h[i] = nodes[i].data ? SIZE.data : SIZE.row;
    blocks[i] = {
      left: out.w[i] / 2,
      right: out.w[i] / 2 + columns * (SIZE.satellite.width + 10),
      height: Math.max(out.h[i], rows * (SIZE.satellite.height + SIZE.satellite.gap) - SIZE.satellite.gap),
    };
    return blocks;
  }, new Array(count));

  const depth = main.reduce((d, i) => Math.max(d, out.layer[i] + 1), 0);
  const layers = Array.from({ length: depth }, () => []);
  main.forEach((i) => layers[out.layer[i]].push(i));
  const columns = fold(layers, nodes, home, out.layer, block, viewWidth, viewHeight);
  const column = new Int32Array(depth);
  columns.forEach(([first, last], c) => column.fill(c, first, last));

  const links = [];
  main.forEach((to) => {
    new Set(nodes[to].inputs).forEach((from) => {
      if (home[from] >= 0) return;
      const span = out.layer[to] - out.layer[from];
      const near = column[out.layer[from]] === column[out.layer[to]] && span <= FAR;
      links.push({ from, to, near });
    });
  });
  const linksOfColumn = columns.map(() => []);
  links.forEach((link) => link.near && linksOfColumn[column[out.layer[link.from]]].push(link));

  const band = { top: new Float64Array(depth), bottom: new Float64Array(depth) };
  const right = [];
  let x = 0;
  let height = 0;
  columns.forEach(([first, last], c) => {
    let y = 0;
    for (let l = first; l < last; l++) {
      const tall = Math.max(...layers[l].map((i) => block[i].height));
      band.top[l] = y;
      band.bottom[l] = y + tall;
      layers[l].forEach((i) => (out.y[i] = y + tall / 2));
      y += tall + SIZE.gapY;
    }
    height = Math.max(height, y - SIZE.gapY);
    const width = placeColumn(layers.slice(first, last), first, linksOfColumn[c], block, out, band, x);
    right.push(x + width);
    x += width + SIZE.gutter;
  });
  out.columns = columns.length;
  out.width = Math.max(0, x - SIZE.gutter);
  out.height = height;

  routeFarEdges(links, out, band, column, right);
  placeSatellites(nodes, home, satellites, out);
  return out;
}

/** Longest path from the data. What does not depend on data (and data itself) stands just above its first reader. */
function assignLayers(nodes, consumers, home) {
  const layer = new Int32Array(nodes.length);
  const fed = new Uint8Array(nodes.length);
  nodes.forEach((node, i) => {
    node.inputs.forEach((from) => {
      if (home[from] < 0) layer[i] = Math.max(layer[i], layer[from] + 1);
      if (nodes[from].data || fed[from]) fed[i] = 1;
    });
  });
  for (let i = nodes.length - 1; i >= 0; i--) {
    if (home[i] >= 0 || fed[i] || !consumers[i].length) continue;
    layer[i] = consumers[i].reduce((l, to) => Math.min(l, layer[to]), Infinity) - 1;
  }
  const used = [...new Set(layer.filter((_, i) => home[i] < 0))].sort((a, b) => a - b);
  const dense = new Map(used.map((l, position) => [l, position]));
  return layer.map((l, i) => (home[i] < 0 ? dense.get(l) : 0)).map((l, i, all) => (home[i] < 0 ? l : all[home[i]]));
}

/** Ranges of layers, one per column, as many as make the whole drawing largest in the view. */
function fold(layers, nodes, home, layer, block, viewWidth, viewHeight) {
  const depth = layers.length;
  if (!depth) return [];
  const tall = layers.map((l) => Math.max(...l.map((i) => block[i].height)) + SIZE.gapY);
  const wide = layers.map((l) => l.reduce((w, i) => w + block[i].left + block[i].right + SIZE.gapX, 0));
  const total = tall.reduce((a, b) => a + b, 0);
  const typical = wide.slice().sort((a, b) => a - b)[Math.floor(depth * 0.95)] + SIZE.gutter;
  const scale = (k) => Math.min(viewWidth / (k * typical), viewHeight / (total / k));
  let k = 1;
  if (scale(1) < 0.55) for (let more = 2; more <= 60; more++) if (scale(more) > scale(k)) k = more;

  const passing = new Int32Array(depth + 1); // edges over the boundary above a layer
  nodes.forEach((node, to) =>
    node.inputs.forEach((from) => {
      if (home[from] >= 0) return;
      passing[layer[from] + 1] += 1;
      passing[layer[to] + 1] -= 1;
    }),
  );
  for (let l = 1; l <= depth; l++) passing[l] += passing[l - 1];

  const ranges = [];
  const goal = total / k;
  let first = 0;
  while (first < depth) {
    let best = depth;
    let cost = Infinity;
    let y = 0;
    for (let l = first + 1; l <= depth && y <= 1.1 * goal; l++) {
      y += tall[l - 1];
      const here = (l === depth ? 0 : passing[l]) + 6 * Math.abs(y / goal - 1);
      if (y >= 0.75 * goal && here < cost) [best, cost] = [l, here];
    }
    ranges.push([first, best]);
    first = best;
  }
  return ranges;
}

/** Order and x of one column's nodes and of the edges between them; gives the column's width. */
function placeColumn(layers, firstLayer, links, block, out, band, offset) {
  const items = []; // nodes, and the points where an edge passes a layer
  const rows = layers.map(() => []);
  const itemOf = new Map();
  const add = (row, left, right, node) => {
    const item = { row, left, right, node, up: [], down: [], x: 0, rank: 0, parting: null, depth: 0 };
    items.push(item);
    rows[row].push(item);
    return item;
  };
  layers.forEach((layer, row) => layer.forEach((i) => itemOf.set(i, add(row, block[i].left, block[i].right, i))));
  const connect = (a, b, weight) => {
    a.down.push([b, weight]);
    b.up.push([a, weight]);
  };
  const chains = links.map(({ from, to }) => {
    const chain = [itemOf.get(from)];
    const last = itemOf.get(to);
    for (let row = chain[0].row + 1; row < last.row; row++) {
      const pass = add(row, 4, 4, -1);
      connect(chain[chain.length - 1], pass, chain.length === 1 ? 2 : 6);
      chain.push(pass);
    }
    connect(chain[chain.length - 1], last, chain.length === 1 ? 3 : 2);
    chain.push(last);
    return chain;
  });

  const mean = (side) => {
    let sum = 0;
    let weight = 0;
    side.forEach(([other, w]) => {
      sum += other.x * w;
      weight += w;
    });
    return weight ? sum / weight : null;
  };
  const spread = (row) => {
    let x = 0;
    row.forEach((item) => {
      item.x = x + item.left;
      x += item.left + item.right + SIZE.gapX;
    });
    row.forEach((item) => (item.x -= (x - SIZE.gapX) / 2));
  };
  rows.forEach(spread);
  for (let sweep = 0; sweep < 8; sweep++) {
    const down = sweep % 2 === 0;
    (down ? rows : rows.slice().reverse()).forEach((row) => {
      row.forEach((item) => (item.rank = mean(down ? item.up : item.down) ?? item.x));
      row.sort((a, b) => a.rank - b.rank);
      spread(row);
    });
  }
  for (let sweep = 0; sweep < 6; sweep++) {
    const down = sweep % 2 === 0;
    (down ? rows : rows.slice().reverse()).forEach((row) => settle(row, (item) => mean(down ? item.up : item.down), () => 1));
  }
  straighten(rows, mean);

  let low = Infinity;
  let high = -Infinity;
  items.forEach((item) => {
    low = Math.min(low, item.x - item.left);
    high = Math.max(high, item.x + item.right);
  });
  items.forEach((item) => {
    item.x += offset - low;
    if (item.node >= 0) out.x[item.node] = item.x;
  });
  links.forEach(({ from, to }, n) => {
    const points = [];
    chains[n].forEach((item, position) => {
      const l = firstLayer + item.row;
      if (position > 0) points.push(item.x, band.top[l]);
      if (position < chains[n].length - 1) points.push(item.x, band.bottom[l]);
    });
    const start = [out.x[from], out.y[from] + out.h[from] / 2];
    const end = [out.x[to], out.y[to] - out.h[to] / 2];
    out.edges.push({ from, to, smooth: true, points: [...start, ...points, ...end] });
  });
  return high - low;
}

/** Straight lines where the graph has them: a chain goes straight down, and what joins branches stands below the node
 * where they parted, so that a residual network has one spine however many branches it has.
 */
function straighten(rows, mean) {
  rows.forEach((row) =>
    row.forEach((item) => {
      item.parting = item.up.map(([above]) => above).reduce(lastCommon, null);
      item.depth = item.parting ? item.parting.depth + 1 : 0;
    }),
  );
  const heavy = (item) => (item.node >= 0 && item.up.length ? 1000 : 1);
  rows.forEach((row) => settle(row, (item) => (item.up.length ? item.parting.x : item.x), heavy));
  // Upwards again: a line that was pushed aside is straight up to there; inputs of later layers come near to their readers.
  const wish = (item) => {
    if (item.node >= 0) return item.up.length ? null : mean(item.down);
    return item.down[0][0].node < 0 ? item.down[0][0].x : null;
  };
  rows.slice().reverse().forEach((row) => settle(row, wish, (item) => (wish(item) === null ? 1000 : 1)));
}

/** The last item that all paths to both pass; of two sources' paths the deeper one. */
function lastCommon(a, b) {
  if (!a) return b;
  let [u, v] = [a, b];
  while (u !== v) {
    if (u.depth >= v.depth) u = u.parting;
    else v = v.parting;
    if (!u || !v) return a.depth >= b.depth ? a : b;
  }
  return u;
}

/** Moves a row's items to where they want to be as far as order and room allow: weighted least squares, by pooling. */
function settle(row, wish, weigh) {
  const pools = [];
  let shift = 0; // what the items before need, so that only the order is left to keep
  row.forEach((item, n) => {
    if (n) shift += row[n - 1].right + SIZE.gapX + item.left;
    const weight = weigh(item);
    pools.push({ sum: ((wish(item) ?? item.x) - shift) * weight, weight, size: 1 });
    while (pools.length > 1) {
      const last = pools[pools.length - 1];
      const before = pools[pools.length - 2];
      if (before.sum / before.weight <= last.sum / last.weight) break;
      before.sum += last.sum;
      before.weight += last.weight;
      before.size += last.size;
      pools.pop();
    }
  });
  shift = 0;
  let n = 0;
  pools.forEach((pool) => {
    for (let k = 0; k < pool.size; k++, n++) {
      if (n) shift += row[n - 1].right + SIZE.gapX + row[n].left;
      row[n].x = pool.sum / pool.weight + shift;
    }
  });
}

/** Edges to other columns, or over many layers: beside the column, between columns, above all. */
function routeFarEdges(links, out, band, column, right) {
  const lanes = right.map(() => 0);
  let above = 0;
  links.forEach(({ from, to, near }) => {
    if (near) return;
    const [a, b] = [column[out.layer[from]], column[out.layer[to]]];
    const exit = right[a] + 14 + SIZE.lane * (lanes[a]++ % 7);
    const leave = band.bottom[out.layer[from]] + 9;
    const arrive = band.top[out.layer[to]] - 9;
    const points = [out.x[from], out.y[from] + out.h[from] / 2, out.x[from], leave, exit, leave];
    if (b - a > 1) {
      const over = -22 - SIZE.lane * (above++ % 10);
      const enter = right[b - 1] + 14 + SIZE.lane * (lanes[b - 1]++ % 7);
      points.push(exit, over, enter, over, enter, arrive);
    } else {
      points.push(exit, arrive);
    }
    points.push(out.x[to], arrive, out.x[to], out.y[to] - out.h[to] / 2);
    out.edges.push({ from, to, smooth: false, points });
  });
}

/** Variables and constants beside their first reader; straight lines to it, curves to the others. */
function placeSatellites(nodes, home, satellites, out) {
  const { width, height, gap, rows: most } = SIZE.satellite;
  satellites.forEach((own, owner) => {
    const rows = Math.min(own.length, most);
    own.forEach((i, n) => {
      const across = Math.floor(n / most);
      out.w[i] = width;
      out.h[i] = height;
      out.x[i] = out.x[owner] + out.w[owner] / 2 + 10 + across * (width + 10) + width / 2;
      out.y[i] = out.y[owner] + ((n % most) - (rows - 1) / 2) * (height + gap);
    });
  });
  nodes.forEach((node, to) =>
    new Set(node.inputs).forEach((from) => {
      if (home[from] === to) {
        const y = Math.max(out.y[to] - out.h[to] / 2 + 6, Math.min(out.y[to] + out.h[to] / 2 - 6, out.y[from]));
        const points = [out.x[from] - out.w[from] / 2, out.y[from], out.x[to] + out.w[to] / 2, y];
        out.edges.push({ from, to, smooth: false, points });
      } else if (home[from] >= 0) {
        const points = [out.x[from], out.y[from] + height / 2, out.x[to], out.y[to] - out.h[to] / 2];
        out.edges.push({ from, to, smooth: true, points });
      }
    }),
  );
}
