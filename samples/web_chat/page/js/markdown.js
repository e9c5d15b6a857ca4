/**
 * The little Markdown that answers use: paragraphs, headings, lists, code, bold, links.
 *
 * Text becomes elements, never HTML, so nothing in an answer can become part of the page. A text that grows is rendered
 * by its last block: what stands above stays as it is, selection included.
 */

import { element, icon } from "./dom.js";
import { isKey, reference } from "./item.js";

const FENCE = /^\s*```\s*([\w+#.-]*)\s*$/;
const ITEM = /^\s*(?:[-*•]|(\d+)[.)])\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.*)$/;
const INLINE = /\[MemoryRef: ([A-Za-z0-9][\w.-]*) - ([^\]\n]*) - (\d+) tokens\]|`([^`\n]+)`|\*\*([^*\n]+(?:\*[^*\n]+)*)\*\*|\[([^\]\n]+)\]\(([^\s()]+(?:\([^\s()]*\))?)\)|(https?:\/\/[^\s<>"'`)\]]*[^\s<>"'`)\].,;:!?])/g;

/** Render a text into an element, keeping the blocks that have not changed. */
export function render(target, text) {
  const blocks = blocksOf(text);
  blocks.forEach((block, place) => {
    const source = JSON.stringify(block);
    const shown = target.children[place];
    if (shown?.source === source) return;
    const made = BLOCKS[block.kind](block);
    made.source = source;
    if (shown) shown.replaceWith(made);
    else target.append(made);
  });
  while (target.children.length > blocks.length) target.lastChild.remove();
}

function blocksOf(text) {
  const blocks = [];
  let open = null; // the block that the next line can belong to
  const begin = (block) => {
    blocks.push(block);
    open = block;
  };
  for (const line of text.split("\n")) {
    const fence = FENCE.exec(line);
    const item = ITEM.exec(line);
    if (open?.kind === "code") {
      if (fence && !fence[1]) open = null;
      else open.lines.push(line);
    } else if (fence) begin({ kind: "code", language: fence[1], lines: [] });
    else if (!line.trim()) open = null;
    else if (HEADING.test(line)) {
      begin({ kind: "heading", text: HEADING.exec(line)[1] });
      open = null;
    } else if (item) {
      const first = item[1] ? Number(item[1]) : null;
      const before = blocks.at(-1);
      // a blank line between two items does not end the list
      if (before?.kind === "list" && (before.first === null) === (first === null)) open = before;
      else begin({ kind: "list", first, items: [] });
      open.items.push(item[2]);
    } else if (open?.kind === "list") open.items.push(`${open.items.pop()} ${line.trim()}`);
    else if (open?.kind === "paragraph") open.lines.push(line);
    else begin({ kind: "paragraph", lines: [line] });
  }
  return blocks;
}

const BLOCKS = {
  heading: ({ text }) => element("p", { class: "heading" }, ...inline(text)),
  paragraph: ({ lines }) => element("p", {}, ...inline(lines.join("\n"))),
  list: ({ first, items }) =>
    element(
      first === null ? "ul" : "ol",
      { start: first },
      ...items.map((item) => element("li", {}, ...inline(item))),
    ),
  code: ({ language, lines }) => {
    const text = lines.join("\n");
    const label = language || "text";
    return element(
      "figure",
      { class: "code" },
      element("figcaption", {}, element("span", {}, label), copyButton(text)),
      element("pre", { tabindex: "0", "aria-label": `Code, ${label}` }, element("code", {}, text)),
    );
  },
};

function copyButton(text) {
  const label = element("span", { "aria-live": "polite" }, "Copy");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      label.textContent = "Copied";
    } catch {
      label.textContent = "Not allowed";
    }
    setTimeout(() => (label.textContent = "Copy"), 2000);
  };
  return element("button", { type: "button", class: "quiet copy", onclick: copy }, icon("copy"), label);
}

function inline(text) {
  const parts = [];
  let place = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, key, description, tokens, code, bold, label, address, bare] = match;
    parts.push(text.slice(place, match.index));
    if (key !== undefined) parts.push(reference(key, description, Number(tokens)));
    else if (isKey(code)) parts.push(reference(code));
    else if (code !== undefined) parts.push(element("code", {}, code));
    else if (bold !== undefined) parts.push(element("strong", {}, ...inline(bold)));
    else parts.push(link(label ?? bare, address ?? bare) ?? whole);
    place = match.index + whole.length;
  }
  parts.push(text.slice(place));
  return parts.filter((part) => part !== "");
}

/** A link to another site, or null if the address is anything else, such as a script. */
function link(label, address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return null;
  }
  if (url.protocol !== "https:" && url.protocol !== "http:") return null;
  return element("a", { href: url.href, rel: "noopener noreferrer", target: "_blank" }, label);
}
