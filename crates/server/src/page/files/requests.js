// Running, recent and stored requests in a table, updated live, and the steps of the selected one.

import { get } from "/page/api.js";
import { badge, button, copy, failed, fill, h, keyed, name, setText } from "/page/dom.js";
import { cost, curl, facts, isFailed, stateOf, tokens } from "/page/facts.js";
import { replay } from "/page/replay.js";
import { address, go } from "/page/route.js";
import { state } from "/page/state.js";
import { detail } from "/page/steps.js";
import { clock, computer, day, moment, span, time } from "/page/words.js";

// The number of rows at first, and added on request.
const MOST = 100;
// The number of pages of stored requests that are read at a time, until the list is filled.
const MOST_PAGES = 10;
// The interval at which stored requests and those that called a plugin are read again, in milliseconds.
const PERIOD = 3_000;
const COLUMNS = ["Started", "Model", "User", "Status", "Duration", "First token", "Tokens", "Cost", "Endpoint", "Provider", "Steps", "Host"];
const NUMBERS = new Set(["Tokens", "Cost", "First token", "Duration"]);
// The title of each status, its requests, and the query for them.
const STATUSES = {
  running: ["Running", (request) => request.running, {}],
  answered: ["Answered", (request) => !request.running && !isFailed(request), { failed: false }],
  failed: ["Failed", isFailed, { failed: true }],
  refused: ["Refused (4xx)", (request) => request.status >= 400 && request.status < 500, { status: "4xx" }],
  broken: ["Errors (5xx)", (request) => request.status >= 500, { status: "5xx" }],
  left: ["Client disconnected", (request) => stateOf(request) === "client disconnected", { outcome: "disconnected" }],
};

