/* Numbers for people, and elements of the page.
 *
 * Names and messages come from models and frameworks that nobody vouches for: they become text nodes only, never markup.
 */

const byId = (id) => document.getElementById(id);

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
