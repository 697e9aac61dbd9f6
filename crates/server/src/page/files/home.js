// What is wrong first, then how each model's requests go through the plugins.

import { failed, fill, h, keyed, say } from "/page/dom.js";
import { chain } from "/page/chain.js";
import { problemList } from "/page/problems.js";
import { address } from "/page/route.js";
import { standing, state } from "/page/state.js";
import { count, span } from "/page/words.js";

// Chains that are open when the page is.
const OPEN = 3;

export function home(place, _parts, scope) {
  const wrong = h("h2", {}, "Problems");
  const problems = problemList({ linked: true });
  const well = h("p", { class: "empty" });
  const figures = h("dl", { class: "figures" });
  const models = h("div", { class: "models" });
  const missing = h("div");
  const user = h("input", { id: "chain-user", autocomplete: "off", placeholder: "nobody in particular" });
  fill(place,
    h("h1", { tabindex: "-1", "data-focus": true }, "Overview"),
    missing, figures,
    h("section", { "aria-label": "Problems" }, wrong, well, problems),
    h("section", { "aria-label": "Models" },
      h("div", { class: "row" }, h("h2", {}, "Models and their chains"),
        h("p", { class: "field inline" }, h("label", { for: user.id }, "as the user"), user)),
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
    say(wrong, overview.problems.length ? `Problems (${overview.problems.length})` : "Problems");
    wrong.dataset.severity = errors ? "error" : "";
    say(well, overview.problems.length ? "" : "None: every plugin runs as its file says.");
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
      ["Calls of plugins", broken ? `${calls.toLocaleString("en")}, ${broken} broken` : calls.toLocaleString("en")],
      ["Providers", overview.providers.map((one) => one.state === "used" ? one.name : `${one.name} (${one.state})`).join(", ") || "none"],
      ["Generation", String(overview.generation)],
      ["Up for", span(overview.uptime_s)],
      ["Version", overview.version],
    ];
    keyed(figures, rows, ([label]) => label, ([label, , link]) => {
      const value = link ? h("a", { href: link }) : h("span");
      const row = h("div", {}, h("dt", {}, label), h("dd", {}, value));
      row.update = ([, text]) => say(value, text);
      return row;
    });
  }
}

function modelCard(model, user, isOpen) {
  const summary = h("span", { class: "dim" });
  const tools = h("p", { class: "tools" });
  const held = chain(model.id);
  const card = h("details", { class: "card model", open: isOpen },
    h("summary", {}, h("h3", {}, model.id), " ", summary), held, tools);
  card.addEventListener("toggle", () => card.open && held.load(user()));
  let shown = null;
  card.update = (model) => {
    say(summary, [model.provider, model.memory && "remembers", model.tools.length && count(model.tools.length, "tool")].filter(Boolean).join(" · "));
    fill(tools, model.tools.length ? ["Tools it is offered: ", model.tools.join(", ")] : null);
    tools.hidden = model.tools.length === 0;
    const now = `${state.overview.generation} ${user()}`;
    // What is closed is asked for when it is opened.
    if (card.open && now !== shown) held.load(user());
    shown = now;
  };
  return card;
}
