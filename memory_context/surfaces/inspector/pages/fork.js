// Going on from what is archived: a fork from a call, observing a session now, and deleting it.

import { get, id, send } from "./api.js";
import { ask } from "./ask.js";
import { h, note, plural } from "./dom.js";
import { dialog } from "./item.js";

export const forkButton = (path, agent, number) => h("button", { class: "quiet", onclick: () => fork(path, agent, number) }, "Fork from here…");

async function fork(path, agent, number) {
  const made = {};
  const done = await ask(`Fork from call ${number}?`, "Fork", async () => Object.assign(made, await send("POST", `${path}/calls/${number}/fork?agent=${id(agent)}`)),
    h("p", {}, `A new session begins with what the model read at call ${number}, byte for byte. This one stays as it is.`));
  if (!done) return;
  const code = `context = MemoryContext("…", ${JSON.stringify(made.agent_id)}, ${JSON.stringify(made.session_id)}, store)`;
  dialog("The fork", h("p", {}, "Go on with it from your program, or in a chat by its id:"), h("pre", { tabindex: "0" }, code),
    h("p", {}, h("a", { href: `#/session/${id(made.session_id)}/${id(made.agent_id)}`, onclick: (event) => event.target.closest("dialog").close() }, "Show it here"))).classList.add("ask");
}

export const sessionActions = (path, agent) => [
  h("button", { onclick: () => compact(path, agent) }, "Compact now…"),
  h("button", { onclick: () => remove(path) }, "Delete…"),
];

async function compact(path, agent) {
  const text = h("textarea", { id: "instruction", rows: "3", maxlength: "4000", placeholder: "Keep every figure and every path." });
  const made = {};
  const done = await ask("Compact this session now?", "Compact", async () => Object.assign(made, await send("POST", `${path}/compact?agent=${id(agent)}`, { instruction: text.value })),
    h("p", {}, "The light model writes dated observations of all steps but the newest; they stand in the next view in place of the messages, which stay archived."),
    h("label", { for: "instruction" }, "What matters (optional)"), text,
    h("p", { class: "muted" }, "If a server has the session live, it passes it on first. A program that holds it open by itself writes its own line later: close it before."));
  if (done) dialog("Compacted", h("p", {}, `${plural(made.left, "message")} left the view, for ${plural(made.lines.length, "line")}.`), h("pre", { tabindex: "0" }, made.lines.join("\n") || made.observations)).classList.add("ask");
}

async function remove(path) {
  const extent = await get(`${path}/extent`);
  const gone = await ask(`Delete this session?`, "Delete", () => send("DELETE", path),
    h("p", {}, h("b", {}, extent.title || extent.session_id)),
    h("p", {}, `${plural(extent.message_count, "message")} go, with ${plural(extent.items, "stored item")} and ${plural(extent.subagent_sessions, "session")} of sub-agents. What was learned of you stays: Memory has it.`),
    note("A process that still works in it is refused from then on."));
  if (gone) location.hash = "#/sessions";
}
