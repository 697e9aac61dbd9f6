// What clients used: curves over time that share one cursor, and tables by key, user, model and provider.

import { get } from "/page/api.js";
import { failed, fill, h, name } from "/page/dom.js";
import { go } from "/page/route.js";
import { visible } from "/page/words.js";

// The times that can be shown: the length in seconds, and that of a step.
const TIMES = { "1h": ["Last hour", 3600, 60], "24h": ["Last 24 hours", 86400, 900], "7d": ["Last 7 days", 604800, 3600], "30d": ["Last 30 days", 2592000, 21600] };
const GROUPS = { key: "Key", user: "User", model: "Model", provider: "Provider", endpoint: "Endpoint" };
// The interval of polls, in milliseconds.
const PERIOD = 15_000;
const HEIGHT = 160;
// The colors of lines are those of the page, read when a curve is drawn.
const CURVES = [
  ["Requests and errors", [["requests", "--accent"], ["errors", "--bad"], ["refusals", "--warn"]], ""],
  ["Time of a request", [["p50", "--good"], ["p95", "--accent"], ["p99", "--bad"], ["first token", "--dim"]], " ms"],
  ["Tokens", [["in", "--accent"], ["out", "--good"]], ""],
  ["Cost", [["cost", "--accent"]], ""],
];

export function usage(place, parts, scope) {
  let [time, by] = chosen(parts);
  const totals = h("dl", { class: "figures" });
  const curves = h("div", { class: "curves" });
  const groups = h("div", {});
  const wrong = h("div");
  const times = select("Time", Object.entries(TIMES).map(([value, [title]]) => [value, title]), time, (value) => go("usage", value, by));
  const group = select("Group", Object.entries(GROUPS), by, (value) => go("usage", time, value));
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Usage"),
    h("div", { class: "row start" }, times, group), wrong, totals, curves, h("h2", {}, "By group"), groups);
  let plots = [];
  load();
  scope.every(PERIOD, load);
  scope.every(500, () => plots.forEach(({ plot, box }) => plot.width !== box.clientWidth && box.clientWidth > 0 && plot.setSize({ width: box.clientWidth, height: HEIGHT })));
  return (parts) => {
    [time, by] = chosen(parts);
    times.box.value = time;
    group.box.value = by;
    load();
  };

  async function load() {
    const [, , step] = TIMES[time];
    try {
      const [over, sums, all] = await Promise.all([
        get(`/api/v1/usage?from=${time}&step=${step / 60}m`),
        get(`/api/v1/usage?from=${time}&by=${by}`),
        get(`/api/v1/usage?from=${time}`),
      ]);
      if (scope.closed) return;
      fill(wrong);
      figures(all.data[0]);
      draw(series(over.data));
      fill(groups, table(sums.data, by));
    } catch (error) {
      if (!scope.closed) fill(wrong, failed("The usage could not be loaded", error));
    }
  }

  function figures(all) {
    const rows = all ? [["Requests", number(all.requests)], ["Errors", number(all.client_errors + all.server_errors)], ["Refused by plugins", number(all.refusals)],
      ["Tokens", number(all.prompt_tokens + all.completion_tokens)], ["Cost", money(all.cost)], ["Half within", ms(all.p50_ms)], ["95 % within", ms(all.p95_ms)]] : [];
    fill(totals, rows.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
  }

  // One column of values for each line, with zeros where nobody asked.
  function series(entries) {
    const [, length, step] = TIMES[time];
    const end = Math.floor(Date.now() / 1000 / step) * step;
    const known = new Map(entries.map((entry) => [Date.parse(entry.at) / 1000, entry]));
    const at = Array.from({ length: length / step }, (_, place) => end - (length / step - 1 - place) * step);
    const column = (value, none) => at.map((moment) => known.has(moment) ? value(known.get(moment)) : none);
    return [
      [at, column((one) => one.requests, 0), column((one) => one.client_errors + one.server_errors, 0), column((one) => one.refusals, 0)],
      [at, ...["p50_ms", "p95_ms", "p99_ms", "first_ms"].map((field) => column((one) => one[field], null))],
      [at, column((one) => one.prompt_tokens, 0), column((one) => one.completion_tokens, 0)],
      [at, column((one) => one.cost, 0)],
    ];
  }

  function draw(data) {
    if (plots.length > 0) {
      plots.forEach(({ plot }, place) => plot.setData(data[place]));
      return;
    }
    const boxes = CURVES.map(([title]) => h("div", { class: "curve", role: "img", "aria-label": `${title}: a curve of the chosen time; the table below has the sums` }));
    // The width of a curve is that of its box beside the others.
    curves.append(...boxes.map((box, place) => h("section", { class: "card", "aria-label": CURVES[place][0] }, h("h2", {}, CURVES[place][0]), box)));
    plots = CURVES.map(([, lines, unit], place) => ({ box: boxes[place], plot: curve(boxes[place], lines, unit, data[place]) }));
  }
}

