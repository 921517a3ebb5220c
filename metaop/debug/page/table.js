/* Tables that are sorted by their heads and walked with keys. */

/** Rows of a table before it asks. */
const ROWS = 300;

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
