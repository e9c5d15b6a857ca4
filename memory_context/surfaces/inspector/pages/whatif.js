// Another policy from a call on: the bill of the rest beside the recorded one, without running the agent.

import { id, send } from "./api.js";
import { count, h, note, percent, plural } from "./dom.js";
import { money } from "./money.js";

export function whatIf(path, agent, { policy, assumed }, rows) {
  const number = (name, text, value, props = {}) =>
    h("div", { class: "field short" }, h("label", { for: name }, text),
      h("input", { id: name, name, type: "number", min: "1", value: value ?? "", placeholder: "none", ...props }));
  const choice = (name, text, options, value) =>
    h("div", { class: "field short" }, h("label", { for: name }, text),
      h("select", { id: name, name }, options.map(([of, label]) => h("option", { value: of, selected: of === value }, label))));
  const result = h("div", { class: "what-if-result", role: "status" });
  const from = number("from_call", "From call", 1, { max: rows.length, required: true });
  const form = h("form", { class: "toolbar", onsubmit: compare }, from,
    number("token_budget", "Token budget", policy.token_budget, { min: "1000" }),
    number("first_view_limit_tokens", "Whole result up to", policy.first_view_limit_tokens, { min: "200" }),
    number("offload_threshold_tokens", "Stored above", policy.offload_threshold_tokens, { min: "50" }),
    choice("compaction", "Compaction", [["true", "on"], ["false", "off"]], String(policy.compaction.enabled)),
    choice("observation", "Observations", [["auto", "as recorded"], ["off", "off"]], policy.observation.mode),
    h("button", { class: "primary" }, "Compare"));

  async function compare(event) {
    event.preventDefault();
    const value = (name) => form.elements[name].value;
    const tokens = (name) => (value(name) === "" ? null : Number(value(name)));
    const asked = {
      from_call: Number(value("from_call")),
      policy: {
        ...policy, token_budget: tokens("token_budget"), first_view_limit_tokens: tokens("first_view_limit_tokens"),
        offload_threshold_tokens: tokens("offload_threshold_tokens"),
        compaction: { ...policy.compaction, enabled: value("compaction") === "true" }, observation: { ...policy.observation, mode: value("observation") },
      },
    };
    result.replaceChildren(h("p", { class: "skeleton" }, " "));
    try {
      const url = `${path}/what-if?agent=${id(agent)}`;
      result.replaceChildren(...shown(await send("POST", url, asked), asked, url));
    } catch (error) {
      result.replaceChildren(note(error.message, "error"));
    }
  }

  return {
    element: h("section", { class: "what-if", "aria-label": "What if" }, h("h2", {}, "What if"),
      h("p", { class: "muted" }, `The same session with another policy, from a call on. Folds, compactions and withdrawals are decided anew; what was stored, its texts, and what the agent did stay as recorded. ${assumed}`),
      form, result),
    from: (call) => (form.elements.from_call.value = call),
  };
}

function shown(told, asked, url) {
  const { recorded, other } = told;
  const line = (name, one, two) => h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, one), h("td", {}, two));
  const folds = (rows) => rows.filter((row) => row.at(-1) === "fold").length;
  const share = (sums) => percent(sums.read, sums.shown);
  const change = recorded.cost ? (other.cost - recorded.cost) / recorded.cost : 0;
  return [
    h("p", { class: "verdict" }, `${plural(recorded.calls, "call")}: `, h("b", {}, `${change > 0 ? "+" : ""}${(100 * change).toFixed(1)} % cost`)),
    ...told.remarks.map((text) => note(`${text}.`, "warning")),
    h("table", {}, h("thead", {}, h("tr", {}, h("td", {}), h("th", { scope: "col" }, "Recorded"), h("th", { scope: "col" }, "With this policy"))),
      h("tbody", {}, line("Tokens shown", count(recorded.shown), count(other.shown)), line("Most in a call", count(recorded.peak), count(other.peak)),
        line("From the cache", share(recorded), share(other)), line("Folds", folds(told.recorded_rows), folds(told.other_rows)),
        line("Cost", money(recorded.cost), money(other.cost)), line("Keeping everything", money(recorded.raw_cost), money(other.raw_cost)))),
    h("p", { class: "muted" }, "Costs here are by the prices recorded with each call."),
    h("details", {}, h("summary", {}, "As JSON"), h("pre", { tabindex: "0" }, `POST api/${url}\n${JSON.stringify(asked, null, 2)}\n\n${JSON.stringify(told)}`)),
  ];
}
