// One call: the exact messages in segments, why each is what it is, what was left out, and what changed.

import { get, id } from "./api.js";
import { markText } from "./bars.js";
import { count, h, note, percent, plural, when } from "./dom.js";
import { forkButton } from "./fork.js";
import { keyLink, openMessages } from "./item.js";
import { money } from "./money.js";

const LOOKS = {
  head: "head", observations: "observations", said: "said", agent: "agent", full: "whole result", excerpt: "excerpt",
  table: "table", difference: "difference", shortened: "shortened", placeholder: "reference", folded: "fold",
  opened: "opened", image: "image", interrupted: "no result", tail: "tail",
};
const OUT = {
  placeholder: "reference", excerpt: "excerpt", table: "table", difference: "difference", shortened: "shortened text",
  folded: "folded message", observed: "observed message", cleared: "cleared message",
};
const HEAD = {
  memory_tools_tokens: "memory tools", instructions_tokens: "memory instructions",
  own_tools_tokens: "own tools", system_tokens: "system prompt",
};

export async function showCall(place, { path, agent, number, rows, open, signal }) {
  const call = await get(`${path}/calls/${number}?agent=${id(agent)}`, { signal });
  const row = rows[number - 1];
  const segments = call.messages.flatMap((message) => message.segments);
  const step = (by, text) => {
    const other = number + by;
    return h("button", { class: "quiet", disabled: !rows[other - 1], onclick: () => open(other, true) }, text);
  };
  const changes = h("div", { class: "changes" }, h("p", { class: "skeleton" }, " "));
  const old = place.offsetHeight;
  place.style.minHeight = `${old}px`; // the page does not jump while another call takes its place
  place.replaceChildren(
    h("div", { class: "title-row" },
      h("div", {}, h("h2", { tabindex: "-1" }, `Call ${number}`, h("small", {}, ` of ${call.count}`)),
        h("p", { class: "muted" }, [when(row.at), row.did && `the model then: ${row.did}`, markText(row.marks)].filter(Boolean).join(" · "))),
      h("div", { class: "toolbar" }, forkButton(path, agent, number), step(-1, "← Before"), step(1, "Next →"))),
    exactness(call),
    h("p", { class: "cache" }, call.cache),
    strip(call),
    h("div", { class: "columns" },
      h("section", { "aria-label": "What the model read" }, h("h3", {}, "What the model read"), list(call)),
      h("aside", { "aria-label": "About this call" },
        h("h3", {}, "Cost of this call"),
        facts([["read from the cache", count(row.read)], ["new", count(row.head + row.view - row.read)],
          ["cost", money(row.cost)], ["keeping everything", money(row.raw_cost)]]),
        h("h3", {}, "Left out ", h("small", {}, `${count(row.raw)} kept − ${count(row.head + row.view)} read`)),
        leftOut(call, path, agent),
        h("h3", {}, "Changed since the call before"), changes,
        h("h3", {}, "In front of the messages"), head(call.head),
        h("h3", {}, "By kind"), kinds(segments))),
  );
  place.style.minHeight = "";
  get(`${path}/calls/${number}/changes?agent=${id(agent)}`, { signal })
    .then((told) => changes.replaceChildren(...changed(told)))
    .catch((error) => signal.aborted || changes.replaceChildren(note(error.message, "error")));
}

function exactness(call) {
  if (call.problem) return h("p", { class: "warning", role: "alert" }, `This is ${call.problem}. Recorded hash ${call.digest}, here ${call.digest_now}.`);
  const joined = call.is_joined ? " User messages in a row were handed out as one." : "";
  return h("p", { class: "exact" }, `✓ Byte for byte what was handed out: its hash is ${call.digest}, as recorded.${joined}`);
}

function strip(call) {
  const bar = h("div", { class: "strip", "aria-hidden": "true" });
  call.messages.forEach((message, index) => {
    if (!message.is_cached && call.messages[index - 1]?.is_cached) bar.append(h("i", { class: "edge" }));
    for (const one of message.segments) {
      const piece = h("span", { class: `look ${one.look}`, title: `${LOOKS[one.look]}: ${one.label}`, onclick: () => reveal(index) });
      piece.style.flexGrow = one.tokens;
      bar.append(piece);
    }
  });
  return bar;
}

function reveal(index) {
  const message = document.querySelector(`[data-message="${index}"]`);
  message.scrollIntoView({ block: "center" });
  message.querySelector("summary")?.focus();
}

