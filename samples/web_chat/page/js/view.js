/**
 * The messages on the page. Only what is different is drawn, and the page scrolls along with what is being written
 * while the reader is at the bottom; somebody who reads further up is left alone.
 */

import { byId, element } from "./dom.js";
import { reference, STORED } from "./item.js";
import { render } from "./markdown.js";

const BOTTOM_PIXELS = 64;
const REASON = "A browser brought this answer back; the server cannot confirm that the assistant said it.";
const STATES = { queued: "Waiting to be sent", failed: "Not sent", stopped: "Stopped" };

const [scroller, list, toNew] = ["scroller", "messages", "to-new"].map(byId);
let conversation = null;
let items = new Map();
let isFollowing = true;

export function drawMessages(other) {
  if (conversation !== other) isFollowing = true;
  conversation = other;
  const { entries } = conversation;
  byId("empty").hidden = conversation.hasBegun;
  scroller.ariaBusy = conversation.isLoading;

  const fromBottom = scroller.scrollHeight - scroller.scrollTop;
  const known = items;
  items = new Map(entries.map((entry) => [entry, known.get(entry) ?? itemOf(entry)]));
  const drawn = [...items.values()];
  for (const item of [...list.children]) if (!drawn.includes(item)) item.remove();
  drawn.forEach((item, place) => list.children[place] !== item && list.insertBefore(item, list.children[place]));
  for (const [entry, item] of items) fill(item, entry);

  if (isFollowing || entries.length === 0) return follow();
  if (!known.has(entries.at(-1))) toNew.hidden = false;
  else if (!known.has(entries[0])) scroller.scrollTop = scroller.scrollHeight - fromBottom; // older ones came in above
}

/** Go to the end and stay there. */
export function follow() {
  isFollowing = true;
  toNew.hidden = true;
  scroller.scrollTop = byId("empty").hidden ? scroller.scrollHeight : 0;
}

scroller.addEventListener("scroll", () => {
  const { scrollHeight, scrollTop, clientHeight } = scroller;
  isFollowing = scrollHeight - scrollTop - clientHeight < BOTTOM_PIXELS;
  if (isFollowing) toNew.hidden = true;
  if (scrollTop < clientHeight / 2) conversation.loadOlder().catch(() => {}); // scrolling again tries again
});
toNew.addEventListener("click", follow);
new ResizeObserver(() => isFollowing && follow()).observe(scroller); // a keyboard came up, the message box grew

function itemOf({ message: { sender } }) {
  const who = element("h2", { class: "visually-hidden" }, sender === "ai" ? "Assistant" : "You");
  const parts = ["steps", "text", "meta"].map((name) => element("div", { class: name }));
  return element("li", { class: `message ${sender}` }, who, ...parts);
}

function fill(item, entry) {
  const { message, state, steps } = entry;
  const source = JSON.stringify(entry);
  if (item.source === source) return;
  item.source = source;
  item.dataset.state = state;
  const [, stepsPlace, text, meta] = item.children;
  if (message.sender === "user") text.textContent = message.text;
  else render(text, message.text);
  text.classList.toggle("caret", state === "writing");
  drawSteps(stepsPlace, steps, state === "writing" && !message.text);
  meta.replaceChildren(...metaOf(entry));
}

function metaOf(entry) {
  const { message, state, note } = entry;
  const button = (label, onclick) => element("button", { type: "button", class: "quiet", onclick }, label);
  const at = new Date(message.timestamp).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
  return [
    message.unverified && element("details", { class: "unverified" }, element("summary", {}, "Not confirmed"), REASON),
    STATES[state] && element("span", { class: "state" }, note ? `${STATES[state]}: ${note}` : STATES[state]),
    state === "failed" && button("Try again", () => conversation.retry(entry)),
    (state === "failed" || state === "queued") && button("Remove", () => conversation.discard(entry)),
    element("time", { datetime: message.timestamp }, at),
  ].filter(Boolean);
}

/** What the agent did on its way to the answer, in one line that opens. */
function drawSteps(place, steps, isAtWork) {
  if (steps.length === 0) {
    place.textContent = isAtWork ? "Thinking…" : "";
    return;
  }
  if (!place.firstElementChild) place.replaceChildren(element("details", {}, element("summary"), element("ol")));
  const [summary, list] = place.firstElementChild.children;
  const names = new Set(steps.map(({ name }) => name.replaceAll("_", " ")));
  summary.textContent = `${isAtWork ? "Working" : "Steps"}: ${[...names].join(", ")}`;
  for (const step of steps.slice(list.children.length)) {
    const [whole, key, description, tokens] = STORED.exec(step.summary) ?? [];
    const content = whole ? reference(key, description, tokens) : step.summary;
    list.append(element("li", {}, element("code", {}, step.name), " ", content));
  }
}
