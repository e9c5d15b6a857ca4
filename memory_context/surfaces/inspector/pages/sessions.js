// The list of sessions: searched and filtered by the server; figures of a row are read when it comes into sight.

import { get, id } from "./api.js";
import { brief, h, note, percent, plural, when } from "./dom.js";
import { aboutServer, money, priceFields, pricesQuery } from "./money.js";

const FIGURES = ["calls", "kept", "shown", "cached", "saved", "cost", "if all kept"];
const field = (name, text, props) =>
  h("div", { class: "field" }, h("label", { for: name }, text), h("input", { id: name, name, ...props }));

async function list(main, { query, signal }) {
  document.title = "Sessions · Inspector";
  await aboutServer();
  const rows = h("ul", { class: "rows" });
  const more = h("button", { class: "quiet", hidden: true, onclick: () => load(false) }, "Older sessions");
  const filters = h(
    "form",
    { class: "toolbar", role: "search", onsubmit: (event) => event.preventDefault(), oninput: () => later() },
    field("query", "Search", { type: "search", value: query.get("query") ?? "", placeholder: "Title or id" }),
    field("agent", "Agent", { type: "text", value: query.get("agent") ?? "" }),
    field("since", "Used since", { type: "date" }),
    field("until", "Until", { type: "date" }),
    priceFields(() => load(true)),
  );
  const header = h("p", { class: "figures header", "aria-hidden": "true" }, FIGURES.map((text) => h("span", {}, text)));
  main.append(h("h1", {}, "Sessions"), filters, header, rows, more);

  const watcher = new IntersectionObserver(
    (seen) => seen.filter((one) => one.isIntersecting).forEach(({ target }) => (watcher.unobserve(target), figures(target, signal))),
    { rootMargin: "200px" },
  );
  signal.addEventListener("abort", () => watcher.disconnect());
  let timer, next, asked;
  const later = () => (clearTimeout(timer), (timer = setTimeout(() => load(true), 250)));

  async function load(isNew) {
    const mine = (asked = {});
    const wanted = new URLSearchParams([...new FormData(filters)].filter(([, value]) => value));
    for (const name of ["since", "until"])
      if (wanted.get(name)) wanted.set(name, new Date(`${wanted.get(name)}T${name === "until" ? "23:59:59" : "00:00"}`).toISOString());
    if (!isNew && next) Object.entries(next).forEach(([name, value]) => wanted.set(name, value));
    const found = await get(`sessions?${wanted}`, { signal });
    if (mine !== asked) return;
    next = found.next;
    if (isNew) rows.replaceChildren();
    rows.append(...found.sessions.map(row));
    rows.querySelectorAll("[data-session]").forEach((one) => watcher.observe(one));
    more.hidden = !next;
    if (!rows.children.length)
      rows.append(h("li", {}, note(wanted.size ? "No session meets this." : "No session is archived yet. Run an agent with a MemoryContext and a session id, then reload.")));
  }
  await load(true);
}

function row(one) {
  const title = one.title || one.session_id;
  return h(
    "li",
    { class: "row" },
    h("a", { class: "stretched", href: `#/session/${id(one.session_id)}` }, title),
    h("p", { class: "muted" }, [one.agent_id, when(one.last_activity_at), plural(one.message_count, "message")].join(" · ")),
    h("p", { class: "figures", "data-session": one.session_id }, h("span", { class: "skeleton" }, " ")),
  );
}

async function figures(place, signal) {
  const { agents } = await get(`sessions/${id(place.dataset.session)}${pricesQuery()}`, { signal }).catch(() => ({ agents: [] }));
  const sum = (name) => agents.reduce((total, one) => total + one[name], 0);
  if (!sum("calls")) return place.replaceChildren(h("span", { class: "muted" }, "no model call is recorded"));
  const values = [
    brief(sum("calls")), brief(sum("raw")), brief(sum("shown")), percent(sum("read"), sum("shown")),
    percent(sum("raw_cost") - sum("cost"), sum("raw_cost")), money(sum("cost")), money(sum("raw_cost")),
  ];
  place.replaceChildren(...values.map((value, index) => h("span", {}, h("b", {}, value), h("small", {}, FIGURES[index]))));
}

export const routes = { sessions: list };
