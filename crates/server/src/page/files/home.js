// The overview: the status in a sentence, problems with their fix, and curves of the use.

import { get } from "/page/api.js";
import { approvals } from "/page/approvals.js";
import { figuresOf, TIMES, timeChoice, usageCurves } from "/page/curves.js";
import { failed, fill, h, setText } from "/page/dom.js";
import { firstSteps } from "/page/first.js";
import { ACTIONS } from "/page/history.js";
import { problemList } from "/page/problems.js";
import { address, go } from "/page/route.js";
import { reload, standing, state } from "/page/state.js";
import { statusLine } from "/page/status.js";
import { count, day, short, span } from "/page/words.js";

// The interval of polls, in milliseconds.
const PERIOD = 15_000;
const MINUTE = 60_000;
// The time of recent failures, in seconds.
const RECENT = 300;
// The maximum number of plugins whose histories are read for marks.
const MOST_CHANGED = 30;
// The number of changes that are listed.
const LISTED = 6;
// Changes within so many seconds are one mark.
const TOGETHER = 10;

let time = "1h";

export function home(place, _parts, scope) {
  const status = statusLine();
  const wrong = h("h2", {}, "Problems");
  const problems = problemList({ linked: true });
  const section = h("section", { "aria-label": "Problems" }, wrong, problems);
  const facts = h("span");
  const providers = h("a", { href: address("models") });
  const steps = firstSteps();
  const totals = h("dl", { class: "figures" });
  const curves = usageCurves(scope, (at, step) => go("requests", "at", String(at), String(step)));
  const lately = h("div");
  const unknown = h("div");
  const use = h("section", { "aria-label": "Use" }, h("div", { class: "row" }, h("h2", {}, "Use"), timeChoice(time, (chosen) => { time = chosen; load(); })),
    unknown, totals, curves.element, lately);
  fill(place,
    h("h1", { class: "unseen", tabindex: "-1", "data-focus": true }, "Overview"),
    status, h("p", { class: "dim" }, providers, facts), section, approvals(scope), steps, use);
  // The changes of the shown time, and the generation up to which they are known.
  let changes = { key: "", all: [] };
  let marks = [];
  let recent = null;
  // The error of the last poll if the host could not be reached.
  let away = null;
  scope.on("overview", update);
  scope.on("figures", draw);
  scope.on("requests", draw);
  scope.on("connection", draw);
  update();
  // The status and the chains are painted before the curves.
  setTimeout(load, 100);
  scope.every(PERIOD, load);
  scope.every(PERIOD, reload);

  function update() {
    const overview = state.overview;
    if (!overview) return draw();
    const errors = overview.problems.filter((problem) => problem.severity === "error").length;
    // The first line says which models are refused.
    const shown = overview.problems.filter((problem) => problem.state !== "refused");
    setText(wrong, `Problems (${shown.length})`);
    wrong.dataset.severity = errors ? "error" : "";
    section.hidden = shown.length === 0;
    problems.update(shown);
    draw();
  }

  function draw() {
    status.update(recent, away);
    steps.update(recent);
    use.hidden = recent?.ever === false;
    const overview = state.overview;
    if (!overview) return;
    const live = overview.plugins.filter((plugin) => standing(plugin) === "live").length;
    const running = [...state.requests.values()].filter((request) => request.running).length;
    const unwell = overview.providers.filter(({ state, targets }) => state !== "used" || targets.some(({ rests_s: rest }) => rest !== null));
    setText(providers, [count(overview.models.length, "model"), count(overview.providers.length, "provider"), ...unwell.map((one) => `${one.name}: ${one.state === "used" ? "keys at rest" : "breaker open"}`)].join(", "));
    setText(facts, ["", `${live} of ${count(overview.plugins.length, "plugin")} live`, `${count(running, "request")} running`,
      `generation ${overview.generation}`, `up ${span(Math.max(1, Date.now() / 1000 - state.begun))}`, `version ${overview.version}`].join(" · "));
  }

  async function load() {
    const shown = time;
    try {
      const [over, all, minutes, ever] = await Promise.all([
        get(`/api/v1/usage?from=${shown}&step=${TIMES[shown][2] / 60}m`), get(`/api/v1/usage?from=${shown}`),
        get(`/api/v1/usage?from=${RECENT}s`), recent?.ever ? null : get("/api/v1/usage?from=30d"),
      ]);
      if (scope.closed || shown !== time) return;
      const last = minutes.data[0];
      recent = { requests: last?.requests ?? 0, failed: last?.server_errors ?? 0, ever: recent?.ever || (ever?.data.length ?? 0) > 0 };
      away = null;
      fill(unknown);
      figuresOf(totals, all.data[0]);
      curves.draw(over.data, shown, marks);
      draw();
      const found = await changed(shown);
      if (scope.closed || shown !== time) return;
      if (JSON.stringify(found) === JSON.stringify(marks)) return;
      marks = found;
      curves.draw(over.data, shown, marks);
      fill(lately, marks.length > 0 && changeList(marks));
    } catch (error) {
      if (scope.closed) return;
      away = error.status === 0 ? error : null;
      fill(unknown, failed("The use could not be loaded", error));
      draw();
    }
  }

  // Returns the start of the host and the changes of plugins within a time, newest first.
  async function changed(time) {
    // Other hosts change the history as well.
    const key = `${time} ${state.overview?.generation} ${Math.floor(Date.now() / MINUTE)}`;
    const from = Date.now() / 1000 - TIMES[time][1];
    if (changes.key !== key) {
      // The list of deleted plugins waits until the last change is in the history.
      const deleted = await get("/api/v1/functions/deleted");
      const plugins = await get("/api/v1/functions/list");
      const recently = [...plugins.filter((one) => one.version !== null).map((one) => ({ id: one.id, at: one.updated_at, version: one.version })),
        ...deleted.map((one) => ({ id: one.id, at: one.deleted_at, version: one.version }))].filter(({ at }) => at >= from);
      // The first version of a plugin adds it, and needs no history.
      const added = recently.filter(({ version }) => version === 1).map((one) => ({ ...one, action: "added" }));
      const ids = recently.filter(({ version }) => version > 1).sort((one, other) => other.at - one.at).slice(0, MOST_CHANGED).map(({ id }) => id);
      const histories = await Promise.all(ids.map((id) => get(`/api/v1/functions/id/${encodeURIComponent(id)}/history`).catch(() => [])));
      changes = { key, all: [...added, ...histories.flatMap((entries, place) => entries.map((entry) => ({ ...entry, id: ids[place], action: entry.version === 1 ? "added" : entry.action })))] };
    }
    const begun = state.begun ? [{ at: state.begun, id: null }] : [];
    return grouped([...changes.all, ...begun].filter(({ at }) => at >= from).sort((one, other) => other.at - one.at));
  }
}

