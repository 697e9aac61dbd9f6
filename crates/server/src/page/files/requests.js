// Running and recent requests, updated live, and the steps of the selected one.

import { get } from "/page/api.js";
import { badge, failed, fill, h, keyed, name, rowsOf, setText } from "/page/dom.js";
import { replay } from "/page/replay.js";
import { address } from "/page/route.js";
import { state } from "/page/state.js";
import { detail } from "/page/steps.js";
import { clock, count, time } from "/page/words.js";

// The maximum number of rows.
const MOST = 100;

export function requests(place, parts, scope) {
  const search = h("input", { type: "search", id: name("search"), autocomplete: "off", oninput: draw });
  const failedOnly = h("input", { type: "checkbox", id: name("failed"), onchange: draw });
  const hold = h("input", { type: "checkbox", id: name("hold"), onchange: draw });
  const body = h("tbody");
  const summary = h("p", { class: "dim" });
  const wrong = h("div");
  const one = h("div", { class: "detail" });
  fill(place,
    h("div", { class: "master" },
      h("h1", { tabindex: "-1", "data-focus": true }, "Requests"), wrong,
      h("div", { class: "search" },
        h("p", { class: "field" }, h("label", { for: search.id }, "Find"), search),
        h("p", { class: "check" }, failedOnly, h("label", { for: failedOnly.id }, "Failed only")),
        h("p", { class: "check" }, hold, h("label", { for: hold.id }, "Pause updates"))),
      summary,
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of requests" },
        h("table", { class: "requests" },
          h("thead", {}, h("tr", {}, ["Started", "Model", "User", "Status", "Duration", "Steps"].map((word) => h("th", { scope: "col" }, word)))), body))),
    one);
  let shown = null;
  scope.on("requests", draw);
  draw();
  open(parts);
  return open;

  function draw() {
    fill(wrong, state.requestsProblem && failed("Earlier requests could not be loaded", state.requestsProblem));
    if (hold.checked) return;
    const word = search.value.trim().toLowerCase();
    const all = [...state.requests.values()].reverse();
    const fits = (request) => (!failedOnly.checked || isFailed(request))
      && (!word || `${request.model} ${request.user} ${request.endpoint} ${request.chat_id} ${request.id}`.toLowerCase().includes(word));
    const fitting = all.filter(fits);
    const running = all.filter((request) => request.running).length;
    setText(summary, `${running} running, ${all.length - running} finished${fitting.length > MOST ? `; showing the last ${MOST}` : ""}`);
    keyed(body, fitting.slice(0, MOST), (request) => request.id, row);
    const now = shown && state.requests.get(shown.id);
    if (now && shown.running && !now.running) load(shown.id);
  }

  function open([id]) {
    place.dataset.open = id ? "yes" : "no";
    for (const [key, row] of rowsOf(body)) row.mark(key === id);
    shown = null;
    if (id) load(id);
    else fill(one, h("p", { class: "empty" }, "Select a request to see its steps."));
  }

  function row(request) {
    const cells = Array.from({ length: 4 }, () => h("td"));
    const link = h("a", { href: address("requests", request.id) });
    const word = badge("live");
    const item = h("tr", {}, h("td", {}, link), cells[0], cells[1], h("td", {}, word), cells[2], cells[3]);
    item.update = (request) => {
      if (item.last === request) return;
      item.last = request;
      setText(link, clock(request.begun));
      setText(cells[0], request.model);
      setText(cells[1], request.user);
      word.dataset.state = request.running ? "running" : isFailed(request) ? "broken" : "live";
      setText(word, stateOf(request));
      setText(cells[2], request.running ? "" : time(request.took_ms * 1000));
      setText(cells[3], request.changed ? `${request.steps}, ${request.changed} changed` : String(request.steps));
    };
    item.mark = (isOpen) => isOpen ? item.setAttribute("aria-current", "true") : item.removeAttribute("aria-current");
    item.mark(shown?.id === request.id);
    return item;
  }

  async function load(id) {
    try {
      const trace = await get(`/api/v1/traces/${encodeURIComponent(id)}`);
      shown = trace;
      const steps = h("div");
      detail(steps, trace);
      fill(one, h("p", { class: "back" }, h("a", { href: address("requests") }, "All requests")),
        h("h2", { tabindex: "-1", "data-focus": true }, `Request ${trace.id}`), facts(trace),
        trace.error && h("pre", { class: "wrong", tabindex: "0" }, trace.error), steps, replay(trace));
    } catch (error) {
      fill(one, failed(`Request ${id} could not be loaded`, error));
    }
  }
}

export function facts(trace) {
  const rows = [["Model", trace.model], ["User", trace.user], ["Chat", trace.chat_id], ["Endpoint", trace.stream ? `${trace.endpoint}, streamed` : trace.endpoint],
    ["Status", stateOf(trace)], ["Duration", trace.running ? "" : time(trace.took_ms * 1000)], ["Generation", String(trace.generation)]];
  return h("dl", { class: "figures" }, rows.filter(([, value]) => value).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

function isFailed(request) {
  return !request.running && (request.status >= 400 || Boolean(request.error) || !request.whole);
}

function stateOf(request) {
  if (request.running) return "running";
  if (!request.whole && !request.error && request.status < 400) return "client disconnected";
  return request.error && request.status < 400 ? `${request.status}, interrupted` : String(request.status || "no answer");
}
