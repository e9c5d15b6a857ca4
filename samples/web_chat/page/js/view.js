/**
 * The messages on the page. It draws what the store says once per frame and changes only what is different.
 *
 * It scrolls along with what is being written as long as the reader is at the bottom, and leaves somebody who reads
 * further up alone.
 */

import { element, icon } from "./dom.js";
import { reference, titleOf } from "./item.js";
import { render } from "./markdown.js";

const STORED = /\[MemoryRef: (\S+) - (.*) - (\d+) tokens\]/;
const AT_BOTTOM_PIXELS = 64;
const UNVERIFIED = "A browser brought this answer back; the server cannot confirm that the assistant said it.";
const WHO = { user: "You", ai: "Assistant" };
const STATES = {
  queued: "Waiting to be sent",
  sending: "",
  sent: "",
  writing: "",
  failed: "Not sent",
  stopped: "Stopped",
};

export class MessagesView {
  #store = null;
  #shown = new Map();
  #isFollowing = true;
  #frame = 0;
  #newest = null;
  #scroller = document.getElementById("scroller");
  #list = document.getElementById("messages");
  #empty = document.getElementById("empty");
  #older = document.getElementById("older");
  #loading = document.getElementById("loading");
  #toNew = document.getElementById("to-new");

  constructor() {
    this.#scroller.addEventListener("scroll", () => this.#scrolled(), { passive: true });
    this.#toNew.addEventListener("click", () => this.follow());
    new ResizeObserver(() => this.#settle()).observe(this.#scroller); // a keyboard came up, the message box grew
    new IntersectionObserver(
      ([{ isIntersecting }]) => isIntersecting && this.#store?.hasOlder && this.#loadOlder(),
      { root: this.#scroller, rootMargin: "200px 0px 0px" },
    ).observe(this.#older);
  }

  /** Show another conversation. */
  show(store) {
    this.#store = store;
    this.#shown.clear();
    this.#list.replaceChildren();
    this.#newest = null;
    this.#isFollowing = true;
    this.draw();
  }

  /** Draw with the next frame. */
  update() {
    this.#frame ||= requestAnimationFrame(() => this.draw());
  }

  /** Go to the end and stay there. */
  follow() {
    this.#isFollowing = true;
    this.#settle();
  }

  draw() {
    cancelAnimationFrame(this.#frame);
    this.#frame = 0;
    const { entries, isLoading, hasOlder } = this.#store;
    this.#empty.hidden = entries.length > 0 || isLoading || this.#store.hasBegun;
    this.#loading.hidden = !isLoading || entries.length > 0;
    this.#older.hidden = !hasOlder;
    this.#scroller.setAttribute("aria-busy", String(isLoading));

    const keys = new Set(entries.map(({ key }) => key));
    for (const [key, { item }] of this.#shown) {
      if (keys.has(key)) continue;
      item.remove();
      this.#shown.delete(key);
    }
    entries.forEach((entry, place) => {
      const shown = this.#shown.get(entry.key) ?? this.#add(entry);
      if (this.#list.children[place] !== shown.item) this.#list.insertBefore(shown.item, this.#list.children[place] ?? null);
      if (shown.revision !== entry.revision || shown.message !== entry.message) this.#fill(shown, entry);
    });

    const newest = entries.at(-1);
    const isNew = newest && newest.key !== this.#newest;
    this.#newest = newest?.key ?? null;
    if (!this.#isFollowing && isNew && newest.message.sender === "ai") this.#toNew.hidden = false;
    this.#settle();
  }

  #add(entry) {
    const { sender } = entry.message;
    const item = element("li", { class: `message ${sender}` });
    const shown = {
      item,
      steps: element("div", { class: "steps-place" }),
      text: element("div", { class: sender === "ai" ? "text prose" : "text" }),
      meta: element("div", { class: "meta" }),
    };
    item.append(element("h2", { class: "visually-hidden" }, WHO[sender]), shown.steps, shown.text, shown.meta);
    this.#shown.set(entry.key, shown);
    return shown;
  }

  #fill(shown, entry) {
    const { message, state, note, steps } = entry;
    shown.revision = entry.revision;
    shown.message = message;
    shown.item.dataset.state = state;
    shown.item.dataset.id = message.id;
    if (message.sender === "user") shown.text.textContent = message.text;
    else render(shown.text, message.text);
    shown.text.classList.toggle("caret", state === "writing");
    drawSteps(shown.steps, steps, state === "writing" && !message.text);
    this.#fillMeta(shown.meta, message, state, note);
  }

  #fillMeta(meta, { id, timestamp, unverified }, state, note) {
    const at = new Date(timestamp);
    const told = note && state !== "failed" ? `${STATES[state]}: ${note}` : note || STATES[state];
    const again = () => this.#store.retry(id);
    const discard = () => this.#store.discard(id);
    meta.replaceChildren(
      ...[
        unverified && unconfirmed(),
        told && element("span", { class: "state" }, state === "queued" && icon("clock"), told),
        state === "failed" && element("button", { type: "button", class: "quiet", onclick: again }, "Try again"),
        (state === "failed" || state === "queued") &&
          element("button", { type: "button", class: "quiet", onclick: discard }, "Remove"),
        state !== "writing" && element("time", { datetime: timestamp, title: at.toLocaleString() }, clock(at)),
      ].filter(Boolean),
    );
  }

  #scrolled() {
    const { scrollHeight, scrollTop, clientHeight } = this.#scroller;
    this.#isFollowing = scrollHeight - scrollTop - clientHeight < AT_BOTTOM_PIXELS;
    if (this.#isFollowing) this.#toNew.hidden = true;
  }

  #settle() {
    if (!this.#isFollowing || !this.#empty.hidden) return;
    this.#toNew.hidden = true;
    this.#scroller.scrollTop = this.#scroller.scrollHeight;
  }

  /** Older messages come in above; what is being read stays where it is. */
  async #loadOlder() {
    if (this.#store.isLoading) return;
    const store = this.#store;
    const fromBottom = () => this.#scroller.scrollHeight - this.#scroller.scrollTop;
    try {
      const loading = store.loadOlder();
      const place = fromBottom();
      await loading;
      if (store !== this.#store) return;
      this.draw();
      if (!this.#isFollowing) this.#scroller.scrollTop = this.#scroller.scrollHeight - place;
    } catch {
      // the connection shows it; scrolling up again tries again
    }
  }
}

/** The mark of an answer that only a browser knows of; it opens, so that it explains itself on a touch screen too. */
function unconfirmed() {
  const ontoggle = ({ target }) => target.scrollIntoView({ block: "nearest" });
  return element("details", { class: "unverified", ontoggle }, element("summary", {}, icon("warning"), "Not confirmed"), UNVERIFIED);
}

/** What the agent did on its way to the answer, in one line that opens. */
function drawSteps(place, steps, isAtWork) {
  if (steps.length === 0) {
    place.replaceChildren(...(isAtWork ? [element("p", { class: "thinking" }, "Thinking")] : []));
    return;
  }
  const known = place.querySelector("details");
  const details = known ?? element("details", { class: "steps" }, element("summary"), element("ol"));
  if (!known) place.replaceChildren(details);
  const [summary, list] = details.children;
  const line = isAtWork ? inOneLine(steps.at(-1)) : altogether(steps);
  summary.replaceChildren(icon("steps"), element("span", { class: "summary-text" }, line));
  summary.classList.toggle("at-work", isAtWork);
  for (const step of steps.slice(list.children.length)) {
    list.append(element("li", { class: step.kind }, element("code", {}, step.name), " ", ...contentOf(step)));
  }
}

/** What it works on and the tool in words, such as "pool.py · read file"; of a small result, what it says. */
function inOneLine({ kind, name, summary }) {
  const words = inWords(name);
  const stored = kind === "result" && STORED.exec(summary);
  if (stored) return `${titleOf(stored[2])} · ${words} · ${Number(stored[3]).toLocaleString("en")} tokens, stored`;
  const given = kind === "call" ? argumentsOf(summary) : null;
  if (given === null) return `${words} · ${summary}`;
  const first = Object.values(given).find((value) => typeof value === "string");
  return first ? `${titleOf(first)} · ${words}` : words;
}

function inWords(name) {
  return name.replaceAll("_", " ");
}

function altogether(steps) {
  const results = steps.filter(({ kind }) => kind === "result");
  if (results.length === 1) return inOneLine(results[0].summary.includes("[MemoryRef: ") ? results[0] : steps[0]);
  const names = [...new Set(steps.map(({ name }) => inWords(name)))];
  return `${results.length || steps.length} steps: ${names.join(", ")}`;
}

/** The same, with a large result as a chip that opens it. */
function contentOf(step) {
  const stored = step.kind === "result" && STORED.exec(step.summary);
  return stored ? [reference(stored[1], stored[2], Number(stored[3]))] : [textOf(step)];
}

/** A call by its arguments, a result by what it says. */
function textOf({ kind, summary }) {
  const given = kind === "call" ? argumentsOf(summary) : null;
  if (given === null) return summary;
  const told = ([name, value]) => `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`;
  return Object.entries(given).map(told).join(", ");
}

function argumentsOf(summary) {
  try {
    return JSON.parse(summary);
  } catch {
    return null; // cut short
  }
}

function clock(date) {
  const isToday = date.toDateString() === new Date().toDateString();
  const format = isToday ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" };
  return new Intl.DateTimeFormat(undefined, format).format(date);
}
