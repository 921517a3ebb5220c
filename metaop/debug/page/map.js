/* The map: the model drawn on a canvas, with panning, zooming, an overview, and a cursor that keys can move.
 *
 * A canvas draws thousands of nodes quickly but is nothing to a screen reader, so the selected node also exists as an
 * element, the one option of a list box, which lies over its drawing and carries its words.
 */

const ZOOM = { least: 0.01, most: 2.5, readable: 0.42, close: 0.95 };
const MONO = '"SF Mono", "Cascadia Code", "DejaVu Sans Mono", Menlo, Consolas, monospace';

/** The map in `host`. `look(node)` gives `{fill, ink, mark, word, suspect, dashed}`; `describe(node)` its words. */
function createMap({ host, nodes, look, describe, onSelect }) {
  const canvas = host.querySelector("canvas.drawing");
  const overview = host.querySelector("canvas.overview");
  const tip = host.querySelector(".tip");
  const context = canvas.getContext("2d");
  const still = matchMedia("(prefers-reduced-motion: reduce)");
  const view = { x: 0, y: 0, z: 1 };
  const size = { width: 0, height: 0, ratio: 1 };
  let shown = []; // indices of drawn nodes, in execution order
  let place = new Map(); // index of a node -> position in `shown`
  let layout = null;
  let paths = null;
  let colours = {};
  let matches = null;
  let selected = -1;
  let cursor = null;
  let frame = 0;
  let moving = 0;
  let drawn = () => true; // which nodes are to be drawn
  let touched = false; // whether somebody has moved the view: from then on it stays theirs

  const ask = () => (frame ||= requestAnimationFrame(draw));
  const screen = (p) => ({
    x: (layout.x[p] - layout.w[p] / 2 - view.x) * view.z,
    y: (layout.y[p] - layout.h[p] / 2 - view.y) * view.z,
    w: layout.w[p] * view.z,
    h: layout.h[p] * view.z,
  });

  // -- what is drawn -------------------------------------------------------------------------------------------------

  function show(visible) {
    drawn = visible;
    touched = false;
    arrange();
  }

  function arrange() {
    shown = nodes.map((_, i) => i).filter((i) => drawn(nodes[i]));
    place = new Map(shown.map((i, p) => [i, p]));
    const letters = Math.min(24, shown.reduce((most, i) => Math.max(most, nodes[i].name.length), 13));
    layout = layOut(
      shown.map((i) => ({
        inputs: nodes[i].inputs.filter((j) => place.has(j)).map((j) => place.get(j)),
        leaf: nodes[i].kind === "variable" || nodes[i].kind === "constant",
        data: nodes[i].kind === "placeholder",
      })),
      { nodeWidth: 44 + letters * 7.3, viewWidth: size.width || 900, viewHeight: size.height || 560 },
    );
    paths = { near: new Path2D(), far: new Path2D(), into: shown.map(() => []) };
    layout.edges.forEach((edge, n) => {
      trace(edge.smooth ? paths.near : paths.far, edge);
      paths.into[edge.to].push(n);
      paths.into[edge.from].push(n);
    });
    paintOverview();
    ask();
  }

  function trace(path, { points, smooth }) {
    path.moveTo(points[0], points[1]);
    for (let k = 2; k < points.length; k += 2) {
      const [x0, y0, x, y] = points.slice(k - 2, k + 2);
      if (smooth && x0 !== x) {
        const middle = (y0 + y) / 2;
        path.bezierCurveTo(x0, middle, x, middle, x, y);
      } else if (!smooth && k + 2 < points.length) {
        const [xn, yn] = points.slice(k + 2, k + 4);
        const room = Math.min(Math.hypot(x - x0, y - y0), Math.hypot(xn - x, yn - y)) / 2;
        path.arcTo(x, y, xn, yn, Math.min(7, room));
      } else {
        path.lineTo(x, y);
      }
    }
  }

  function draw() {
    frame = 0;
    if (!layout || !size.width) return;
    const { ratio } = size;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.fillStyle = colours.ground;
    context.fillRect(0, 0, canvas.width, canvas.height);
    context.setTransform(ratio * view.z, 0, 0, ratio * view.z, -view.x * view.z * ratio, -view.y * view.z * ratio);
    context.lineWidth = Math.max(1.2, 0.7 / view.z);
    context.strokeStyle = colours.edge;
    context.stroke(paths.near);
    context.globalAlpha = 0.55;
    context.stroke(paths.far);
    context.globalAlpha = 1;
    const chosen = place.get(selected);
    if (chosen !== undefined) {
      const own = new Path2D();
      paths.into[chosen].forEach((n) => trace(own, layout.edges[n]));
      context.lineWidth = Math.max(2.2, 1.4 / view.z);
      context.strokeStyle = colours.accent;
      context.stroke(own);
    }
    const [left, top] = [view.x, view.y];
    const [right, bottom] = [left + size.width / view.z, top + size.height / view.z];
    const late = []; // suspects and the selected node lie on top
    for (let p = 0; p < shown.length; p++) {
      const [w, h] = [layout.w[p] / 2 + 30, layout.h[p] / 2 + 30];
      const [x, y] = [layout.x[p], layout.y[p]];
      if (x + w < left || x - w > right || y + h < top || y - h > bottom) continue;
      if (p === chosen || look(nodes[shown[p]]).suspect) late.push(p);
      else drawNode(p);
    }
    late.forEach(drawNode);
    context.globalAlpha = 1;
    placeCursor();
    frameOverview();
  }

  function drawNode(p) {
    const node = nodes[shown[p]];
    const { fill, ink, mark, suspect, dashed, detail } = look(node);
    const [w, h] = [layout.w[p], layout.h[p]];
    const [x, y] = [layout.x[p] - w / 2, layout.y[p] - h / 2];
    const chosen = shown[p] === selected;
    context.globalAlpha = matches && !matches.has(shown[p]) && !chosen ? 0.22 : 1;
    const pixel = 1 / view.z;
    if (chosen || suspect) {
      const grow = Math.max(5, 4 * pixel);
      const half = Math.max(0, 6 * pixel - h / 2); // to be found however far away
      context.beginPath();
      context.roundRect(x - grow - half, y - grow - half, w + 2 * (grow + half), h + 2 * (grow + half), 10);
      context.fillStyle = suspect ? colours.halo : colours.haloPlain;
      context.fill();
      context.lineWidth = Math.max(2.5, 2 * pixel);
      context.strokeStyle = suspect ? colours.fault : colours.accent;
      if (chosen) context.stroke();
    }
    context.beginPath();
    if (node.kind === "placeholder") context.roundRect(x, y, w, h, h / 2);
    else if (node.kind === "constant") cutCorners(x, y, w, h, 5);
    else context.roundRect(x, y, w, h, node.kind === "variable" ? 3 : 7);
    context.fillStyle = fill;
    context.fill();
    context.lineWidth = suspect ? Math.max(2, 1.5 * pixel) : Math.max(0.9, 0.5 * pixel);
    context.strokeStyle = suspect ? colours.fault : colours.outline;
    context.setLineDash(dashed ? [5, 3] : []);
    context.stroke();
    context.setLineDash([]);
    if (h * view.z < 11) return;
    context.fillStyle = ink;
    context.textBaseline = "middle";
    if (h <= SIZE.data) {
      context.font = `${h < 24 ? 9.5 : 11.5}px ${MONO}`;
      context.textAlign = "center";
      context.fillText(shorten(node.name, (w - 12) / (h < 24 ? 5.75 : 7)), x + w / 2, y + h / 2 + 0.5, w - 8);
      return;
    }
    context.textAlign = "center";
    context.font = `700 15px ${MONO}`;
    context.fillText(mark, x + 17, y + h / 2);
    context.textAlign = "left";
    context.font = `${suspect ? 600 : 500} 12px ${MONO}`;
    context.fillText(shorten(node.name, (w - 40) / 7.25), x + 33, y + 15, w - 38);
    context.font = `10.5px ${MONO}`;
    const score = shorten(detail, 14);
    context.globalAlpha *= 0.82;
    context.fillText(shorten(node.op ?? "", (w - 46) / 6.4 - score.length), x + 33, y + 31, w - 38);
    context.textAlign = "right";
    context.fillText(score, x + w - 9, y + 31);
  }

  function cutCorners(x, y, w, h, c) {
    context.moveTo(x + c, y);
    context.lineTo(x + w - c, y);
    context.lineTo(x + w, y + c);
    context.lineTo(x + w, y + h - c);
    context.lineTo(x + w - c, y + h);
    context.lineTo(x + c, y + h);
    context.lineTo(x, y + h - c);
    context.lineTo(x, y + c);
    context.closePath();
  }

  /** The ends of a long name: its beginning says where it is, its end what it is. */
  function shorten(text, letters) {
    const room = Math.max(1, Math.floor(letters));
    if (text.length <= room) return text;
    const end = Math.ceil((room - 1) * 0.65);
    return text.slice(0, room - 1 - end) + "…" + text.slice(text.length - end);
  }

  // -- the overview --------------------------------------------------------------------------------------------------

  const small = document.createElement("canvas");

  function paintOverview() {
    if (!layout || !layout.width) return;
    const scale = Math.min(190 / layout.width, 120 / layout.height);
    const [width, height] = [Math.max(24, layout.width * scale), Math.max(24, layout.height * scale)];
    Object.assign(overview.style, { width: `${width}px`, height: `${height}px` });
    for (const target of [overview, small]) {
      target.width = width * size.ratio;
      target.height = height * size.ratio;
    }
    const pen = small.getContext("2d");
    pen.setTransform(size.ratio * scale, 0, 0, size.ratio * scale, 0, 0);
    const least = 1 / scale;
    for (const suspects of [false, true]) {
      for (let p = 0; p < shown.length; p++) {
        const { strong, suspect } = look(nodes[shown[p]]);
        if (Boolean(suspect) !== suspects) continue;
        const grow = suspects ? 5 * least : least;
        const [w, h] = [Math.max(grow, layout.w[p]), Math.max(grow, layout.h[p])];
        pen.fillStyle = suspects ? colours.fault : strong;
        pen.fillRect(layout.x[p] - w / 2, layout.y[p] - h / 2, w, h);
      }
    }
  }

  function frameOverview() {
    const [w, h] = [size.width / view.z, size.height / view.z];
    const whole = view.x <= 0 && view.y <= 0 && view.x + w >= layout.width && view.y + h >= layout.height;
    overview.hidden = whole || !layout.width;
    if (overview.hidden) return;
    const pen = overview.getContext("2d");
    const scale = overview.width / layout.width;
    pen.setTransform(1, 0, 0, 1, 0, 0);
    pen.clearRect(0, 0, overview.width, overview.height);
    pen.drawImage(small, 0, 0);
    pen.strokeStyle = colours.accent;
    pen.fillStyle = colours.haloPlain;
    pen.lineWidth = 1.5 * size.ratio;
    pen.beginPath();
    pen.rect(view.x * scale, view.y * scale, w * scale, h * scale);
    pen.fill();
    pen.stroke();
  }

  // -- where one looks -----------------------------------------------------------------------------------------------

  function moveTo(x, y, z) {
    cancelAnimationFrame(moving);
    const from = { ...view };
    const start = performance.now();
    const step = (now) => {
      const t = still.matches ? 1 : Math.min(1, Math.max(0, now - start) / 180);
      const ease = 1 - (1 - t) ** 3;
      Object.assign(view, {
        x: from.x + (x - from.x) * ease,
        y: from.y + (y - from.y) * ease,
        z: from.z + (z - from.z) * ease,
      });
      draw();
      if (t < 1) moving = requestAnimationFrame(step);
    };
    step(still.matches ? start + 180 : start);
  }

  const fitting = () => Math.min(1.15, (size.width - 48) / layout.width, (size.height - 48) / layout.height);

  function fit() {
    const z = Math.max(ZOOM.least, fitting());
    moveTo((layout.width - size.width / z) / 2, (layout.height - size.height / z) / 2, z);
  }

  /** All of it where that can be read, else the selected node with its neighbours. */
  function open() {
    if (!size.width) return;
    const p = place.get(selected);
    if (p === undefined || fitting() >= ZOOM.readable) return fit();
    centre(p, ZOOM.close);
  }

  const centre = (p, z) => moveTo(layout.x[p] - size.width / z / 2, layout.y[p] - size.height / z / 2, z);

  function zoom(factor, x = size.width / 2, y = size.height / 2) {
    const z = Math.min(ZOOM.most, Math.max(Math.min(ZOOM.least, fitting()), view.z * factor));
    cancelAnimationFrame(moving);
    touched = true;
    view.x += x / view.z - x / z;
    view.y += y / view.z - y / z;
    view.z = z;
    ask();
  }

  /** Brings the selected node into view, moving no more than needed. */
  function reveal() {
    const p = place.get(selected);
    if (p === undefined || !size.width) return;
    const box = screen(p);
    if (view.z < ZOOM.readable) return centre(p, ZOOM.close);
    const inside = box.x > 12 && box.y > 12 && box.x + box.w < size.width - 12 && box.y + box.h < size.height - 12;
    if (!inside) centre(p, view.z);
  }

  function resize() {
    const ratio = Math.min(3, devicePixelRatio || 1);
    const [width, height] = [host.clientWidth, host.clientHeight];
    if (!width || (width === size.width && height === size.height && ratio === size.ratio)) return;
    Object.assign(size, { width, height, ratio });
    canvas.width = width * ratio;
    canvas.height = height * ratio;
    if (!layout) return;
    // A frame may be given its size only now, and how the drawing is folded depends on it.
    if (touched) paintOverview();
    else {
      arrange();
      open();
    }
    draw();
  }

  // -- the cursor ----------------------------------------------------------------------------------------------------

  function placeCursor() {
    const p = place.get(selected);
    if (p === undefined) return;
    const box = screen(p);
    Object.assign(cursor.style, {
      transform: `translate(${box.x - 6}px, ${box.y - 6}px)`,
      width: `${box.w + 12}px`,
      height: `${box.h + 12}px`,
    });
  }

  function select(index, { quiet = false } = {}) {
    selected = index;
    cursor?.remove();
    cursor = null;
    host.removeAttribute("aria-activedescendant");
    const p = place.get(index);
    if (p !== undefined) {
      cursor = document.createElement("div"); // a new element each time, or screen readers would not read it out
      cursor.id = `node-${index}`;
      cursor.className = "cursor";
      cursor.setAttribute("role", "option");
      cursor.setAttribute("aria-selected", "true");
      cursor.setAttribute("aria-setsize", String(shown.length));
      cursor.setAttribute("aria-posinset", String(p + 1));
      cursor.setAttribute("aria-label", describe(nodes[index]));
      host.append(cursor);
      host.setAttribute("aria-activedescendant", cursor.id);
      placeCursor();
    }
    if (!quiet) {
      touched = true;
      reveal();
    }
    ask();
  }

  /** The node that an arrow key leads to: along edges up and down, within the layer left and right. */
  function neighbour(key) {
    const p = place.get(selected);
    if (key === "Home" || p === undefined) return shown[0];
    if (key === "End") return shown[shown.length - 1];
    const of = (q) => nodes[shown[q]];
    if (key === "ArrowUp") return nodes[selected].inputs.find((i) => place.has(i));
    if (key === "ArrowDown") return nodes[selected].consumers.find((i) => place.has(i));
    const row = [...shown.keys()].filter((q) => layout.layer[q] === layout.layer[p]);
    row.sort((a, b) => layout.x[a] - layout.x[b] || layout.y[a] - layout.y[b]);
    const next = row[row.indexOf(p) + (key === "ArrowRight" ? 1 : -1)];
    return next === undefined ? undefined : of(next).index;
  }

  host.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== host) return;
    if (/^(Arrow|Home$|End$)/.test(event.key)) {
      const next = neighbour(event.key);
      if (next !== undefined) onSelect(next);
    } else if (event.key === "+" || event.key === "=") zoom(1.3);
    else if (event.key === "-") zoom(1 / 1.3);
    else if (event.key === "0") fit();
    else if (event.key === "PageDown" || event.key === "PageUp") {
      const suspects = shown.filter((i) => look(nodes[i]).suspect);
      const ahead = event.key === "PageDown" ? suspects.find((i) => i > selected) : suspects.findLast((i) => i < selected);
      const next = ahead ?? suspects.at(event.key === "PageDown" ? 0 : -1);
      if (next !== undefined) onSelect(next);
    } else return;
    event.preventDefault();
  });

  // -- the pointer ---------------------------------------------------------------------------------------------------

  function at(x, y) {
    const [wx, wy] = [view.x + x / view.z, view.y + y / view.z];
    const slack = 4 / view.z;
    let best = -1;
    let nearest = Infinity;
    for (let p = 0; p < shown.length; p++) {
      const [dx, dy] = [Math.abs(wx - layout.x[p]), Math.abs(wy - layout.y[p])];
      if (dx > layout.w[p] / 2 + slack || dy > layout.h[p] / 2 + slack || dx + dy >= nearest) continue;
      [best, nearest] = [p, dx + dy];
    }
    return best;
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    cancelAnimationFrame(moving);
    drag = { x: event.offsetX, y: event.offsetY, from: { ...view }, moved: false };
    canvas.setPointerCapture(event.pointerId);
    host.focus({ preventScroll: true });
    event.preventDefault();
  });
  canvas.addEventListener("pointermove", (event) => {
    const [x, y] = [event.offsetX, event.offsetY];
    if (drag) {
      drag.moved ||= Math.hypot(x - drag.x, y - drag.y) > 4;
      if (drag.moved) {
        touched = true;
        view.x = drag.from.x - (x - drag.x) / view.z;
        view.y = drag.from.y - (y - drag.y) / view.z;
        tip.hidden = true;
        ask();
      }
      return;
    }
    const p = at(x, y);
    canvas.classList.toggle("over", p >= 0);
    tip.hidden = p < 0;
    if (p < 0) return;
    tip.textContent = describe(nodes[shown[p]]);
    tip.style.transform = `translate(${Math.min(x + 14, size.width - tip.offsetWidth - 8)}px, ${y + 18}px)`;
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      const p = at(event.offsetX, event.offsetY);
      if (p >= 0) onSelect(shown[p], { quiet: true });
    }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => (drag = null));
  canvas.addEventListener("pointerleave", () => (tip.hidden = true));
  canvas.addEventListener("dblclick", (event) => zoom(1.8, event.offsetX, event.offsetY));
  // A wheel over the map scrolls the page until the map has been clicked: else nobody could scroll past it.
  canvas.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && !event.metaKey && document.activeElement !== host) return;
      event.preventDefault();
      const lines = event.deltaMode === 1 ? 18 : 1;
      zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.006 : 0.0018)), event.offsetX, event.offsetY);
    },
    { passive: false },
  );

  const lookAt = (event) => {
    const scale = overview.clientWidth / layout.width;
    cancelAnimationFrame(moving);
    touched = true;
    view.x = event.offsetX / scale - size.width / view.z / 2;
    view.y = event.offsetY / scale - size.height / view.z / 2;
    ask();
  };
  overview.addEventListener("pointerdown", (event) => {
    overview.setPointerCapture(event.pointerId);
    lookAt(event);
  });
  overview.addEventListener("pointermove", (event) => event.buttons && lookAt(event));

  new ResizeObserver(resize).observe(host);
  resize();

  return {
    show,
    select,
    fit,
    open,
    zoom,
    visible: (index) => place.has(index),
    count: () => shown.length,
    paint(palette) {
      colours = palette;
      paintOverview();
      draw();
    },
    search(found) {
      matches = found;
      ask();
    },
  };
}
