/** What is stored, opened by its reference: one dialog, one page of lines at a time. All of it is text, never HTML. */

import { element } from "./dom.js";

const KEY = /^[A-Za-z][\w.-]*_(?=[a-z]*\d)[a-z0-9]{6}$/; // a name and six signs, with a digit to tell it from words
const ARGUMENT = /^[A-Za-z_]\w*=(\S.*?)(?=, | [A-Za-z_]\w*=|$)/;
const PAGE_LINES = 300;

/** Whether a word in an answer looks like the key of something stored. */
export function isKey(word) {
  return word !== undefined && KEY.test(word);
}

/** Return a chip that opens what is stored. */
export function reference(key, description = "", tokens = 0) {
  const size = tokens ? element("span", { class: "chip-tokens" }, `${tokens.toLocaleString("en")} tokens`) : null;
  const words = element("span", { class: "chip-words" }, titleOf(description) || key);
  return element("button", { type: "button", class: "chip", title: `Open ${key}`, onclick: () => open(key) }, words, size);
}

/** What a person calls it: the file instead of `path=…`. */
export function titleOf(description) {
  const value = ARGUMENT.exec(description)?.[1] ?? description;
  return /^[\w.@+-]*(\/[\w.@+-]+)+$/.test(value) ? value.slice(value.lastIndexOf("/") + 1) : value;
}

const dialog = document.getElementById("item");
const [title, about, text, lines, before, after] = ["title", "about", "text", "lines", "before", "after"].map((name) =>
  document.getElementById(`item-${name}`),
);
let shown = { key: "", start: 1, end: 0 };

async function open(key, start = 1) {
  let item;
  try {
    const answer = await fetch(`/api/item?${new URLSearchParams({ key, start })}`);
    item = await answer.json();
  } catch {
    item = { error: "The server cannot be reached. Try again when it is back." };
  }
  shown = { key, start: item.start ?? 1, end: item.end ?? 0 };
  title.textContent = item.title ?? key;
  about.textContent = item.error || [item.rest, `${item.tokens.toLocaleString("en")} tokens`, `from ${item.source}`, timeOf(item.created)].filter(Boolean).join(" · ");
  about.classList.toggle("problem", Boolean(item.error));
  text.textContent = item.text ?? "";
  text.hidden = item.text === undefined;
  lines.textContent = item.lines ? `lines ${shown.start}–${shown.end} of ${item.lines}` : "";
  before.disabled = shown.start <= 1;
  after.disabled = shown.end >= (item.lines ?? 0);
  before.hidden = after.hidden = before.disabled && after.disabled; // all of it is on one page
  text.scrollTop = 0;
  if (!dialog.open) dialog.showModal();
}

function timeOf(created) {
  return new Date(created).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" });
}

before.addEventListener("click", () => open(shown.key, Math.max(1, shown.start - PAGE_LINES)));
after.addEventListener("click", () => open(shown.key, shown.end + 1));
