// What is known of the user: statements with the words they rest on, and names of secrets.

import { get, id, send } from "./api.js";
import { ask, forget, tried } from "./ask.js";
import { h, note, plural, when } from "./dom.js";
import * as kept from "./kept.js";

/** Links of the navigation: [text, route]. */
export const nav = [["Memory", "memory"], ...kept.nav];

const day = (iso) => new Intl.DateTimeFormat("en", { dateStyle: "medium" }).format(new Date(iso));
const option = ([value, text]) => h("option", { value }, text);
const STATES = [["", "Holding now"], ["all", "Also replaced"], ["unconfirmed", "To be confirmed"]];
const TYPES = [["", "All"], ["user_preference", "Preferences"], ["user_fact", "Facts"]];
const ORIGINS = { user_words: "the user's words", user_edit: "entered or confirmed", application: "stored by the application",
  agent: "kept by a model", tool: "from a tool", import: "imported", consolidation: "made from other items" };

async function memory(main, { signal }) {
  document.title = "Memory · Inspector";
  const rows = h("ul", { class: "rows statements", "aria-label": "Statements" });
  const secrets = h("section", { class: "secrets", "aria-label": "Secrets" });
  const filters = h("form", { class: "toolbar", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => show() },
    h("div", { class: "field" }, h("label", { for: "words" }, "Search"), h("input", { id: "words", type: "search", name: "words", placeholder: "Words" })),
    h("div", { class: "field" }, h("label", { for: "kind" }, "Kind"), h("select", { id: "kind", name: "kind" }, TYPES.map(option))),
    h("div", { class: "field" }, h("label", { for: "state" }, "State"), h("select", { id: "state", name: "state", onchange: () => load() }, STATES.map(option))),
    h("div", { class: "field" }, h("label", { for: "as-of" }, "As of the end of"), h("input", { id: "as-of", name: "day", type: "date", onchange: () => load() })));
  const told = h("div", { role: "alert" });
  main.append(h("h1", {}, "What is known of you"), adding(load), filters, told, rows, secrets);
  let found = { statements: [], unconfirmed: [] };

  async function load() {
    const { state, day: asOf } = Object.fromEntries(new FormData(filters));
    const wanted = new URLSearchParams({ limit: 2000, ...(state === "all" && { superseded: true }), ...(asOf && { as_of: asOf }) });
    found = await get(`memory?${wanted}`, { signal });
    show();
  }

  function show() {
    const { words, kind, state } = Object.fromEntries(new FormData(filters));
    const meets = (one) => (!kind || one.type === kind) && words.toLowerCase().split(/\s+/).every((word) => `${one.statement} ${one.quote}`.toLowerCase().includes(word));
    const claims = found.unconfirmed.filter(meets).map((one) => ({ ...one, isClaim: true }));
    const shown = [...claims, ...(state === "unconfirmed" ? [] : found.statements.filter(meets))];
    rows.replaceChildren(...shown.map((one) => statement(one, load, told)));
    if (!shown.length) rows.append(h("li", {}, note(found.statements.length + found.unconfirmed.length ? "No statement meets this." : "Nothing is known yet. What you tell an agent to remember, or add here, stands here.")));
  }
  await load();
  await showSecrets(secrets, signal);
}

function adding(load) {
  const told = h("div", { role: "alert" });
  const text = h("input", { id: "statement", maxlength: "300", required: true, placeholder: "The user prefers metric units." });
  const kind = h("select", { id: "statement-kind" }, [["user_fact", "Fact"], ["user_preference", "Preference"]].map(option));
  const add = (event) => (event.preventDefault(), tried(told, async () => {
    await send("POST", "memory", { statement: text.value, type: kind.value });
    text.value = "";
    await load();
  }));
  return h("form", { class: "toolbar add", onsubmit: add },
    h("div", { class: "field wide" }, h("label", { for: "statement" }, "Add a statement, in one line"), text),
    h("div", { class: "field short" }, h("label", { for: "statement-kind" }, "It is a"), kind), h("button", { class: "primary" }, "Add"), told);
}

