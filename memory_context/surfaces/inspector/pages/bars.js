// One bar for each model call, drawn as a few paths, so that a thousand bars are as quick as ten; a slider to assistive tools.

import { count, h, plural, svg, when } from "./dom.js";

const HEIGHT = 176;
const LANE = 15;
const LANES = [
  ["folds", "Folds"],
  ["compactions", "Compactions"],
  ["answered_compactions", "Compacted when answered"],
  ["expansions", "Opened"],
  ["recalls", "Recalled"],
  ["activations", "Observations"],
  ["shortenings", "Shortened"],
  ["look_ups", "Look-ups"],
];

export const markText = (marks) =>
  LANES.filter(([name]) => marks[name]).map(([name, text]) => `${text.toLowerCase()} ${marks[name]}`).join(", ");

/** Return {element, select}: `choose(number)` is called when somebody selects a call, `enter()` for Enter. */
export function bars(rows, { choose, enter }) {
  const lanes = LANES.filter(([name]) => rows.some((one) => one.marks[name]));
  const most = Math.max(...rows.map((one) => one.head + one.view));
  const mostRaw = Math.max(...rows.map((one) => one.raw), most);
  const total = HEIGHT + 8 + lanes.length * LANE;
  let [scale, pitch, selected] = [mostRaw > 4 * most ? most * 1.25 : mostRaw * 1.04, 8, 1];

  const plot = svg("svg", { class: "plot", height: total, "aria-hidden": "true" });
  const slider = h("div", {
    class: "slider", role: "slider", tabindex: "0", "aria-label": "Model calls", "aria-valuemin": 1,
    "aria-valuemax": rows.length, onkeydown: key, onclick: (event) => move(at(event)),
    onpointermove: (event) => tell(at(event)), onpointerleave: () => tell(selected),
  }, plot);
  const scroller = h("div", { class: "scroller" }, slider);
  const readout = h("p", { class: "readout" });
  const scales = h(
    "button",
    { class: "quiet", onclick: () => ((scale = isWhole() ? most * 1.25 : mostRaw * 1.04), draw()) },
  );
  const isWhole = () => scale >= mostRaw;
  const ticks = svg("svg", { class: "ticks", height: total, width: 80, "aria-hidden": "true" });
  const element = h(
    "section",
    { class: "bars", "aria-label": "Calls of this session" },
    h("div", { class: "legend" }, ...[["cached", "read from the cache"], ["new", "new"], ["raw", "keeping everything"]]
      .map(([name, text]) => h("span", { class: `key ${name}` }, text)), scales),
    h("div", { class: "chart" }, ticks, scroller),
    readout,
  );

  const at = (event) => Math.min(rows.length, Math.max(1, Math.floor(event.offsetX / pitch) + 1));

  function draw() {
    const room = scroller.clientWidth || 600;
    pitch = Math.max(3, Math.min(96, room / rows.length));
    const [gap, y] = [pitch >= 6 ? 2 : pitch >= 4 ? 1 : 0.5, (tokens) => HEIGHT * (1 - Math.min(1.02, tokens / scale))];
    const block = (x, from, to) => `M${x.toFixed(1)} ${from.toFixed(1)}h${(pitch - gap).toFixed(1)}V${to.toFixed(1)}h-${(pitch - gap).toFixed(1)}z`;
    let [cached, fresh, raw] = ["", "", ""];
    rows.forEach((one, index) => {
      const x = index * pitch;
      cached += block(x, HEIGHT, y(one.read));
      fresh += block(x, y(one.read), y(one.head + one.view));
      raw += `${index ? "V" : `M0 `}${y(one.raw).toFixed(1)}h${pitch.toFixed(2)}`;
    });
    const width = Math.max(room, rows.length * pitch);
    plot.setAttribute("width", width);
    const grid = gridLines(scale);
    plot.replaceChildren(
      svg("path", { class: "grid", d: grid.map((value) => `M0 ${y(value).toFixed(1)}h${width}`).join("") }),
      svg("rect", { class: "selected", y: 0, height: total, width: pitch }),
      svg("path", { class: "cached", d: cached }),
      svg("path", { class: "new", d: fresh }),
      svg("path", { class: "raw", d: raw }),
      ...lanes.map(([name], lane) =>
        svg("path", { class: `mark ${name}`, d: rows.map((one, index) =>
          one.marks[name] ? dot(index * pitch + (pitch - gap) / 2, laneY(lane)) : "").join("") })),
    );
    const label = (text, place) => svg("text", { x: 74, y: place + 4, "text-anchor": "end" }, text);
    ticks.replaceChildren(
      ...grid.map((value) => label(short(value), y(value))),
      ...lanes.map(([, text], lane) => label(text.split(" ")[0] === "Compacted" ? "Answered" : text, laneY(lane))),
    );
    scales.hidden = mostRaw <= most * 1.25;
    scales.textContent = isWhole() ? "Enlarge what was read" : `Show all of it (up to ${short(Number(mostRaw.toPrecision(2)))})`;
    show();
  }

  function show() {
    plot.querySelector(".selected")?.setAttribute("x", (selected - 1) * pitch);
    slider.setAttribute("aria-valuenow", selected);
    slider.setAttribute("aria-valuetext", sentence(rows[selected - 1]));
    const x = (selected - 1) * pitch;
    if (x < scroller.scrollLeft + 20 || x > scroller.scrollLeft + scroller.clientWidth - 40)
      scroller.scrollLeft = x - scroller.clientWidth / 2;
    tell(selected);
  }

  const tell = (number) => (readout.textContent = sentence(rows[number - 1]));

  function move(number) {
    if (number === selected) return;
    selected = number;
    show();
    choose(number);
  }

  function key(event) {
    const step = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: -10, PageDown: 10 }[event.key];
    const target = step ? selected + step : { Home: 1, End: rows.length }[event.key];
    if (event.key === "Enter") enter();
    else if (target === undefined) return;
    else move(Math.min(rows.length, Math.max(1, target)));
    event.preventDefault();
  }

  new ResizeObserver(draw).observe(scroller);
  return { element, select: (number) => ((selected = number), show()) };
}

const laneY = (lane) => HEIGHT + 8 + lane * LANE + LANE / 2;
const dot = (x, y) => `M${(x - 2.5).toFixed(1)} ${y}a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z`;
const short = (value) => (value >= 1e6 ? `${value / 1e6} M` : value >= 1000 ? `${value / 1000} k` : `${value}`);

function gridLines(scale) {
  const step = [1, 2, 5].map((one) => one * 10 ** Math.floor(Math.log10(scale / 4))).reduce((best, one) => (scale / one >= 3 ? one : best));
  return Array.from({ length: Math.floor(scale / step) + 1 }, (_, index) => index * step);
}

function sentence(one) {
  const tokens = one.head + one.view;
  return [
    `Call ${one.number}`, one.at ? when(one.at) : "", `${count(one.read)} from the cache + ${count(tokens - one.read)} new = ${plural(tokens, "token")}`,
    `keeping everything ${count(one.raw)}`, markText(one.marks), one.did,
  ].filter(Boolean).join(" · ");
}
