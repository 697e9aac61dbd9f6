// What clients used: curves over time, and tables by key, user, model and provider.

import { get } from "/page/api.js";
import { errorsOf, figuresOf, TIMES, usageCurves } from "/page/curves.js";
import { failed, fill, h, name } from "/page/dom.js";
import { go } from "/page/route.js";
import { ms, number, visible } from "/page/words.js";

const GROUPS = { key: "Key", user: "User", model: "Model", provider: "Provider", endpoint: "Endpoint", plugin: "Refusing filter" };
// The interval of polls, in milliseconds.
const PERIOD = 15_000;

export function usage(place, parts, scope) {
  let [time, by] = chosen(parts);
  const totals = h("dl", { class: "figures" });
  const curves = usageCurves(scope, (at, step) => go("requests", "at", String(at), String(step)));
  const groups = h("div", {});
  const wrong = h("div");
  const times = select("Time", Object.entries(TIMES).map(([value, [title]]) => [value, title]), time, (value) => go("usage", value, by));
  const group = select("Group", Object.entries(GROUPS), by, (value) => go("usage", time, value));
  fill(place, h("div", { class: "row" }, h("h1", { tabindex: "-1", "data-focus": true }, "Usage"),
    h("div", { class: "row start" }, times, group)), wrong, totals, curves.element, h("h2", {}, "By group"), groups);
  load();
  scope.every(PERIOD, load);
  return (parts) => {
    [time, by] = chosen(parts);
    times.box.value = time;
    group.box.value = by;
    load();
  };

  async function load() {
    const shown = [time, by].join();
    try {
      const [over, sums, all] = await Promise.all([
        get(`/api/v1/usage?from=${time}&step=${TIMES[time][2] / 60}m`),
        get(`/api/v1/usage?from=${time}&by=${by}`),
        get(`/api/v1/usage?from=${time}`),
      ]);
      if (scope.closed || shown !== [time, by].join()) return;
      fill(wrong);
      figuresOf(totals, all.data[0]);
      curves.draw(over.data, time);
      fill(groups, table(sums.data, by));
    } catch (error) {
      if (!scope.closed) fill(wrong, failed("The usage could not be loaded", error));
    }
  }
}

function table(entries, by) {
  if (entries.length === 0) return h("p", { class: "empty" }, "No requests in this time.");
  const most = Math.max(...entries.map((one) => one.requests));
  const sorted = [...entries].sort((one, other) => other.requests - one.requests);
  const titles = ["Requests", "", "Errors", "Refused", "Tokens in", "Tokens out", "Cost", "50 % within", "95 % within"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "By group" }, h("table", { class: "usage" },
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, GROUPS[by]), titles.map((title) => h("th", { scope: "col", class: title ? "number" : null }, title)))),
    h("tbody", {}, sorted.map((one) => h("tr", {},
      h("th", { scope: "row" }, one.by[by] ? visible(one.by[by]) : h("span", { class: "dim" }, "none")),
      h("td", { class: "number" }, number(one.requests)), h("td", {}, h("meter", { max: most, value: one.requests, "aria-hidden": "true" })),
      [errorsOf(one), one.refusals, one.prompt_tokens, one.completion_tokens].map((value) => h("td", { class: "number" }, number(value))),
      [one.cost > 0 ? number(one.cost) : "–", ms(one.p50_ms), ms(one.p95_ms)].map((value) => h("td", { class: "number" }, value)))))));
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
