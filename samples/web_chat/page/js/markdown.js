/**
 * The little Markdown that answers use: paragraphs, headings, lists, code, bold, links.
 *
 * Text becomes elements, never HTML, so nothing in an answer can become part of the page.
 */

import { element } from "./dom.js";
import { reference, STORED } from "./item.js";

const FENCE = /^\s*```\s*([\w+#.-]*)\s*$/;
const ITEM = /^\s*(?:[-*•]|(\d+)[.)])\s+(.*)$/;
const HEADING = /^#{1,6}\s+(.*)$/;
const CODE = /`([^`\n]+)`/;
const BOLD = /\*\*([^*\n]+(?:\*[^*\n]+)*)\*\*/;
const LINK = /\[([^\]\n]+)\]\((https?:\/\/[^\s()]+(?:\([^\s()]*\))?)\)/;
const ADDRESS = /(https?:\/\/[^\s<>"'`)\]]*[^\s<>"'`)\].,;:!?])/;
const INLINE = new RegExp([STORED, CODE, BOLD, LINK, ADDRESS].map(({ source }) => source).join("|"), "g");
const KEY = /^[A-Za-z][\w.-]*_(?=[a-z]*\d)[a-z0-9]{6}$/; // of something stored: a name and six signs with a digit

/** Render a text that may still grow into an element; blocks that have not changed stay, selection included. */
export function render(target, text) {
  const blocks = blocksOf(text);
  blocks.forEach((block, place) => {
    const source = JSON.stringify(block);
    const shown = target.children[place];
    if (shown?.source === source) return;
    const made = Object.assign(blockOf(block), { source });
    if (shown) shown.replaceWith(made);
    else target.append(made);
  });
  while (target.children.length > blocks.length) target.lastChild.remove();
}

/** Blocks {tag, lines}; after a blank line, only a list can go on. */
function blocksOf(text) {
  const blocks = [];
  let open = null; // the block that the next line belongs to, unless it begins another one
  for (const line of text.split("\n")) {
    const [fence, item, heading] = [FENCE, ITEM, HEADING].map((kind) => kind.exec(line));
    const tag = item && (item[1] ? "ol" : "ul");
    if (open?.tag === "figure" && !fence) open.lines.push(line);
    else if (open?.tag === "figure" || !line.trim()) open = null;
    else if (fence) blocks.push((open = { tag: "figure", name: fence[1] || "text", lines: [] }));
    else if (heading) blocks.push({ tag: "h3", lines: [heading[1]] });
    else if (item && blocks.at(-1)?.tag === tag) (open = blocks.at(-1)).lines.push(item[2]);
    else if (item) blocks.push((open = { tag, name: item[1], lines: [item[2]] }));
    else if (open) open.lines.push(...(open.tag === "p" ? [line] : [`${open.lines.pop()} ${line.trim()}`]));
    else blocks.push((open = { tag: "p", lines: [line] }));
  }
  return blocks;
}

function blockOf({ tag, name, lines }) {
  if (tag === "figure") {
    const code = element("code", {}, lines.join("\n"));
    const head = element("figcaption", {}, name, copyButton(code));
    return element(tag, {}, head, element("pre", { tabindex: "0", "aria-label": `Code, ${name}` }, code));
  }
  if (tag === "p" || tag === "h3") return element(tag, {}, ...inline(lines.join("\n")));
  return element(tag, { start: name ?? null }, ...lines.map((line) => element("li", {}, ...inline(line))));
}

function inline(text) {
  const parts = [];
  let place = 0;
  for (const match of text.matchAll(INLINE)) {
    const [whole, key, description, tokens, code, bold, label, address, bare = address] = match;
    parts.push(text.slice(place, match.index));
    if (key) parts.push(reference(key, description, tokens));
    else if (code) parts.push(KEY.test(code) ? reference(code) : element("code", {}, code));
    else if (bold) parts.push(element("strong", {}, ...inline(bold)));
    else parts.push(element("a", { href: bare, rel: "noopener noreferrer", target: "_blank" }, label ?? bare));
    place = match.index + whole.length;
  }
  return [...parts, text.slice(place)];
}

/** The clipboard API is missing from pages over plain http; the selection can be copied everywhere. */
function copyButton(code) {
  const button = element("button", { type: "button", class: "quiet", "aria-live": "polite" }, "Copy");
  button.onclick = () => {
    getSelection().selectAllChildren(code);
    button.textContent = document.execCommand("copy") ? "Copied" : "Not allowed";
  };
  return button;
}
