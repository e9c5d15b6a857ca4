/**
 * The page: puts store, server and views together, and decides which conversation is shown.
 *
 * It waits for nothing before it listens: what takes time (disk, server) comes in later, and what can be pressed or
 * written in is disabled in index.html until then.
 */

import { Api, Connection } from "./api.js";
import { sessionIdOf } from "./drafts.js";
import { Pending } from "./pending.js";
import { addressOf, SessionsView } from "./sessions.js";
import { ChatStore } from "./store.js";
import { MessagesView } from "./view.js";

const LAST_KEY = "web-chat/last";
const TYPED_KEY = "web-chat/typed/";
const ANNOUNCED_CHARACTERS = 400;
const CONNECTION = {
  online: "Online",
  connecting: "Connecting…",
  offline: "Offline",
  busy: "Server is busy",
};

const byId = (id) => document.getElementById(id);
const [app, box, form, send, stop] = ["app", "text", "composer", "send", "stop"].map(byId);

const connection = new Connection();
const api = new Api(connection);
const pending = new Pending();
const settings = fetch("settings.json").then((answer) => (answer.ok ? answer.json() : {})).catch(() => ({}));
const messages = new MessagesView();
const sessions = new SessionsView(api, pending);
const deletions = new BroadcastChannel("web-chat/deletions");
/** Conversations that are shown, or not finished yet. */
const stores = new Set();
let current = null;

// --- conversations --------------------------------------------------------------------------------------------------

function storeOf(name) {
  const known = [...stores].find((store) => store.name === name);
  if (known) return known;
  const store = new ChatStore(api, pending, name, settings);
  stores.add(store);
  store.addEventListener("change", () => changed(store));
  store.addEventListener("named", () => named(store));
  store.addEventListener("answered", ({ detail }) => answered(store, detail));
  return store;
}

async function show(name) {
  if (current?.name === name) return;
  const before = current;
  current = storeOf(name);
  remember();
  closeIfFinished(before);
  box.value = localStorage.getItem(TYPED_KEY + current.name) ?? "";
  grow();
  messages.show(current);
  sessions.select(current.name);
  closeSidebar();
  notice("");
  drawTitle();
  drawButtons();
  const store = current;
  try {
    await store.open();
  } catch (error) {
    if (error.name === "AbortError") return;
    if (store !== current) return;
    if (error.isGone) gone(store, "This conversation is not here any more.");
    else notice(`The conversation could not be loaded: ${error.message}`);
  }
}

function changed(store) {
  if (store === current) {
    messages.update();
    drawTitle();
    drawButtons();
    sessions.update();
  } else closeIfFinished(store);
}

function named(store) {
  refreshSessions();
  if (store !== current) return;
  remember();
  sessions.select(store.name);
}

function answered(store, message) {
  if (store === current) announce(`Answer: ${message.text.slice(0, ANNOUNCED_CHARACTERS)}`);
  refreshSessions();
}

/** An answer goes on being written when another conversation is looked at. */
function closeIfFinished(store) {
  if (!store || store === current || store.isAtWork) return;
  stores.delete(store);
  store.close();
}

/** The address names the conversation, so that a reload, a bookmark or the next visit finds it. */
function remember() {
  const { name, entries } = current;
  const address = current.hasBegun || entries.length ? addressOf(name) : "";
  if (location.hash !== address) history.replaceState(null, "", address || location.pathname);
  localStorage.setItem(LAST_KEY, current.hasBegun || entries.length ? name : "");
}

function gone(store, told) {
  sessions.remove(store.name);
  if (store !== current) return;
  show(null);
  notice(told);
}

async function refreshSessions() {
  try {
    await sessions.refresh();
    drawTitle();
  } catch {
    // the connection shows it, and tells when it is back
  }
}

// --- what people do -------------------------------------------------------------------------------------------------

function say(text) {
  if (!text.trim()) return;
  const typed = TYPED_KEY + current.name;
  current.say(text.trim());
  localStorage.removeItem(typed);
  box.value = "";
  grow();
  remember();
  notice("");
  messages.follow();
  drawButtons();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  say(box.value);
  box.focus();
});

box.addEventListener("keydown", (event) => {
  const isTouch = matchMedia("(hover: none)").matches; // there Enter is the only way to begin a line
  if (event.key !== "Enter" || event.shiftKey || event.isComposing || isTouch) return;
  event.preventDefault();
  say(box.value);
});

box.addEventListener("input", () => {
  grow();
  drawButtons();
  try {
    localStorage.setItem(TYPED_KEY + current.name, box.value);
  } catch {
    // full: what is typed is kept on the page only
  }
});

stop.addEventListener("click", () => {
  current.stop();
  box.focus();
});

