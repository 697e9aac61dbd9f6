// Running and recent requests in a table, updated live, and the steps of the selected one.

import { get } from "/page/api.js";
import { badge, button, copy, failed, fill, h, keyed, name, setText } from "/page/dom.js";
import { cost, curl, facts, isFailed, stateOf, tokens } from "/page/facts.js";
import { replay } from "/page/replay.js";
import { address, go } from "/page/route.js";
import { state } from "/page/state.js";
import { detail } from "/page/steps.js";
import { clock, day, span, time } from "/page/words.js";

// The number of rows at first, and added on request.
const MOST = 100;
// The interval at which the requests that called a plugin are read again, in milliseconds.
const PERIOD = 3_000;
const COLUMNS = ["Started", "Model", "User", "Status", "Duration", "First token", "Tokens", "Cost", "Endpoint", "Provider", "Steps"];
const NUMBERS = new Set(["Tokens", "Cost", "First token", "Duration"]);
const STATUSES = {
  running: ["Running", (request) => request.running],
  answered: ["Answered", (request) => !request.running && !isFailed(request)],
  failed: ["Failed", isFailed],
  refused: ["Refused (4xx)", (request) => request.status >= 400 && request.status < 500],
  broken: ["Errors (5xx)", (request) => request.status >= 500],
  left: ["Client disconnected", (request) => stateOf(request) === "client disconnected"],
};

