// The overview: problems first, then the plugin chain of each model.

import { get, post } from "/page/api.js";
import { button, failed, fill, h, keyed, setText, notify } from "/page/dom.js";
import { chain } from "/page/chain.js";
import { problemList } from "/page/problems.js";
import { address } from "/page/route.js";
import { standing, state } from "/page/state.js";
import { count, span, visible } from "/page/words.js";

// The number of chains that are expanded when the page opens.
const OPEN = 3;
// The interval of polls for pending approvals, in milliseconds.
const PERIOD = 3_000;

export function home(place, _parts, scope) {
  const wrong = h("h2", {}, "Problems");
  const problems = problemList({ linked: true });
  const well = h("p", { class: "empty" });
  const figures = h("dl", { class: "figures" });
  const models = h("div", { class: "models" });
  const missing = h("div");
  const user = h("input", { id: "chain-user", autocomplete: "off", placeholder: "any user" });
  fill(place,
    h("h1", { tabindex: "-1", "data-focus": true }, "Overview"),
    missing, approvals(scope), figures,
    h("section", { "aria-label": "Problems" }, wrong, well, problems),
    h("section", { "aria-label": "Models" },
      h("div", { class: "row" }, h("h2", {}, "Models and their chains"),
        h("p", { class: "field inline" }, h("label", { for: user.id }, "For user"), user)),
      models));
  const chosen = () => user.value.trim();
  user.addEventListener("change", () => update());
  scope.on("overview", update);
  scope.on("figures", draw);
  scope.on("requests", draw);
  update();

  function update() {
    fill(missing, state.problem && failed("The overview could not be loaded", state.problem));
    const overview = state.overview;
    if (!overview) return;
    const errors = overview.problems.filter((problem) => problem.severity === "error").length;
    setText(wrong, overview.problems.length ? `Problems (${overview.problems.length})` : "Problems");
    wrong.dataset.severity = errors ? "error" : "";
    setText(well, overview.problems.length ? "" : "No problems. Every plugin runs its current file.");
    well.hidden = overview.problems.length > 0;
    problems.update(overview.problems);
    let place = 0;
    keyed(models, overview.models, (model) => model.id, (model) => modelCard(model, chosen, place++ < OPEN));
    draw();
  }

  function draw() {
    const overview = state.overview;
    if (!overview) return;
    const plugins = overview.plugins;
    const live = plugins.filter((plugin) => standing(plugin) === "live").length;
    const running = [...state.requests.values()].filter((request) => request.running).length;
    const calls = plugins.reduce((sum, plugin) => sum + plugin.stats.calls, 0);
    const broken = plugins.reduce((sum, plugin) => sum + plugin.stats.broken, 0);
    const rows = [
      ["Plugins live", `${live} of ${plugins.length}`, address("plugins")],
      ["Requests running", String(running), address("requests")],
      ["Plugin calls", broken ? `${calls.toLocaleString("en")}, ${broken} failed` : calls.toLocaleString("en")],
      ["Providers", overview.providers.map((one) => one.state === "used" ? one.name : `${one.name} (${one.state})`).join(", ") || "none"],
      ["Generation", String(overview.generation)],
      ["Uptime", span(overview.uptime_s)],
      ["Version", overview.version],
    ];
    keyed(figures, rows, ([label]) => label, ([label, , link]) => {
      const value = link ? h("a", { href: link }) : h("span");
      const row = h("div", {}, h("dt", {}, label), h("dd", {}, value));
      row.update = ([, text]) => setText(value, text);
      return row;
    });
  }
}

// Tool calls that wait for an approval because their clients cannot show questions.
function approvals(scope) {
  const list = h("div", { class: "models" });
  const place = h("section", { "aria-label": "Approvals", hidden: true }, h("h2", {}, "Waiting for approval"), list);
  load();
  scope.every(PERIOD, load);
  return place;

  async function load() {
    try {
      const waiting = (await get("/api/v1/questions")).data;
      if (scope.closed) return;
      place.hidden = waiting.length === 0;
      keyed(list, waiting, (one) => one.id, approval);
    } catch {
      // The overview shows the problem of the host.
    }
  }

  function approval(one) {
    const left = h("span", { class: "dim" });
    const tool = visible(one.data.tool);
    const card = h("div", { class: "card" },
      h("p", {}, h("strong", {}, tool), " with ", h("code", {}, visible(JSON.stringify(one.data.arguments)))),
      h("p", { class: "dim" }, [one.model && `model ${one.model}`, one.user && `user ${one.user}`, one.host && `host ${one.host}`].filter(Boolean).map(visible).join(" · "), " ", left),
      h("p", { class: "actions" },
        button("Approve", () => answer(one, true), { class: "main", "aria-label": `Approve ${tool}` }),
        button("Reject", () => answer(one, false), { class: "danger", "aria-label": `Reject ${tool}` })));
    card.update = (one) => setText(left, `${span(Math.ceil(one.left_ms / 1000))} left`);
    return card;
  }

  async function answer(one, approved) {
    try {
      await post(`/api/v1/questions/${one.id}`, { approved });
    } catch (error) {
      notify(error.message);
    }
    load();
  }
}

function modelCard(model, user, isOpen) {
  const summary = h("span", { class: "dim" });
  const tools = h("p", { class: "tools" });
  const buttons = h("p", { class: "tools" });
  const held = chain(model.id);
  const card = h("details", { class: "card model", open: isOpen },
    h("summary", {}, h("h3", {}, model.id), " ", summary), held, tools, buttons);
  card.addEventListener("toggle", () => card.open && held.load(user()));
  let shown = null;
  card.update = (model) => {
    setText(summary, [model.provider, model.memory && "memory", model.tools.length && count(model.tools.length, "tool")].filter(Boolean).join(" · "));
    fill(tools, model.tools.length ? ["Tools: ", model.tools.join(", ")] : null);
    tools.hidden = model.tools.length === 0;
    fill(buttons, model.actions.length ? ["Action buttons: ", model.actions.map(({ name }) => name).join(", ")] : null);
    buttons.hidden = model.actions.length === 0;
    const now = `${state.overview.generation} ${user()}`;
    // A collapsed chain is loaded when it is expanded.
    if (card.open && now !== shown) held.load(user());
    shown = now;
  };
  return card;
}