function list(call) {
  const rows = call.messages.map((message, index) => [
    !message.is_cached && call.messages[index - 1]?.is_cached &&
      h("li", { class: "boundary" }, "The cached prefix ends here"),
    h("li", { class: "message", "data-message": index },
      h("p", { class: "role" }, message.role, h("span", {}, plural(message.tokens, "token"))),
      ...message.segments.map(segment)),
  ]);
  return h("ol", { class: "messages" }, ...rows.flat().filter(Boolean));
}

function segment(one) {
  const size = one.tokens === one.full_tokens ? count(one.tokens) : `${count(one.tokens)} of ${count(one.full_tokens)}`;
  const body = h("div", { class: "body" });
  const fill = (event) => event.target.open && !body.children.length && body.append(...opened(one));
  return h("details", { class: `segment ${one.look}`, ontoggle: fill },
    h("summary", {}, h("span", { class: "badge" }, LOOKS[one.look]), h("span", { class: "label" }, one.label),
      h("span", { class: "snippet" }, one.text.slice(0, 200).replace(/\s+/g, " ")), h("span", { class: "size" }, size)),
    body);
}

function opened(one) {
  const about = [one.number && `message ${one.number}`, one.source, one.age !== null && (one.age ? `${plural(one.age, "call")} old` : "new in this call"),
    one.full_tokens > one.tokens && `${count(one.full_tokens - one.tokens)} tokens spared`];
  return [
    one.why && h("p", { class: "why" }, one.why),
    h("p", { class: "muted" }, about.filter(Boolean).join(" · ")),
    one.keys.length && one.look !== "folded" && h("p", { class: "keys" }, one.keys.map(keyLink)),
    ...(one.images ?? []).map((source) => h("img", { src: source, alt: `Image of ${one.label}` })),
    one.text && h("pre", { tabindex: "0" }, one.text),
  ].filter(Boolean);
}

function leftOut(call, path, agent) {
  if (!call.left_out.length) return note("Nothing: the model read everything.");
  return h("ul", { class: "left-out" }, call.left_out.map((one) => {
    const where = one.first ? `messages ${one.first}–${one.last}` : one.why;
    return h("li", {}, h("span", { class: `swatch ${one.what}` }), h("b", {}, plural(one.count, OUT[one.what])),
      h("span", { class: "size" }, count(one.tokens)), h("p", { class: "muted" }, where),
      one.first && h("p", { class: "muted" }, one.why),
      one.first && h("button", { class: "quiet", onclick: () => openMessages(path, agent, one.first, one.last) }, "Read them"));
  }));
}

function changed({ changes, decisions }) {
  if (!changes.length && !decisions.length) return [note("Nothing.")];
  const sums = new Map();
  for (const one of changes) {
    const key = `${one.before ?? "new"} → ${one.after ?? "gone"} (${one.reason})`;
    sums.set(key, [...(sums.get(key) ?? []), one.number]);
  }
  const numbers = (some) => [...new Set(some)].filter((one) => one !== "-").join(", ");
  return [
    h("ul", { class: "plain" }, [...sums].map(([key, some]) => h("li", {}, `${key}: `, h("span", { class: "muted" }, numbers(some) ? `message ${numbers(some)}` : "beside the history")))),
    ...decisions.map((text) => h("p", { class: "why" }, text)),
  ];
}

const facts = (pairs) => h("dl", { class: "facts" }, pairs.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

function head(offered) {
  const known = Object.keys(HEAD).filter((name) => offered[name]);
  if (!known.length) return note("Neither tools nor system prompt were noted (context.note_agent).");
  return h("div", {}, facts(known.map((name) => [HEAD[name], count(offered[name])])),
    offered.memory_tools?.length && h("p", { class: "muted" }, `${offered.memory_tools.join(", ")}${offered.reason ? ` (offered: ${offered.reason})` : ""}`),
    h("p", { class: "muted" }, "Their texts are not archived."));
}

function kinds(segments) {
  const total = segments.reduce((sum, one) => sum + one.tokens, 0);
  const sums = Object.keys(LOOKS).map((look) => [look, segments.filter((one) => one.look === look)]).filter(([, some]) => some.length);
  return h("ul", { class: "kinds" }, sums.map(([look, some]) => {
    const tokens = some.reduce((sum, one) => sum + one.tokens, 0);
    return h("li", {}, h("span", { class: `swatch ${look}` }), LOOKS[look], h("span", { class: "size" }, `${count(tokens)} · ${percent(tokens, total)}`));
  }));
}