function statement(one, load, told) {
  const act = (work) => () => tried(told, async () => (await work()) !== false && load());
  const where = one.session_id && h("a", { href: `#/message/${id(one.session_id)}/${one.message}?quote=${id(one.quote)}` }, "Why do you know this?");
  const times = [
    one.type === "user_preference" ? "preference" : "fact",
    `holds since ${day(one.valid_from)}`,
    one.valid_until && `until ${day(one.valid_until)}`,
    `recorded ${when(one.recorded_at)}`,
    ORIGINS[one.origin],
    one.confirmed_by && `by ${one.confirmed_by}`,
  ];
  const row = h("li", { class: `statement${one.superseded_by ? " replaced" : ""}` },
    h("div", {},
      one.isClaim && h("p", { class: "tag" }, "to be confirmed"),
      h("p", { class: "said" }, one.statement),
      one.quote && h("blockquote", {}, `“${one.quote}”`),
      h("p", { class: "muted" }, times.filter(Boolean).join(" · "), where && [" · ", where], one.superseded_by && ` · replaced by ${one.superseded_by}`)),
    h("div", { class: "actions" },
      one.isClaim && h("button", { class: "primary", onclick: act(() => send("POST", `memory/${id(one.key)}/confirm`)) }, "Confirm"),
      !one.superseded_by && h("button", { class: "quiet", onclick: () => row.replaceChildren(editing(one, load)) }, "Edit"),
      h("button", { class: "quiet", onclick: act(() => forget(one.key)) }, "Forget…")));
  row.querySelectorAll("button").forEach((button) => button.setAttribute("aria-describedby", `s-${one.key}`));
  row.querySelector(".said").id = `s-${one.key}`;
  return row;
}

function editing(one, load) {
  const told = h("div", { role: "alert" });
  const text = h("textarea", { id: `edit-${one.key}`, maxlength: "300", rows: "2", autofocus: true }, one.statement);
  const save = (event) => (event.preventDefault(), tried(told, async () => {
    await send("PUT", `memory/${id(one.key)}`, { statement: text.value });
    await load();
  }));
  queueMicrotask(() => text.focus());
  return h("form", { class: "edit", onsubmit: save }, h("label", { for: text.id }, "The statement as it holds from now on; the older one stays, linked"), text, told,
    h("div", { class: "toolbar" }, h("button", { class: "primary" }, "Save"), h("button", { type: "button", onclick: () => load() }, "Cancel")));
}

async function showSecrets(place, signal) {
  const { secrets } = await get("secrets", { signal });
  const row = (one) => h("li", { class: "row" }, h("b", { class: "mono" }, one.name),
    h("p", { class: "muted" }, one.has_value ? `set ${when(one.updated_at)}` : "no value: it came with an import"),
    h("div", { class: "actions" }, h("button", { class: "quiet", onclick: async () => {
      const gone = await ask(`Delete ${one.name}?`, "Delete", () => send("DELETE", `secrets/${id(one.name)}`), h("p", {}, "Its value goes. Texts keep the name; tools that use it stop working."));
      if (gone) await showSecrets(place, signal);
    } }, "Delete…")));
  place.replaceChildren(h("h2", {}, "Secrets ", h("small", {}, plural(secrets.length, "name"))),
    secrets.length ? h("ul", { class: "rows" }, secrets.map(row)) : note("No secret is kept. Values are never shown here: memory-context secrets --set NAME."));
}

/** The message that a statement rests on, with those around it, and the call that read it first. */
async function message(main, { params: [session, number], query, signal }) {
  document.title = `Message ${number} · Inspector`;
  const told = await get(`sessions/${id(session)}/said?message=${id(number)}${query.get("agent") ? `&agent=${id(query.get("agent"))}` : ""}`, { signal });
  const place = `#/session/${id(session)}/${id(told.agent_id)}`;
  const quote = query.get("quote") ?? "";
  const text = (one) => {
    const at = quote && one.message === Number(number) ? one.text.indexOf(quote) : -1;
    return at < 0 ? one.text : [one.text.slice(0, at), h("mark", {}, quote), one.text.slice(at + quote.length)];
  };
  main.append(
    h("p", { class: "crumbs" }, h("a", { href: "#/sessions" }, "Sessions"), " / ", h("a", { href: place }, told.messages[0].session_title || session)),
    h("h1", {}, `Message ${number}`),
    h("p", { class: "muted" }, told.call ? ["The model read it first in ", h("a", { href: `${place}?call=${told.call}` }, `call ${told.call}`), "."] : "No recorded call read it."),
    h("ol", { class: "messages around" }, told.messages.map((one) => h("li", { class: `message${one.message === Number(number) ? " wanted" : ""}`, "aria-current": one.message === Number(number) ? "true" : null },
      h("p", { class: "role" }, `${one.by} · message ${one.message}`, h("span", {}, when(one.at))), h("p", { class: "words" }, text(one))))));
}

export const routes = { memory, message: Object.assign(message, { nav: "messages" }), ...kept.routes };