export function requests(place, parts, scope) {
  const search = h("input", { type: "search", id: name("search"), autocomplete: "off", oninput: draw });
  const filters = ["model", "user", "key"].map((field) => choice(field[0].toUpperCase() + field.slice(1), draw, (request) => request[field] ?? ""));
  const plugin = choice("Plugin", () => { called = null; draw(); reads(); });
  const status = choice("Status", draw);
  const hold = h("input", { type: "checkbox", id: name("hold"), onchange: draw });
  const body = h("tbody");
  const summary = h("p", { class: "dim", role: "status" });
  const interval = h("div");
  const wrong = h("div");
  const more = button("Show more", () => { most += MOST; draw(); }, { class: "quiet" });
  const one = h("div", { class: "detail" });
  fill(place,
    h("div", { class: "master" },
      h("h1", { tabindex: "-1", "data-focus": true }, "Requests"), wrong,
      h("div", { class: "search" },
        h("p", { class: "field" }, h("label", { for: search.id }, "Find"), search),
        [...filters, plugin, status].map(({ element }) => element),
        h("p", { class: "check" }, hold, h("label", { for: hold.id }, "Pause updates"))),
      interval, summary,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of requests" },
        h("table", { class: "requests" },
          h("thead", {}, h("tr", {}, COLUMNS.map((word) => h("th", { scope: "col", class: NUMBERS.has(word) ? "number" : null }, word)))), body)),
      h("p", {}, more)),
    one);
  let shown = null;
  let most = MOST;
  // The requests of a minute, in seconds: the start and the length, or null for all.
  let during = null;
  // The ids of the requests that called the chosen plugin; null before they are known.
  let called = null;
  status.propose(Object.entries(STATUSES).map(([value, [title]]) => [value, title]));
  scope.on("requests", draw);
  scope.on("overview", draw);
  scope.every(PERIOD, reads);
  open(parts);
  return open;

  function draw() {
    fill(wrong, state.requestsProblem && failed("Earlier requests could not be loaded", state.requestsProblem));
    if (hold.checked) return;
    const all = [...state.requests.values()].reverse();
    for (const filter of filters) filter.propose([...new Set(all.map(filter.of))].filter(Boolean).sort().map((value) => [value, value]));
    plugin.propose((state.overview?.plugins ?? []).map(({ id }) => [id, id]));
    const fitting = all.filter(fits);
    const running = fitting.filter((request) => request.running).length;
    setText(summary, `${running} running, ${fitting.length - running} finished${fitting.length < all.length ? ` of ${all.length} held` : ""}`);
    drawInterval(all, fitting);
    more.hidden = fitting.length <= most;
    keyed(body, fitting.slice(0, most), (request) => request.id, row);
    const now = shown && state.requests.get(shown.id);
    if (now && shown.running && !now.running) load(shown.id);
  }

  function fits(request) {
    const word = search.value.trim().toLowerCase();
    const begun = Date.parse(request.begun) / 1000;
    return filters.every((filter) => !filter.value || filter.of(request) === filter.value)
      && (!plugin.value || called?.has(request.id))
      && (!status.value || STATUSES[status.value][1](request))
      && (!during || (begun >= during.from && begun < during.from + during.step))
      && (!word || `${request.model} ${request.user} ${request.endpoint} ${request.provider} ${request.key} ${request.chat_id} ${request.id}`.toLowerCase().includes(word));
  }

  function drawInterval(all, fitting) {
    if (!during) {
      fill(interval);
      return;
    }
    const oldest = all.at(-1);
    const isGone = fitting.length === 0 && (!oldest || Date.parse(oldest.begun) / 1000 > during.from);
    fill(interval, h("p", { class: isGone ? "notice" : "dim" }, `Requests that began within ${span(during.step)} from ${day(during.from)}. `,
      isGone && `They are no longer held: this host keeps its latest requests (${all.length}${oldest ? `, since ${clock(oldest.begun)}` : ""}; [trace] turns). Their sums are under Usage. `,
      h("a", { href: address("requests") }, "Show all requests")));
  }

  // Reads which requests called the chosen plugin.
  async function reads() {
    const chosen = plugin.value;
    if (!chosen || hold.checked) return;
    try {
      const { live, past } = await get(`/api/v1/traces?limit=1000&plugin=${encodeURIComponent(chosen)}`);
      if (chosen !== plugin.value || scope.closed) return;
      called = new Set([...live, ...past].map(({ id }) => id));
      draw();
    } catch (error) {
      fill(wrong, failed("The requests of the plugin could not be loaded", error));
    }
  }

  function open([id, first, second]) {
    shown = null;
    const isList = !id || ["at", "status", "plugin"].includes(id);
    place.dataset.open = isList ? "no" : "yes";
    if (id === "at" || !id) during = id && Number(first) ? { from: Number(first), step: Number(second) || 60 } : null;
    if (id === "status" && first in STATUSES) status.value = first;
    if (id === "plugin") plugin.value = first;
    if (isList) {
      fill(one);
      draw();
      reads();
    } else load(id);
  }

  function row(request) {
    const link = h("a", { href: address("requests", request.id) });
    const word = badge("live");
    const cells = COLUMNS.map((column) => h("td", { class: NUMBERS.has(column) ? "number" : ["Model", "User"].includes(column) ? "long" : null }));
    cells[0].append(link);
    cells[3].append(word);
    const item = h("tr", {}, cells);
    item.update = (request) => {
      if (item.last === request) return;
      item.last = request;
      setText(link, clock(request.begun));
      word.dataset.state = request.running ? "running" : isFailed(request) ? "broken" : "live";
      setText(word, stateOf(request));
      const values = [null, request.model, request.user, null, request.running ? "" : time(request.took_ms * 1000), request.first_ms === null ? "–" : time(request.first_ms * 1000),
        tokens(request) || "–", cost(request), request.stream ? `${request.endpoint}, streamed` : request.endpoint, request.provider ?? "–",
        request.changed ? `${request.steps}, ${request.changed} changed` : String(request.steps)];
      values.forEach((value, place) => value !== null && setText(cells[place], value));
      cells[1].title = request.model;
      cells[3].title = request.error ?? "";
    };
    return item;
  }

  async function load(id) {
    try {
      const trace = await get(`/api/v1/traces/${encodeURIComponent(id)}`);
      shown = trace;
      const steps = h("div", { class: "models" });
      detail(steps, trace);
      fill(one, h("p", { class: "back" }, h("a", { href: during ? address("requests", "at", String(during.from), String(during.step)) : address("requests") }, "← All requests")),
        h("div", { class: "row" }, h("h2", { tabindex: "-1", "data-focus": true }, `Request ${trace.id}`),
          h("p", { class: "actions" }, beside(id, 1, "Newer"), beside(id, -1, "Older"),
            button("Copy as curl", () => copy(curl(trace))), button("Open in test chat", () => go("try", "from", trace.id)))),
        facts(trace), trace.error && h("pre", { class: "wrong", tabindex: "0" }, trace.error), steps, replay(trace));
    } catch (error) {
      fill(one, h("p", { class: "back" }, h("a", { href: address("requests") }, "← All requests")), failed(`Request ${id} could not be loaded`, error));
    }
  }

  // A link to the next request in one direction.
  function beside(id, way, title) {
    const ids = [...state.requests.values()].filter(fits).map((request) => request.id);
    const other = ids[ids.indexOf(id) + way];
    return ids.includes(id) && other && h("a", { href: address("requests", other) }, title);
  }
}

// A filter of the list with the values that it proposes.
function choice(label, act, of) {
  const box = h("select", { id: name("filter"), onchange: act });
  const element = h("p", { class: "field small" }, h("label", { for: box.id }, label), box);
  let known = null;
  const filter = {
    element,
    of,
    get value() {
      return box.value;
    },
    set value(value) {
      if (![...box.options].some((option) => option.value === value)) box.append(h("option", { value }, value));
      box.value = value;
    },
    propose(options) {
      const text = JSON.stringify(options);
      if (text === known) return;
      known = text;
      const chosen = box.value;
      fill(box, h("option", { value: "" }, "All"), options.map(([value, title]) => h("option", { value }, title)));
      if (chosen) filter.value = chosen;
    },
  };
  return filter;
}
