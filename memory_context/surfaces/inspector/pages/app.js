// The address decides: #/session/<id>/<agent>?call=3 calls routes.session(main, {params, query}).

import { announce, h, note } from "./dom.js";
import { send, setToken } from "./api.js";
import * as memory from "./memory.js";
import * as session from "./session.js";
import * as sessions from "./sessions.js";

const ROUTES = { ...sessions.routes, ...session.routes, ...memory.routes };
const NAV = [["Sessions", "sessions"], ...memory.nav];

const main = document.getElementById("main");
let shown = null;

async function show() {
  const [path, search = ""] = (location.hash.replace(/^#\/?/, "") || "sessions").split("?");
  const [name, ...params] = path.split("/").map(decodeURIComponent);
  const query = new URLSearchParams(search);
  const route = ROUTES[name];
  for (const link of document.querySelectorAll("#nav a"))
    if (link.dataset.route === (route?.nav ?? name)) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  document.querySelector("#nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  document.querySelectorAll("dialog").forEach((one) => one.close());
  shown?.abort();
  const mine = (shown = new AbortController());
  main.replaceChildren();
  main.setAttribute("aria-busy", "true");
  try {
    if (!route) throw new Error("There is no such page.");
    await route(main, { params, query, signal: mine.signal });
  } catch (error) {
    if (mine.signal.aborted) return;
    if (error.status === 401) main.replaceChildren(tokenForm());
    else main.replaceChildren(note(error.message, "error"));
  }
  if (mine.signal.aborted) return;
  main.removeAttribute("aria-busy");
  announce(document.title);
}

/** The address of `memory-context open` has a code, which is taken out of it and works once. */
async function enter() {
  const [path, search = ""] = location.hash.split("?");
  const query = new URLSearchParams(search);
  const code = query.get("enter");
  if (!code) return;
  query.delete("enter");
  history.replaceState(null, "", query.size ? `${path}?${query}` : path);
  const { token } = await send("POST", "enter", { code }).catch(() => ({}));
  if (token) setToken(token, true);
}

function tokenForm() {
  document.title = "Sign in · Inspector";
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true });
  const enter = (event) => {
    event.preventDefault();
    setToken(input.value.trim());
    show();
  };
  return h(
    "form",
    { class: "card narrow", onsubmit: enter },
    h("h1", {}, "Whose sessions?"),
    h("p", {}, "This server asks for a bearer token. It is kept until this tab closes."),
    h("label", { for: "token" }, "Token"),
    input,
    h("button", { class: "primary" }, "Continue"),
  );
}

document
  .getElementById("nav")
  .append(...NAV.map(([text, route]) => h("a", { href: `#/${route}`, "data-route": route }, text)));
addEventListener("hashchange", show);
await enter();
show();
