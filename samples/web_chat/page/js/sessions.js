/** The list of conversations beside the messages. */

import { request } from "./api.js";
import { byId, element } from "./dom.js";

/** What the server says of each conversation, by id. */
export const sessions = new Map();
const list = byId("session-list");
let drawn = "";

/** Where the page shows a conversation. */
export const addressOf = (id) => `#/${encodeURIComponent(id)}`;

export async function loadSessions() {
  const page = await (await request("/sessions?limit=200")).json();
  for (const session of page.sessions) sessions.set(session.session_id, session);
}

/** Draw the list, last used first; before them conversations that the server does not know. */
export function drawSessions(current, conversations, onDelete) {
  const unsent = conversations.filter((one) => one.has("queued", "failed"));
  const drafts = conversations.filter(({ id, entries }) => entries.length > 0 && !sessions.has(id));
  const known = [...sessions.values()].sort((one, other) => (one.last_activity_at < other.last_activity_at ? 1 : -1));
  const all = [
    ...drafts.map(({ id, entries }) => ({ id, title: entries[0].message.text })),
    ...known.map(({ session_id: id, title }) => ({ id, title: title || "Untitled" })),
  ].map((one) => ({ ...one, isUnsent: unsent.some(({ id }) => id === one.id), isCurrent: one.id === current }));
  if (drawn === JSON.stringify(all)) return; // whoever is in the list stays where they are
  drawn = JSON.stringify(all);
  const focused = document.activeElement.dataset.key;
  list.replaceChildren(...all.map((session) => itemOf(session, onDelete)));
  if (focused) list.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function itemOf({ id, title, isUnsent, isCurrent }, onDelete) {
  const link = { href: addressOf(id), "data-key": id, "aria-current": isCurrent && "page" };
  const button = { type: "button", class: "round", "data-key": `delete ${id}`, "aria-label": `Delete “${title}”` };
  return element(
    "li",
    { class: "session" },
    element("a", link, title),
    isUnsent && element("span", { class: "unsent" }, "unsent"),
    element("button", { ...button, onclick: () => onDelete(id, title) }, "✕"),
  );
}
