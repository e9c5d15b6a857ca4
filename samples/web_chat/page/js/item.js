/** What is stored, opened by its reference: one dialog, one page of lines at a time. All of it is text, never HTML. */

import { byId, element } from "./dom.js";

export const STORED = /\[MemoryRef: (\S+) - ([^\]\n]*) - (\d+) tokens\]/;
const PAGE_LINES = 300;

/** A chip that opens what is stored. */
export function reference(key, description = "", tokens = 0) {
  const name = description.replace(/^\w+=/, "").split(", ")[0] || key; // a file by its path
  const size = tokens && ` · ${Number(tokens).toLocaleString("en")} tokens`;
  const attributes = { type: "button", class: "chip", title: `Open ${key}`, onclick: () => open(key) };
  return element("button", attributes, name, size);
}

async function open(key, start = 1) {
  const answer = await fetch(`/api/item?${new URLSearchParams({ key, start })}`).catch(() => null);
  const item = (await answer?.json()) ?? { error: "The server cannot be reached. Try again later." };
  const { title = key, text = "", end = 0, lines = 0, tokens = 0, source, created, error } = item;
  const size = `${tokens.toLocaleString("en")} tokens`;
  byId("item-title").textContent = title;
  byId("item-about").textContent = error || [size, `from ${source}`, new Date(created).toLocaleString()].join(" · ");
  byId("item-text").textContent = text;
  byId("item-text").scrollTop = 0;
  byId("item-lines").textContent = error ? "" : `lines ${start}–${end} of ${lines}`;
  byId("item-before").disabled = start <= 1;
  byId("item-before").onclick = () => open(key, Math.max(1, start - PAGE_LINES));
  byId("item-after").disabled = end >= lines;
  byId("item-after").onclick = () => open(key, end + 1);
  if (!byId("item").open) byId("item").showModal();
}
