// The guards that ran in the requests of the last hour: a row for each endpoint, model and user, a cell for each hook.

import { get } from "/page/api.js";
import { failed, fill, h } from "/page/dom.js";
import { count } from "/page/words.js";

const STATES = { covered: "covered", partly: "partially covered", uncovered: "no guard ran" };
// The interval of polls, in milliseconds.
const PERIOD = 10_000;

export function coverage(place, _parts, scope) {
  const body = h("div", {}, h("p", { class: "empty" }, "Loading."));
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Coverage"),
    h("p", { class: "dim" }, "Guards that ran in the answered requests of the last hour. Red means that no guard ran."), body);
  const load = async () => {
    try {
      const table = await get("/api/v1/coverage");
      if (!scope.closed) fill(body, drawn(table));
    } catch (error) {
      if (!scope.closed) fill(body, failed("The coverage could not be loaded", error));
    }
  };
  load();
  scope.every(PERIOD, load);
}

function drawn({ guards, data }) {
  if (guards.length === 0) return h("p", { class: "empty" }, "No guards: no filter declares `security: true`.");
  if (data.length === 0) return h("p", { class: "empty" }, "No requests in the last hour.");
  const hooks = [...new Set(data.flatMap((row) => row.hooks.map((cell) => cell.hook)))];
  return h("div", { class: "scroll" }, h("table", { class: "coverage" },
    h("thead", {}, h("tr", {}, ["Endpoint", "Model", "User", "Requests", ...hooks].map((name) => h("th", { scope: "col" }, name)))),
    h("tbody", {}, data.map((row) => h("tr", {},
      h("td", {}, row.endpoint), h("td", {}, row.model), h("td", {}, row.user || "–"), h("td", {}, String(row.requests)),
      hooks.map((hook) => cell(row.hooks.find((one) => one.hook === hook))))))));
}

function cell(found) {
  if (!found) return h("td", { class: "dim" }, "–");
  const ran = found.guards.filter((guard) => guard.requests > 0);
  const names = ran.map((guard) => (guard.requests === found.requests ? guard.id : `${guard.id} (${guard.requests})`));
  const title = `${STATES[found.state]}: ${count(found.requests, "request")}`;
  return h("td", { "data-state": found.state, title }, names.join(", ") || STATES.uncovered);
}
