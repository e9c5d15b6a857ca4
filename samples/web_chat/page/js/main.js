/** The page: which conversation is shown, what people do, and what they are told. */

import { connection, request } from "./api.js";
import { Conversation, keep, keptSessions } from "./conversation.js";
import { byId } from "./dom.js";
import { addressOf, drawSessions, loadSessions, sessions } from "./sessions.js";
import { drawMessages, follow } from "./view.js";

const LAST = "web-chat/address";
const TYPED = "web-chat/typed/";
const ARCHIVE_MESSAGES = 20;
const ARCHIVE_SECONDS = 120;
const PROBE_SECONDS = 5;
const CONNECTION = { online: "Online", connecting: "Connecting…", offline: "Offline", busy: "Server is busy" };

const [box, form, send] = ["text", "composer", "send"].map(byId);
/** Whatever was shown or has something left to do: an answer goes on while another conversation is looked at. */
const conversations = new Map();
let current = null;
let frame = 0;

function conversationOf(id) {
  if (conversations.has(id)) return conversations.get(id);
  const conversation = new Conversation(id);
  conversations.set(conversation.id, conversation);
  conversation.addEventListener("change", update);
  conversation.addEventListener("answered", ({ detail: text }) => {
    if (conversation === current) byId("announcer").textContent = `Answer: ${text.slice(0, 400)}`;
    archive(ARCHIVE_MESSAGES);
    refreshList();
  });
  return conversation;
}

/** Show a conversation; without an id, a new one. */
function show(id) {
  current = conversationOf(id);
  box.value = localStorage.getItem(TYPED + current.id) ?? "";
  notice("");
  byId("sidebar").hidePopover();
  update();
}

async function refresh() {
  const conversation = current;
  if (!conversation.isKnown) return;
  const isUnsent = conversation.has("queued", "sending", "failed"); // the server may not know it yet
  await conversation.refresh().catch(({ status }) => {
    if (!isUnsent && [404, 410].includes(status)) drop(conversation.id); // the connection tells of other failures
  });
}

/** The conversation is not on the server any more. */
function drop(id) {
  conversations.get(id)?.forget();
  conversations.delete(id);
  sessions.delete(id);
  update();
  if (current.id !== id) return;
  show();
  notice("This conversation is not here any more.");
}

/** Archive the conversations that have so many messages to archive. */
function archive(least) {
  for (const one of conversations.values()) if (one.unarchived.length >= least) one.archive();
}

const refreshList = () => loadSessions().then(update, () => {}); // the connection tells of failures

function say(text) {
  box.focus();
  if (!text.trim()) return;
  localStorage.removeItem(TYPED + current.id);
  box.value = "";
  notice("");
  current.say(text.trim());
  follow();
}

const canStop = () => current.has("sending") && !box.value.trim();

form.addEventListener("submit", (event) => {
  event.preventDefault();
  if (canStop()) current.stop();
  else say(box.value);
});

box.addEventListener("keydown", (event) => {
  const isTouch = matchMedia("(hover: none)").matches; // there Enter is the only way to begin a line
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || isTouch) return;
  event.preventDefault();
  say(box.value);
});

box.addEventListener("input", () => {
  keep(TYPED + current.id, box.value);
  update();
});

addEventListener("keydown", ({ key }) => {
  const isOver = document.querySelector(":modal, :popover-open");
  if (key === "Escape" && current.has("sending") && !isOver) current.stop();
});

byId("empty").addEventListener("click", ({ target }) => say(target.closest("button")?.value ?? ""));

byId("new-chat").addEventListener("click", () => {
  show();
  box.focus();
});

async function erase(id, title) {
  if (!confirm(`Delete “${title}”, and what the agent stored for it? This cannot be undone.`)) return;
  try {
    await request(`/sessions/${encodeURIComponent(id)}`, { method: "DELETE" });
  } catch (error) {
    if (error.status !== 404) return notice(`Not deleted: ${error.message}`);
  }
  drop(id);
  box.focus();
}

/** Draw with the next frame. */
function update() {
  frame ||= requestAnimationFrame(draw);
}

function draw() {
  frame = 0;
  const { id, entries, hasBegun } = current;
  const title = sessions.get(id)?.title ?? entries[0]?.message.text;
  byId("title").textContent = title ?? "New chat";
  document.title = title ? `${title.slice(0, 80)} · Codebase chat` : "Codebase chat";
  byId("inspect").hidden = !sessions.has(id); // the inspector reads what the server has archived
  byId("inspect").href = `inspector/#/session/${encodeURIComponent(id)}`;
  byId("connection").dataset.state = connection.state;
  byId("connection").textContent = CONNECTION[connection.state];
  drawSessions(id, [...conversations.values()], erase);
  drawMessages(current);

  send.disabled = !canStop() && !box.value.trim();
  send.ariaLabel = canStop() ? "Stop answering" : "Send";
  send.textContent = canStop() ? "■" : "↑";
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`; // it grows with its text

  // the address names the conversation, so that a reload, a bookmark and the next visit find it
  const address = hasBegun ? addressOf(id) : "";
  if (location.hash === address) return;
  history.replaceState(null, "", address || location.pathname);
  keep(LAST, address);
}

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

function showAddress(address) {
  show(decodeURIComponent(new URL(address).hash.slice(2)));
  refresh();
}

connection.addEventListener("change", () => {
  update();
  if (connection.state === "online") refreshList().then(refresh);
});
setInterval(() => connection.state !== "online" && refreshList(), PROBE_SECONDS * 1000);
setInterval(() => archive(1), ARCHIVE_SECONDS * 1000);

addEventListener("hashchange", ({ newURL }) => showAddress(newURL)); // a frame may have been drawn since
addEventListener("storage", ({ key }) => key?.startsWith(current.prefix) && refresh()); // another tab has written
addEventListener("pagehide", () => archive(1));
document.addEventListener("visibilitychange", () => {
  if (document.hidden) return archive(1);
  current.resume();
  refresh();
});

for (const id of keptSessions()) conversationOf(id);
archive(1);
if (!location.hash) history.replaceState(null, "", localStorage.getItem(LAST) || location.pathname);
showAddress(location.href);
refreshList();
if (matchMedia("(pointer: fine)").matches) box.focus(); // on a phone that would open the keyboard
