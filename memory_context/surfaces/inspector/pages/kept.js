// What is stored: items, messages, agents' notes, and the work that waits.

import { get, id, send } from "./api.js";
import { forget, tried } from "./ask.js";
import { announce, count, h, note, plural, when } from "./dom.js";
import { keyLink } from "./item.js";

export const nav = [["Items", "items"], ["Messages", "messages"], ["Notes", "notes"], ["Jobs", "jobs"]];

const ORIGINS = ["", "user_words", "user_edit", "application", "agent", "tool", "import", "consolidation"];
const plain = (name) => name.replaceAll("_", " ");
const field = (name, label, { isWide, ...props } = {}) =>
  h("div", { class: isWide ? "field wide" : "field" }, h("label", { for: `by-${name}` }, label), h("input", { id: `by-${name}`, name, type: "text", ...props }));

/** A searched list that goes on: `path` of the API, the form's fields, and how a row looks. */
async function listed(main, { query, signal }, { title, path, name, fields, row, empty }) {
  document.title = `${title} · Inspector`;
  const rows = h("ul", { class: "rows", "aria-label": title });
  const more = h("button", { class: "quiet", hidden: true, onclick: () => load(false) }, "Show more");
  let timer, next, asked;
  const form = h("form", { class: "toolbar", role: "search", onsubmit: (event) => (event.preventDefault(), load(true)),
    oninput: () => (clearTimeout(timer), (timer = setTimeout(() => load(true), 250))) }, ...fields);
  for (const [field, value] of query) if (form.elements[field]) form.elements[field].value = value;
  const told = h("div", { role: "alert" });
  main.append(h("h1", {}, title), form, told, rows, more);
  const load = (isNew) => tried(told, async () => {
    const mine = (asked = {});
    const wanted = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    history.replaceState(null, "", `${location.hash.split("?")[0]}${wanted.size ? `?${wanted}` : ""}`);
    if (!isNew) wanted.set("offset", next);
    const found = await get(`${path}?${wanted}`, { signal });
    if (mine !== asked) return;
    next = found.next;
    if (isNew) rows.replaceChildren();
    rows.append(...found[name].map((one) => row(one, () => load(true), told)));
    more.hidden = next === null;
    if (!rows.children.length) rows.append(h("li", {}, note(wanted.size ? "Nothing meets this." : empty)));
    if (isNew) announce(plural(rows.children.length, "row"));
  });
  await load(true);
}

const items = (main, about) => listed(main, about, {
  title: "Items", path: "items", name: "items", empty: "Nothing is stored yet.",
  fields: [
    field("q", "Search", { type: "search", placeholder: "Words, a question, a line", isWide: true }), field("type", "Type", { placeholder: "action_result" }),
    field("source", "Source", { placeholder: "run_shell" }), field("session", "Session"), field("agent", "Agent"),
    h("div", { class: "field" }, h("label", { for: "by-origin" }, "Origin"), h("select", { id: "by-origin", name: "origin" }, ORIGINS.map((one) => h("option", { value: one }, plain(one) || "Any")))),
  ],
  row: (one, load, told) => h("li", { class: `row item${one.is_relevant === false ? " far" : ""}` },
    h("div", {},
      h("p", { class: "said" }, one.description),
      one.passage && h("pre", { class: "passage", tabindex: "0" }, one.passage),
      h("p", { class: "muted" }, [plain(one.type), one.source, plural(one.tokens, "token"), plain(one.origin), one.is_private && `private to ${one.agent_id}`, when(one.created_at), one.caveat, one.is_relevant === false && "only near"].filter(Boolean).join(" · "),
        one.session_id && [" · ", h("a", { href: `#/session/${id(one.session_id)}` }, one.session_id)])),
    h("div", { class: "actions" },
      keyLink(one.key),
      h("button", { class: "quiet", "aria-label": `Forget ${one.key}`, onclick: () => tried(told, async () => (await forget(one.key)) && load()) }, "Forget…"))),
});

