// Elements without innerHTML: texts that a model read are never markup here.

const SVG = "http://www.w3.org/2000/svg";

/** Make an element: h("a", {href: "#/", onclick: f}, "text", child, null). A style is set by rules, never inline. */
export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), props, children);
}

function filled(element, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name in element && typeof value === "boolean") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== "" && child !== false));
  return element;
}

const numbers = new Intl.NumberFormat("en");
const dates = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });

const brief_ = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const brief = (value) => (Math.abs(value) < 1e5 ? count(value) : brief_.format(value));
export const count = (value) => numbers.format(Math.round(value));
export const percent = (part, whole) => (whole ? `${Math.round((100 * part) / whole)} %` : "–");
export const when = (iso) => (iso ? dates.format(new Date(iso)) : "");
export const plural = (value, noun) => `${count(value)} ${noun}${value === 1 ? "" : "s"}`;

/** Say something to screen readers. */
export function announce(text) {
  document.getElementById("live").textContent = text;
}

/** A boxed sentence: for what is empty, failed or still loading. */
export function note(text, kind = "empty") {
  return h("p", { class: kind, role: kind === "error" ? "alert" : null }, text);
}
