// A dialog with one stored item, whole and exact, or with the messages that a fold stands for; both load as one scrolls.

import { get, id } from "./api.js";
import { count, h, note, plural, when } from "./dom.js";

const CUTS = { "Whole": {}, "Summary": { transform: "summary" }, "First 50 lines": { transform: "first_n" }, "Last 50 lines": { transform: "last_n" } };

/** Open a dialog; it removes itself when it closes. */
export function dialog(title, ...children) {
  const box = h("dialog", { "aria-label": title, onclose: () => box.remove(), onclick: (event) => event.target === box && box.close() },
    h("div", { class: "title-row" }, h("h2", {}, title), h("button", { class: "quiet", onclick: () => box.close() }, "Close")), ...children);
  document.body.append(box);
  box.showModal();
  return box;
}

/** Fill `place` piece by piece: `load(start)` returns [element, next start], the latter null at the end. */
function lazily(place, load) {
  let [start, isBusy] = [0, false];
  const end = h("div", { class: "sentinel" }, "…");
  const watcher = new IntersectionObserver(async ([seen]) => {
    if (!seen.isIntersecting || isBusy) return;
    isBusy = true;
    try {
      let piece;
      [piece, start] = await load(start);
      end.before(piece);
    } catch (error) {
      [start] = [null, end.before(note(error.message, "error"))];
    }
    isBusy = false;
    watcher.disconnect();
    if (start === null) end.remove();
    else watcher.observe(end);
  }, { root: place, rootMargin: "400px" });
  place.replaceChildren(end);
  watcher.observe(end);
}

/** A button that opens an item. */
export const keyLink = (key) => h("button", { class: "key-link", onclick: () => openItem(key) }, key);

export async function openItem(key) {
  const content = h("div", { class: "content", tabindex: "0", "aria-label": "Content" });
  const about = h("div", { class: "about" }, h("p", { class: "skeleton" }, " "));
  const path = `items/${id(key)}`;
  const search = h("input", { type: "search", id: "item-search", placeholder: "Pattern (RE2)" });
  const shown = h("select", { id: "item-cut" }, Object.keys(CUTS).map((name) => h("option", {}, name)));
  const find = (event) => {
    event?.preventDefault();
    const cut = search.value ? { transform: "filtered", pattern: search.value, max_matches: 200 } : CUTS[shown.value];
    lazily(content, async (offset) => {
      const { data, text, next } = await get(`${path}/content?${new URLSearchParams({ ...cut, offset })}`);
      if (data) return [h("img", { src: `data:${item.content_type};base64,${data}`, alt: item.description }), null];
      return [h("pre", {}, text), next];
    });
  };
  const box = dialog(key, about,
    h("form", { class: "toolbar", onsubmit: find },
      h("div", { class: "field" }, h("label", { for: "item-search" }, "Search in it"), search),
      h("div", { class: "field" }, h("label", { for: "item-cut" }, "Show"), shown), h("button", { class: "primary" }, "Search")),
    content);
  shown.addEventListener("change", () => ((search.value = ""), find()));
  let item;
  try {
    item = await get(path);
  } catch (error) {
    about.replaceChildren(note(error.message, "error"));
    return;
  }
  about.replaceChildren(
    h("p", {}, item.description),
    h("p", { class: "muted" }, [plural(item.tokens, "token"), `${count(item.content_bytes)} bytes`, item.type.replaceAll("_", " "), item.source, `origin: ${item.origin}`, when(item.created_at), item.caveat].filter(Boolean).join(" · ")),
    h("details", {}, h("summary", {}, `History and references (${item.events.length + item.sessions.length + item.related.length + item.other_keys.length})`),
      h("ul", { class: "plain" },
        item.events.map((one) => h("li", {}, h("b", {}, one.kind), ` ${when(one.at)} ${one.agent_id} `, h("span", { class: "muted" }, one.detail))),
        item.sessions.map((one) => h("li", {}, "referred to by ", h("a", { href: `#/session/${id(one.session_id)}/${id(one.agent_id)}`, onclick: () => box.close() }, one.title || one.session_id))),
        item.related.map((one) => h("li", {}, "linked with ", keyLink(one.key), ` ${one.description}`)),
        item.other_keys.map((one) => h("li", {}, "same content as ", keyLink(one))))),
  );
  find();
}

export function openMessages(path, agent, first, last) {
  const content = h("div", { class: "content", tabindex: "0", "aria-label": "Messages" });
  dialog(`Messages ${first}–${last}`, content);
  lazily(content, async (start) => {
    const limit = Math.min(50, last - first - start + 1);
    const { messages } = await get(`${path}/messages?agent=${id(agent)}&first=${first + start}&limit=${limit}`);
    const next = start + messages.length;
    return [h("div", {}, messages.map((one) => h("pre", {}, one.text))), messages.length && first + next <= last ? next : null];
  });
}
