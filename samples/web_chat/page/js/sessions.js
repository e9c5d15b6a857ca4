/** The list of conversations beside the messages. */

import { element, icon } from "./dom.js";

const UPDATE_MILLISECONDS = 300;
const DAY = 24 * 60 * 60 * 1000;

export class SessionsView extends EventTarget {
  #api;
  #pending;
  #sessions = new Map();
  #next = null;
  #current = null;
  #drawn = "";
  #soon = 0;
  #place = document.getElementById("session-list");
  #more = document.getElementById("more-sessions");

  /** Fires "delete" with the session in `detail` when one is to be deleted. */
  constructor(api, pending) {
    super();
    this.#api = api;
    this.#pending = pending;
    this.#more.addEventListener("click", () => this.#loadMore());
  }

  /** Look for what is new; when the server is away the list stays as it is. */
  async refresh() {
    const page = await this.#api.sessions();
    if (this.#sessions.size === 0) this.#next = page.next;
    this.#add(page.sessions);
  }

  /** Show soon what became of messages that were not sent. */
  update() {
    this.#soon ||= setTimeout(() => {
      this.#soon = 0;
      this.#draw();
    }, UPDATE_MILLISECONDS);
  }

  /** Mark the conversation that is shown. */
  select(name) {
    this.#current = name;
    this.#draw();
  }

  remove(name) {
    this.#sessions.delete(name);
    this.#draw();
  }

  titleOf(name) {
    return this.#sessions.get(name)?.title || null;
  }

  async #loadMore() {
    const page = await this.#api.sessions({ before: this.#next });
    this.#next = page.next;
    this.#add(page.sessions);
  }

  #add(sessions) {
    for (const session of sessions) this.#sessions.set(session.session_id, session);
    this.#draw();
    this.dispatchEvent(new Event("change"));
  }

  #draw() {
    const unsent = this.#pending.conversations().filter((name) => this.#hasUnsent(name));
    const drafts = unsent
      .filter((name) => !this.#sessions.has(name))
      .map((name) => ({ session_id: name, title: this.#pending.of(name)[0].message.text, last_activity_at: new Date() }));
    const all = [...drafts, ...this.#sessions.values()].sort(
      (one, other) => new Date(other.last_activity_at) - new Date(one.last_activity_at),
    );
    const drawn = JSON.stringify([this.#current, unsent, all.map((one) => [one.session_id, one.title, ageOf(one)])]);
    this.#more.hidden = this.#next === null;
    if (drawn === this.#drawn) return; // whoever is in the list stays where they are
    this.#drawn = drawn;
    const groups = groupedBy(all, ageOf);
    const focused = document.activeElement?.dataset.key;
    this.#place.replaceChildren(
      ...[...groups].map(([age, sessions]) =>
        element(
          "section",
          {},
          element("h3", {}, age),
          element("ul", {}, ...sessions.map((session) => this.#item(session, unsent.includes(session.session_id)))),
        ),
      ),
    );
    if (focused) this.#place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
  }

  #item(session, isUnsent) {
    const { session_id: name } = session;
    const title = session.title || "Untitled";
    const remove = () => this.dispatchEvent(new CustomEvent("delete", { detail: { ...session, title } }));
    return element(
      "li",
      { class: "session" },
      element(
        "a",
        { href: addressOf(name), "data-key": name, "aria-current": name === this.#current && "page" },
        element("span", { class: "title" }, title),
        isUnsent && element("span", { class: "unsent" }, "unsent"),
      ),
      element(
        "button",
        {
          type: "button",
          class: "icon-button delete",
          "data-key": `delete ${name}`,
          "aria-label": `Delete “${title}”`,
          onclick: remove,
        },
        icon("delete"),
      ),
    );
  }

  #hasUnsent(name) {
    return this.#pending.of(name).some(({ state }) => state === "queued" || state === "failed");
  }
}

/** Where the page shows a conversation. */
export function addressOf(name) {
  return `#/${encodeURIComponent(name)}`;
}

function ageOf({ last_activity_at: at }) {
  const today = new Date().setHours(0, 0, 0, 0);
  const time = new Date(at).getTime();
  if (time >= today) return "Today";
  if (time >= today - DAY) return "Yesterday";
  return time >= today - 7 * DAY ? "Previous 7 days" : "Earlier";
}

function groupedBy(values, keyOf) {
  const groups = new Map();
  for (const value of values) groups.set(keyOf(value), [...(groups.get(keyOf(value)) ?? []), value]);
  return groups;
}
