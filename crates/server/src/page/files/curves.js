// What clients used as curves over time: they share one cursor, which a pointer or a slider moves, and marks for changes.

import { button, fill, h, name, setText } from "/page/dom.js";
import { ms, number } from "/page/words.js";

// The times that can be shown: the title, the length in seconds, and that of a step.
export const TIMES = { "1h": ["Last hour", 3600, 60], "24h": ["Last 24 hours", 86400, 900], "7d": ["Last 7 days", 604800, 3600], "30d": ["Last 30 days", 2592000, 21600] };

const HEIGHT = 150;
// The colors of lines are those of the page, read when a curve is drawn.
const CURVES = [
  ["Requests and errors", [["requests", "--accent"], ["errors", "--bad"], ["refusals", "--warn"]], number],
  ["Time of a request", [["p50", "--good"], ["p95", "--second"], ["p99", "--bad"], ["first token", "--dim"]], ms],
  ["Time in plugins and of models", [["plugins", "--accent"], ["models", "--second"]], ms],
  ["Tokens", [["in", "--accent"], ["from a cache", "--dim"], ["out", "--second"], ["reasoning", "--warn"]], number],
  ["Cost", [["cost", "--accent"]], number],
];

// Returns `{ element, draw }` of the first curves. `pick(at, step)` is called for a chosen moment; both are in seconds.
export function usageCurves(scope, pick, shown = CURVES.length) {
  const sync = name("cursor");
  const boxes = CURVES.slice(0, shown).map(([title]) => h("div", { class: "curve", role: "img", "aria-label": `${title}: a curve of the chosen time` }));
  const slider = h("input", { type: "range", id: name("moment"), min: 0, oninput: () => { isMoved = true; move(at[Number(slider.value)]); } });
  const when = h("output", { for: slider.id });
  const open = pick && button("Show its requests", () => pick(moment, step));
  const element = h("div", { class: "models" },
    h("div", { class: "curves" }, boxes.map((box, place) => h("section", { class: "card", "aria-label": CURVES[place][0] }, h("h2", {}, CURVES[place][0]), box))),
    h("div", { class: "moment" }, h("label", { for: slider.id }, "Moment"), slider, when, open));
  let plots = [];
  let at = [];
  let step = 60;
  let marks = [];
  // The moment of the cursor, which follows the newest one until somebody moves it.
  let moment = null;
  let isMoved = false;
  // What is drawn, and the background on which it is.
  let last = null;
  let ground = getComputedStyle(document.body).backgroundColor;
  palette.clear();
  scope.every(500, fit);
  scope.on("theme", fit);
  return { element, draw };

  function draw(entries, time, changes = []) {
    last = [entries, time, changes];
    let data;
    [at, data] = series(entries, time);
    step = TIMES[time][2];
    marks = changes;
    slider.max = at.length - 1;
    if (plots.length === 0) {
      // The width of a curve is that of its box beside the others.
      plots = CURVES.slice(0, shown).map(([, lines, words], place) => curve(boxes[place], lines, words, [at, ...data[place]]));
    } else {
      plots.forEach((plot, place) => plot.setData([at, ...data[place]]));
    }
    isMoved &&= at.includes(moment);
    move(isMoved ? moment : at.at(-1));
  }

  function move(to) {
    moment = null;
    plots.forEach((plot) => plot.setCursor({ left: plot.valToPos(to, "x"), top: 0 }));
    moment = to;
    tell();
  }

  // Follows a pointer; `move` has no moment while it sets the cursors.
  function follow({ cursor }) {
    const to = at[cursor.idx];
    if (moment === null || to === undefined || to === moment) return;
    isMoved = true;
    moment = to;
    tell();
  }

  function tell() {
    const place = at.indexOf(moment);
    if (place < 0) return;
    slider.value = place;
    setText(when, new Date(moment * 1000).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" }));
    const values = plots.flatMap((plot) => plot.series.slice(1).map((line, one) => `${line.label} ${line.value(plot, plot.data[one + 1][place])}`));
    slider.setAttribute("aria-valuetext", `${when.textContent}: ${values.join(", ")}`);
  }

  function fit() {
    const now = getComputedStyle(document.body).backgroundColor;
    plots.forEach((plot, place) => {
      const width = boxes[place].clientWidth;
      if (width > 0 && plot.width !== width) plot.setSize({ width, height: HEIGHT });
    });
    if (now !== ground && last !== null) {
      // Another theme has other colors.
      palette.clear();
      plots.forEach((plot) => plot.destroy());
      plots = [];
      draw(...last);
    }
    ground = now;
  }

  function curve(box, lines, words, data) {
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
    const plot = new window.uPlot({
      width: box.clientWidth || 400,
      height: HEIGHT,
      // There is no dragging, so each click is one.
      cursor: { sync: { key: sync }, drag: { x: false, y: false, click: () => {} }, points: { size: 7 } },
      scales: { y: { range: (_, _low, high) => [0, high > 0 ? high * 1.1 : 1] } },
      axes: [{ ...axis, size: 28, values: (_, marks) => marks.map(atAxis) }, { ...axis, size: 62, values: (_, marks) => marks.map((mark) => words(mark)) }],
      series: [{ value: (_, at) => at === null ? "" : new Date(at * 1000).toLocaleString("en-GB") },
        ...lines.map(([label, line], place) => ({ label, stroke: color(line), fill: place === 0 && lines.length < 4 ? color(line, 0.12) : undefined, width: 1.75, points: { show: false }, spanGaps: false,
          value: (_, value) => value === null || value === undefined ? "–" : words(value) }))],
      hooks: { draw: [drawMarks], setCursor: [follow] },
    }, data, box);
    if (pick) plot.over.addEventListener("click", () => at[plot.cursor.idx] !== undefined && pick(at[plot.cursor.idx], step));
    return plot;
  }

  function drawMarks({ ctx, bbox, valToPos }) {
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = color("--warn")();
    ctx.setLineDash([4, 4]);
    for (const mark of marks) {
      // A mark stands at its step, which has begun.
      const x = Math.round(valToPos(Math.floor(mark.at / step) * step, "x", true));
      if (x < bbox.left || x > bbox.left + bbox.width) continue;
      ctx.beginPath();
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + bbox.height);
      ctx.stroke();
      ctx.beginPath();
      ctx.moveTo(x - 5, bbox.top);
      ctx.lineTo(x + 5, bbox.top);
      ctx.lineTo(x, bbox.top + 7);
      ctx.fill();
    }
    ctx.restore();
  }
}