// Changes of one kind at one time, such as those of a checkout, are one mark.
function grouped(changes) {
  const marks = [];
  for (const change of changes) {
    const last = marks.at(-1);
    if (change.id !== null && last?.action === change.action && last.at - change.at < TOGETHER) last.all.push(change);
    else marks.push({ ...change, all: [change] });
  }
  return marks;
}

function changeList(marks) {
  return h("section", { "aria-label": "Changes" }, h("ul", { class: "changed-list" },
    marks.slice(0, LISTED).map((mark) => h("li", {}, h("time", {}, day(mark.at)), mark.id === null ? "the host started" : mark.all.length > 1 ? several(mark) : single(mark))),
    marks.length > LISTED && h("li", { class: "dim" }, `and ${marks.length - LISTED} more, marked in the curves`)));
}

function several({ all, action }) {
  return [`${count(all.length, "plugin")}: ${ACTIONS[action] ?? action} (`, all.slice(0, 3).map((one, place) => [place > 0 && ", ", link(one)]), all.length > 3 && " …", ")"];
}

function single(mark) {
  const valves = mark.valves_changed ?? [];
  return [link(mark), ` ${ACTIONS[mark.action] ?? mark.action}`, valves.length > 0 && `: ${short(valves.join(", "), 80)}`, mark.by && mark.action !== "file" && ` by ${mark.by}`];
}

function link(change) {
  return h("a", { href: address("plugins", change.id, "history", String(change.version)), "aria-label": `Version ${change.version} of ${change.id}` }, change.id);
}