export function requests(place, parts, scope) {
  const search = h("input", { type: "search", id: name("search"), autocomplete: "off", oninput: draw });
  const filters = ["model", "user", "key"].map((field) => choice(field[0].toUpperCase() + field.slice(1), select, (request) => request[field] ?? "", field));
  const plugin = choice("Plugin", select);
  const status = choice("Status", select);
  const least = input("Slower than (ms)", { type: "number", min: "0" }, select);
  const [from, to] = ["From", "To"].map((label) => input(label, { type: "datetime-local" }, select));
  const hold = h("input", { type: "checkbox", id: name("hold"), onchange: draw });
  const body = h("tbody");
  const summary = h("p", { class: "dim", role: "status" });
  const interval = h("div");
  const wrong = h("div");
  const more = button("Show more", () => { most += MOST; draw(); fetchMore(MOST_PAGES); }, { class: "quiet" });
  const one = h("div", { class: "detail" });
  fill(place,
    h("div", { class: "master" },
      h("h1", { tabindex: "-1", "data-focus": true }, "Requests"), wrong,
      h("div", { class: "search" },
        h("p", { class: "field" }, h("label", { for: search.id }, "Find"), search),
        [...filters, plugin, status, least, from, to].map(({ element }) => element),
        h("p", { class: "check" }, hold, h("label", { for: hold.id }, "Pause updates"))),
      interval, summary,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of requests" },
        h("table", { class: "requests" },
          h("thead", {}, h("tr", {}, COLUMNS.map((word) => h("th", { scope: "col", class: classOf(word) }, word)))), body)),
      h("p", {}, more)),
    one);
  let shown = null;
  let most = MOST;
  // The requests of a minute, in seconds: the start and the length, or null for all.
  let during = null;
  // The ids of the requests that called the chosen plugin; null before they are known.
  let called = null;
  // The selected requests that the host returned, by id, and the cursor of the next ones: undefined before the first are
  // known, null at the end.
  const found = new Map();
  let next;
  // The names in the usage of the last 30 days, by field.
  let names = {};
  // The error of the last read, or null.
  let problem = null;
  status.propose(Object.entries(STATUSES).map(([value, [title]]) => [value, title]));
  scope.on("requests", draw);
  scope.on("overview", draw);
  scope.every(PERIOD, () => reads());
  propose();
  open(parts);
  return open;

  function draw() {
    const why = problem ?? state.requestsProblem;
    fill(wrong, why && failed("Earlier requests could not be loaded", why));
    if (hold.checked) return;
    const all = known();
    for (const filter of filters) filter.propose([...new Set([...all.map(filter.of), ...(names[filter.field] ?? [])])].filter(Boolean).sort().map((value) => [value, value]));
    plugin.propose((state.overview?.plugins ?? []).map(({ id }) => [id, id]));
    const fitting = all.filter(fits);
    const running = fitting.filter((request) => request.running).length;
    setText(summary, `${running} running, ${fitting.length - running} finished${fitting.length < all.length ? ` of ${all.length} held` : ""}${next ? "; earlier ones are stored" : ""}`);
    place.dataset.hosts = new Set(all.map(({ host }) => host)).size > 1 ? "many" : "one";
    drawInterval(all, fitting);
    more.hidden = fitting.length <= most && !next;
    keyed(body, fitting.slice(0, most), (request) => request.id, row);
    const now = shown && state.requests.get(shown.id);
    if (now && shown.running && !now.running) load(shown.id);
  }

  // The requests from the latest to the earliest.
  function known() {
    return [...new Map([...found, ...state.requests]).values()].sort((one, other) => one.begun < other.begun ? 1 : -1);
  }

  // Begins with the requests that the changed fields select.
  function select() {
    found.clear();
    [called, next, most] = [null, undefined, MOST];
    draw();
    reads(MOST_PAGES);
  }

  function query() {
    const moment = (seconds) => new Date(seconds * 1000).toISOString();
    const time = during ? { from: moment(during.from), to: moment(during.from + during.step) }
      : { from: from.value && moment(Date.parse(from.value) / 1000), to: to.value && moment(Date.parse(to.value) / 1000) };
    const values = { ...Object.fromEntries(filters.map(({ field, value }) => [field, value])), plugin: plugin.value, min_ms: least.value,
      ...STATUSES[status.value]?.[2], ...time };
    return String(new URLSearchParams(Object.entries(values).filter(([, value]) => value !== "")));
  }

  function fits(request) {
    const word = search.value.trim().toLowerCase();
    const begun = Date.parse(request.begun) / 1000;
    return filters.every((filter) => !filter.value || filter.of(request) === filter.value)
      && (!plugin.value || called?.has(request.id))
      && (!status.value || STATUSES[status.value][1](request))
      && (!least.value || request.took_ms >= Number(least.value))
      && (!from.value || begun >= Date.parse(from.value) / 1000)
      && (!to.value || begun < Date.parse(to.value) / 1000)
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
      isGone && (state.stored ? "None of them is stored ([trace] store). " : `They are no longer held: this host keeps its latest requests (${all.length}${oldest ? `, since ${clock(oldest.begun)}` : ""}; [trace] turns). Their sums are under Usage. `),
      h("a", { href: address("requests") }, "Show all requests")));
  }

  // Reads the latest requests that called the chosen plugin or are stored.
  function reads(pages = 0) {
    if (!hold.checked && (plugin.value || state.stored)) read(null, pages);
  }

  // Reads stored requests until the list is filled.
  function fetchMore(pages) {
    if (next && pages > 0 && known().filter(fits).length < most) read(next, pages - 1);
  }

  async function read(cursor, pages) {
    const asked = query();
    try {
      const limit = state.stored ? MOST : 1000;
      const answer = await get(`/api/v1/traces?limit=${limit}&${asked}${cursor ? `&cursor=${encodeURIComponent(cursor)}` : ""}`);
      if (asked !== query() || scope.closed) return;
      called ??= new Set();
      for (const request of [...answer.live, ...answer.past]) {
        called.add(request.id);
        found.set(request.id, request);
      }
      if (cursor) next = answer.next;
      // Without a filter, the latest requests are known already.
      else if (next === undefined) next = asked || state.next === undefined ? answer.next : state.next;
      problem = answer.problem && new Error(answer.problem);
    } catch (error) {
      problem = error;
    }
    draw();
    if (!problem) fetchMore(pages);
  }

  // Reads the names that requests of the last days had.
  async function propose() {
    try {
      const { data } = await get("/api/v1/usage?from=30d&by=key,user,model");
      names = Object.fromEntries(filters.map(({ field }) => [field, new Set(data.map(({ by }) => by[field]))]));
      draw();
    } catch {
      // Names of the listed requests are proposed anyway.
    }
  }

  function open([id, first, second, model]) {
    const before = query();
    shown = null;
    const isList = !id || ["at", "status", "plugin", "model"].includes(id);
    place.dataset.open = isList ? "no" : "yes";
    if (id === "at" || !id) during = id && Number(first) ? { from: Number(first), step: Number(second) || 60 } : null;
    if (id === "status" && first in STATUSES) status.value = first;
    if (id === "plugin") plugin.value = first;
    if (id === "model" || model) filters[0].value = model ?? first;
    if (isList) {
      fill(one);
      if (next === undefined || query() !== before) select();
      else draw();
    } else load(id);
  }

  function row(request) {
    const link = h("a", { href: address("requests", request.id) });
    const word = badge("live");
    const cells = COLUMNS.map((column) => h("td", { class: classOf(column) }));
    cells[0].append(link);
    cells[3].append(word);
    const item = h("tr", {}, cells);
    item.update = (request) => {
      if (item.last === request) return;
      item.last = request;
      setText(link, moment(request.begun));
      word.dataset.state = request.running ? "running" : isFailed(request) ? "broken" : "live";
      setText(word, stateOf(request));
      const values = [null, request.model, request.user, null, request.running ? "" : time(request.took_ms * 1000), request.first_ms === null ? "–" : time(request.first_ms * 1000),
        tokens(request) || "–", cost(request), request.stream ? `${request.endpoint}, streamed` : request.endpoint, request.provider ?? "–",
        request.changed ? `${request.steps}, ${request.changed} changed` : String(request.steps), computer(request.host)];
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
    const ids = known().filter(fits).map((request) => request.id);
    const other = ids[ids.indexOf(id) - way];
    return ids.includes(id) && other && h("a", { href: address("requests", other) }, title);
  }
}

function classOf(column) {
  return NUMBERS.has(column) ? "number" : { Model: "long", User: "long", Host: "host" }[column] ?? null;
}

// A filter of the list with a field of any value.
function input(label, attributes, act) {
  const box = h("input", { id: name("filter"), onchange: act, ...attributes });
  return {
    element: h("p", { class: "field small" }, h("label", { for: box.id }, label), box),
    get value() {
      return box.value;
    },
  };
}

// A filter of the list with the values that it proposes.
function choice(label, act, of, field) {
  const box = h("select", { id: name("filter"), onchange: act });
  const element = h("p", { class: "field small" }, h("label", { for: box.id }, label), box);
  let known = null;
  const filter = {
    element,
    of,
    field,
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
