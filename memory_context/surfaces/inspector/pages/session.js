// A session: its figures, a bar for each call, and the call that is selected.

import { get, id } from "./api.js";
import { bars } from "./bars.js";
import { showCall } from "./call.js";
import { count, h, note, percent, plural, when } from "./dom.js";
import { sessionActions } from "./fork.js";
import { aboutServer, money, priceFields, pricesQuery } from "./money.js";
import { whatIf } from "./whatif.js";

async function session(main, { params: [sessionId, agent = ""], query, signal }) {
  const about = await aboutServer();
  const path = `sessions/${id(sessionId)}`;
  const read = () => get(`${path}/calls${pricesQuery() || "?"}&agent=${id(agent)}`, { signal });
  const rowsOf = ({ columns, rows }) => rows.map((row) => Object.fromEntries(columns.map((name, index) => [name, row[index]])));
  const told = await read();
  const rows = rowsOf(told);
  const title = told.session.title || sessionId;
  document.title = `${title} · Inspector`;
  const figures = h("dl", { class: "kpis" });
  const show = ({ sums }) => figures.replaceChildren(...kpis(sums));
  show(told);
  let current;
  const again = async () => { // other prices: the same calls
    const priced = await read();
    show(priced);
    rowsOf(priced).forEach((row, index) => Object.assign(rows[index] ?? {}, row));
    if (current) await open(current);
  };
  const others = told.agents.filter((one) => one !== told.agent);
  const about_ = [sessionId, told.agent, when(told.session.last_activity_at)].filter((one) => one !== title);
  main.append(
    h("p", { class: "crumbs" }, h("a", { href: "#/sessions" }, "Sessions")),
    h("div", { class: "title-row" }, h("div", {}, h("h1", {}, title), h("p", { class: "muted" }, about_.join(" · "),
      ...others.map((one) => [" · ", h("a", { href: `#/session/${id(sessionId)}/${id(one)}` }, `also ${one}`)]))),
      h("div", { class: "toolbar" }, priceFields(again), sessionActions(path, told.agent))),
    ...told.remarks.map((text) => note(`Note: ${text}.`, "warning")),
    figures,
  );
  if (!rows.length) {
    main.append(note("No model call is recorded in this session. Earlier versions recorded none."));
    return;
  }
  const place = h("section", { class: "call", "aria-label": "The selected call" });
  let timer, loading;
  const chart = bars(rows, {
    choose: (number) => (clearTimeout(timer), (timer = setTimeout(() => open(number), 90))),
    enter: () => place.querySelector("h2")?.focus(),
  });
  const other = whatIf(path, told.agent, about, rows);
  main.append(chart.element, place, other.element);
  const open = async (number, focus = false) => {
    current = number;
    loading?.abort();
    const mine = (loading = new AbortController());
    signal.addEventListener("abort", () => mine.abort());
    history.replaceState(null, "", `#/session/${id(sessionId)}/${id(told.agent)}?call=${number}`);
    chart.select(number);
    other.from(number);
    place.setAttribute("aria-busy", "true");
    try {
      await showCall(place, { path, agent: told.agent, number, rows, open, signal: mine.signal });
      if (focus) place.querySelector("h2").focus();
    } catch (error) {
      if (mine.signal.aborted) return;
      place.replaceChildren(note(error.message, "error"));
    }
    place.removeAttribute("aria-busy");
  };
  const wanted = Number(query.get("call"));
  await open(wanted >= 1 && wanted <= rows.length ? wanted : rows.length);
}

function kpis(sums) {
  const one = (name, value, beside) => h("div", {}, h("dt", {}, name), h("dd", {}, value, h("small", {}, beside)));
  return [
    one("Model calls", count(sums.calls), `${count(sums.peak)} tokens at most`),
    one("Shown", count(sums.shown), `of ${plural(sums.raw, "token")} kept`),
    one("Left out", percent(sums.raw - sums.shown, sums.raw), `${count(sums.raw - sums.shown)} tokens`),
    one("From the cache", percent(sums.read, sums.shown), plural(sums.read, "token")),
    one("Cost", money(sums.cost), `${money(sums.raw_cost)} with everything`),
    one("Saved", percent(sums.raw_cost - sums.cost, sums.raw_cost), money(sums.raw_cost - sums.cost)),
  ];
}

export const routes = { session: Object.assign(session, { nav: "sessions" }) };