// One column of values for each line of each curve, with zeros where nobody asked.
function series(entries, time) {
  const [, length, step] = TIMES[time];
  const end = Math.floor(Date.now() / 1000 / step) * step;
  const known = new Map(entries.map((entry) => [Date.parse(entry.at) / 1000, entry]));
  const at = Array.from({ length: length / step }, (_, place) => end - (length / step - 1 - place) * step);
  const column = (value, none) => at.map((moment) => known.has(moment) ? value(known.get(moment)) : none);
  return [at, [
    [column((one) => one.requests, 0), column(errorsOf, 0), column((one) => one.refusals, 0)],
    ["p50_ms", "p95_ms", "p99_ms", "first_ms"].map((field) => column((one) => one[field], null)),
    ["plugin_ms", "model_ms"].map((field) => column((one) => one[field], null)),
    ["prompt_tokens", "cached_tokens", "completion_tokens", "reasoning_tokens"].map((field) => column((one) => one[field], 0)),
    [column((one) => one.cost, 0)],
  ]];
}

export const errorsOf = (one) => one.client_errors + one.server_errors;

function atAxis(at) {
  const date = new Date(at * 1000);
  const isDay = date.getHours() === 0 && date.getMinutes() === 0;
  return isDay ? date.toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : date.toLocaleTimeString("en-GB", { hour: "2-digit", minute: "2-digit" });
}

// The sums of a time as figures.
export function figuresOf(place, all) {
  const rows = all ? [["Requests", number(all.requests)], ["Errors", number(errorsOf(all))], ["Refused", number(all.refusals)],
    ["Tokens", number(all.prompt_tokens + all.completion_tokens)], ["Cost", all.cost > 0 ? number(all.cost) : "–"], ["Half within", ms(all.p50_ms)], ["95 % within", ms(all.p95_ms)],
    ["First token", ms(all.first_ms)]] : [];
  fill(place, rows.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

// A choice of the time to show.
export function timeChoice(chosen, act) {
  const group = name("time");
  return h("fieldset", { class: "choices" }, h("legend", { class: "unseen" }, "Time"), Object.entries(TIMES).filter(([time]) => time !== "7d").map(([time, [title]]) =>
    h("label", {}, h("input", { type: "radio", name: group, value: time, checked: time === chosen, onchange: () => act(time) }), title)));
}

// The colors of the theme that were read.
const palette = new Map();

// Returns a color of the page as canvas can read it.
function color(of, alpha) {
  return () => {
    if (!palette.has(of)) {
      const probe = document.getElementById("toast");
      probe.style.outlineColor = `var(${of})`;
      palette.set(of, getComputedStyle(probe).outlineColor);
      probe.style.outlineColor = "";
    }
    const is = palette.get(of);
    return alpha ? is.replace("rgb(", "rgba(").replace(")", `, ${alpha})`) : is;
  };
}