function curve(box, lines, unit, data) {
  const color = (of) => getComputedStyle(document.documentElement).getPropertyValue(of).trim();
  const axis = { stroke: () => color("--dim"), grid: { stroke: () => color("--line"), width: 1 }, ticks: { stroke: () => color("--line"), width: 1 } };
  return new window.uPlot({
    width: box.clientWidth || 400,
    height: HEIGHT,
    // All curves show the same moment.
    cursor: { sync: { key: "usage" }, drag: { x: false, y: false } },
    scales: { y: { range: (_, low, high) => [0, high > 0 ? high * 1.1 : 1] } },
    axes: [axis, { ...axis, size: 64, values: (_, marks) => marks.map((mark) => number(mark) + unit) }],
    series: [{ value: (_, at) => at === null ? "" : new Date(at * 1000).toLocaleString("en-GB") },
      ...lines.map(([label, line]) => ({ label, stroke: () => color(line), width: 2, points: { show: false }, spanGaps: false,
        value: (_, value) => value === null || value === undefined ? "–" : number(value) + unit }))],
  }, data, box);
}

function table(entries, by) {
  if (entries.length === 0) return h("p", { class: "empty" }, "No requests in this time.");
  const most = Math.max(...entries.map((one) => one.requests));
  const sorted = [...entries].sort((one, other) => other.requests - one.requests);
  const titles = [GROUPS[by], "Requests", "", "Errors", "Refused", "Tokens in", "Tokens out", "Cost", "50 % within", "95 % within"];
  return h("div", { class: "scroll" }, h("table", { class: "usage" },
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, sorted.map((one) => h("tr", {},
      h("th", { scope: "row" }, one.by[by] ? visible(one.by[by]) : h("span", { class: "dim" }, "none")),
      h("td", {}, number(one.requests)), h("td", {}, h("meter", { max: most, value: one.requests, "aria-hidden": "true" })),
      [one.client_errors + one.server_errors, one.refusals, one.prompt_tokens, one.completion_tokens].map((value) => h("td", {}, number(value))),
      h("td", {}, money(one.cost)), h("td", {}, ms(one.p50_ms)), h("td", {}, ms(one.p95_ms)))))));
}

function chosen([time, by]) {
  return [time in TIMES ? time : "24h", by in GROUPS ? by : "model"];
}

function select(label, options, value, act) {
  const box = h("select", { id: name("choice"), onchange: () => act(box.value) }, options.map(([value, title]) => h("option", { value }, title)));
  box.value = value;
  const field = h("p", { class: "field inline" }, h("label", { for: box.id }, label), box);
  field.box = box;
  return field;
}

function number(value) {
  return value >= 1e6 ? `${Number((value / 1e6).toPrecision(3))}M` : Number(value.toPrecision(6)).toLocaleString("en");
}

const money = (value) => value > 0 ? Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 }) : "–";
const ms = (value) => value === null ? "–" : `${Math.round(value).toLocaleString("en")} ms`;