const messages = (main, about) => listed(main, about, {
  title: "Messages", path: "said", name: "messages", empty: "Nothing was said yet, or it is not indexed: memory-context reindex.",
  fields: [field("q", "Search what was said", { type: "search", placeholder: "Words, a question", isWide: true }), field("session", "Session")],
  row: (one) => h("li", { class: "row item" },
    h("div", {}, h("p", { class: "said" }, one.text.slice(0, 400)),
      h("p", { class: "muted" }, `${one.by} · ${when(one.at)} · `, h("a", { href: `#/message/${id(one.session_id)}/${one.message}?agent=${id(one.agent_id)}` }, `message ${one.message}`),
        " of ", h("a", { href: `#/session/${id(one.session_id)}/${id(one.agent_id)}` }, one.session_title || one.session_id)))),
});

async function notes(main, { params: [agent], signal }) {
  document.title = "Notes · Inspector";
  const { agents } = await get("notes", { signal });
  main.append(h("h1", {}, "Notes of agents about you"));
  if (!agents.length && !agent) return main.append(note("No agent has written notes yet."));
  const chosen = agent ?? agents[0].agent_id;
  main.append(h("ul", { class: "tabs" }, agents.map((one) => h("li", {}, h("a", { href: `#/notes/${id(one.agent_id)}`, "aria-current": one.agent_id === chosen ? "true" : null }, one.agent_id)))));
  const place = h("div", { class: "columns notes" });
  main.append(place);
  const told = h("div", { role: "alert" });
  const show = (found) => {
    const text = h("textarea", { id: "notes", rows: "18", spellcheck: "false" }, found.notes);
    const save = (event) => (event.preventDefault(), tried(told, async () => (show(await send("PUT", `notes/${id(chosen)}`, { notes: text.value, version: found.version })), announce("Saved."))));
    const undo = (version) => tried(told, async () => (show(await send("POST", `notes/${id(chosen)}/undo`, { version })), announce("Restored.")));
    place.replaceChildren(
      h("form", { onsubmit: save }, h("label", { for: "notes" }, `Version ${found.version}, Markdown`), text, told,
        h("div", { class: "toolbar" }, h("button", { class: "primary" }, "Save"), h("button", { type: "button", disabled: found.versions.length < 2, onclick: () => undo(null) }, "Undo the last change"))),
      h("aside", { "aria-label": "Versions" }, h("h2", {}, "Versions"), h("ol", { class: "versions" }, found.versions.map((one) => h("li", {},
        h("details", {}, h("summary", {}, `${one.version} · ${plain(one.operation) || "empty"} · ${when(one.written_at)}`), h("pre", { tabindex: "0" }, one.text || "(empty)"),
          one.version !== found.version && h("button", { class: "quiet", onclick: () => undo(one.version) }, `Restore version ${one.version}`)))))));
  };
  show(await get(`notes/${id(chosen)}`, { signal }));
}

async function jobs(main, { signal }) {
  document.title = "Jobs · Inspector";
  const place = h("div", {});
  const told = h("div", { role: "alert" });
  main.append(h("h1", {}, "Work that waits"), h("p", { class: "muted" }, "What is stored is indexed, and learned from, in the background. A job that failed too often is a dead letter: it is tried again only if somebody asks."), told, place);
  const show = async () => {
    const { kinds, failed } = await get("jobs", { signal });
    const retry = () => tried(told, async () => (announce(`${plural((await send("POST", "jobs/retry")).retried, "job")} tried again.`), show()));
    place.replaceChildren(
      kinds.length
        ? h("table", {}, h("caption", { class: "hidden" }, "Jobs by kind"), h("thead", {}, h("tr", {}, ["Kind", "Waiting", "At work", "Failed"].map((text) => h("th", { scope: "col" }, text)))),
          h("tbody", {}, kinds.map((one) => h("tr", {}, h("th", { scope: "row" }, plain(one.kind)), [one.waiting, one.at_work, one.failed].map((value) => h("td", {}, count(value)))))))
        : note("Nothing waits: everything is indexed."),
      failed.length > 0 && h("section", { class: "secrets", "aria-label": "Dead letters" }, h("div", { class: "title-row" }, h("h2", {}, "Dead letters"), h("button", { class: "primary", onclick: retry }, "Try all again")),
        h("ul", { class: "rows" }, failed.map((one) => h("li", { class: "row item" }, h("div", {}, h("p", { class: "said" }, `${plain(one.kind)} · ${plural(one.attempts, "attempt")}`), h("pre", { tabindex: "0" }, one.error)))))),
    );
  };
  await show();
}

export const routes = { items, messages, notes, jobs };