addEventListener("keydown", ({ key }) => {
  if (key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (app.classList.contains("with-sidebar")) closeSidebar();
  else if (current.isBusy) current.stop();
});

for (const starter of document.querySelectorAll(".starter")) {
  starter.addEventListener("click", () => {
    say(starter.dataset.prompt);
    box.focus();
  });
}

byId("new-chat").addEventListener("click", () => {
  show(null);
  box.focus();
});

sessions.addEventListener("change", () => drawTitle());
const dialog = byId("confirm");
let asked = null; // the conversation that the dialog is about

sessions.addEventListener("delete", ({ detail: session }) => {
  asked = session;
  byId("confirm-title").textContent = `Delete “${session.title}”?`;
  dialog.returnValue = "";
  dialog.showModal();
});

dialog.addEventListener("close", async () => {
  if (document.activeElement === document.body) box.focus(); // the button was drawn anew meanwhile
  if (dialog.returnValue !== "delete") return;
  const name = asked.session_id;
  try {
    await api.deleteSession(sessionIdOf(name));
  } catch (error) {
    if (!error.isGone) return notice(`Not deleted: ${error.message}`);
  }
  deletions.postMessage(name);
  deleted(name);
});

deletions.onmessage = ({ data }) => deleted(data);

function deleted(name) {
  const store = [...stores].find((open) => open.name === name);
  pending.forget(name);
  sessions.remove(name);
  if (!store) return;
  if (store === current) gone(store, "The conversation was deleted.");
  if (store !== current && stores.delete(store)) store.close();
}

// --- the sidebar on small screens -------------------------------------------------------------------------------------

const [menu, sidebar, scrim] = ["menu", "sidebar", "scrim"].map(byId);
const narrow = matchMedia("(max-width: 52rem)");

function openSidebar() {
  app.classList.add("with-sidebar");
  drawSidebar();
  byId("new-chat").focus();
}

function closeSidebar() {
  if (!app.classList.contains("with-sidebar")) return;
  app.classList.remove("with-sidebar");
  drawSidebar();
  menu.focus();
}

/** What is out of sight is out of reach of keyboard and screen reader too. */
function drawSidebar() {
  const isOpen = app.classList.contains("with-sidebar");
  sidebar.inert = narrow.matches && !isOpen;
  byId("main").inert = narrow.matches && isOpen;
  menu.setAttribute("aria-expanded", String(isOpen));
}

menu.addEventListener("click", openSidebar);
scrim.addEventListener("click", closeSidebar);
byId("close-sidebar").addEventListener("click", closeSidebar);
narrow.addEventListener("change", drawSidebar);
drawSidebar();

// --- what people see --------------------------------------------------------------------------------------------------

function drawTitle() {
  const said = current.entries.find(({ message }) => message.sender === "user")?.message.text;
  const title = sessions.titleOf(current.name) ?? said;
  byId("title").textContent = title ?? (current.hasBegun ? "" : "New chat");
  document.title = title ? `${title.slice(0, 80)} · Codebase chat` : "Codebase chat";
}

function drawButtons() {
  const canStop = current.isBusy && !box.value.trim();
  const hadFocus = document.activeElement === (canStop ? send : stop);
  stop.hidden = !canStop;
  send.hidden = canStop;
  send.disabled = !box.value.trim();
  if (hadFocus) box.focus();
}

function drawConnection() {
  byId("connection").dataset.state = connection.state;
  byId("connection-text").textContent = CONNECTION[connection.state];
}

function announce(text) {
  byId("announcer").textContent = text;
}

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

/** The box grows with its text, where the style sheet cannot do that. */
function grow() {
  if (CSS.supports("field-sizing", "content")) return;
  box.style.height = "auto";
  box.style.height = `${box.scrollHeight}px`;
}

connection.addEventListener("change", () => {
  drawConnection();
  if (connection.state === "online") refreshSessions();
});

// --- coming and going -------------------------------------------------------------------------------------------------

addEventListener("hashchange", () => {
  if (location.hash && !nameInAddress()) remember(); // a place on the page, such as the message box
  else show(nameInAddress());
});
addEventListener("pagehide", () => {
  for (const store of stores) store.archiveByBeacon();
});
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") for (const store of stores) store.archiveByBeacon();
  else current.refresh().catch(() => {});
});

function nameInAddress() {
  try {
    return location.hash.startsWith("#/") ? decodeURIComponent(location.hash.slice(2)) || null : null;
  } catch {
    return null;
  }
}

drawConnection();
connection.probeWith(() => api.sessions({ limit: 1 }));
const unfinished = pending.conversations();
show(nameInAddress() ?? (localStorage.getItem(LAST_KEY) || null));
refreshSessions();
for (const part of [box, menu, byId("new-chat")]) part.disabled = false;
if (matchMedia("(pointer: fine)").matches) box.focus(); // on a phone that would open the keyboard
for (const name of unfinished) if (name !== current.name) storeOf(name).finish();
for (const name of await pending.restored) {
  storeOf(name).finish();
  sessions.update();
}
remember();
