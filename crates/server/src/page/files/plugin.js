// One plugin: how it stands, its switches, its settings, its source and its history.

import { get, plugin as path, post, put, remove } from "/page/api.js";
import { badge, button, confirmed, failed, fill, h, say, tell, toggle } from "/page/dom.js";
import { history } from "/page/history.js";
import { problemList } from "/page/problems.js";
import { address, go } from "/page/route.js";
import { source } from "/page/source.js";
import { plugin as known, reload, standing, state } from "/page/state.js";
import { ofPlugin, ofUser } from "/page/valves.js";
import { time } from "/page/words.js";

const PARTS = [["", "Settings"], ["users", "User settings"], ["source", "Source"], ["history", "History"]];

export function pluginPanel(place, id, first) {
  const title = h("h2", { tabindex: "-1", "data-focus": true });
  const word = badge("live");
  const about = h("p", { class: "about" });
  const facts = h("p", { class: "dim" });
  const problems = problemList({ linked: true });
  const switches = switchRow(id);
  const figures = h("p", { class: "dim" });
  const parts = h("nav", { class: "tabs", "aria-label": "Parts of this plugin" });
  const content = h("div", { class: "content" });
  const gone = h("div");
  fill(place,
    h("p", { class: "back" }, h("a", { href: address("plugins") }, "All plugins")),
    h("header", { class: "row" }, h("div", { class: "row start" }, title, word),
      button("Delete", () => erase(id), { class: "danger quiet" })),
    gone, about, facts, problems, switches, figures, parts, content);
  let shown = null;
  let part = null;
  const panel = { id, open, update, figures: stats, close: () => part?.close?.() };
  update();
  open(first);
  return panel;

  function open([name = "", ...rest]) {
    shown = name;
    part?.close?.();
    fill(content);
    drawParts();
    if (name === "users") part = ofUser(content, id, rest[0]);
    else if (name === "source") part = source(content, id, rest[0]);
    else if (name === "history") part = history(content, id, rest[0]);
    else part = known(id)?.has_valves === false ? nothing(content) : ofPlugin(content, id);
  }

  function update() {
    const plugin = known(id);
    fill(gone, !plugin && (state.problem ? failed("The plugin could not be loaded", state.problem)
      : h("p", { class: "failed", role: "alert" }, `There is no plugin ${id} (any more). Its history may still be there.`)));
    say(title, plugin?.title ?? id);
    word.hidden = switches.hidden = !plugin;
    if (plugin) {
      word.update(standing(plugin));
      say(about, plugin.description ?? "");
      about.hidden = !plugin.description;
      say(facts, [plugin.kind, plugin.id, plugin.version && `version ${plugin.version}`, plugin.author && `by ${plugin.author}`, plugin.path,
        plugin.priority !== null && `priority ${plugin.priority}`, plugin.security && "a guard", plugin.chats_only?.length > 0 && `not at pipelines: ${plugin.chats_only.join(", ")}`, plugin.toggle && "only for requests that ask for it",
        plugin.kind !== "action" && plugin.hooks.length && `acts at ${plugin.hooks.join(", ")}`, plugin.tools.length && `tools: ${plugin.tools.join(", ")}`,
        plugin.buttons.length && `buttons: ${plugin.buttons.join(", ")}`].filter(Boolean).join(" · "));
      switches.update(plugin);
    }
    problems.update((state.overview?.problems ?? []).filter((problem) => problem.plugin === id));
    stats();
    drawParts();
    // What is gone has nothing new to tell.
    if (plugin || shown === "history") part?.update?.();
  }

  function stats() {
    const { calls, broken, mean_us: mean } = known(id)?.stats ?? { calls: 0 };
    say(figures, calls ? `Called ${calls.toLocaleString("en")} times since the start, ${time(mean)} on average, ${broken ? `${broken} broken` : "none broken"}` : "Not called since the start");
  }

  function drawParts() {
    const plugin = known(id);
    const fit = PARTS.filter(([name]) => name !== "users" || plugin?.has_user_valves || shown === "users");
    if (parts.childElementCount !== fit.length) {
      fill(parts, fit.map(([name, title]) => h("a", { href: address("plugins", id, ...(name ? [name] : [])), "data-part": name }, title)));
    }
    for (const link of parts.children) {
      if (link.dataset.part === shown) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
  }
}

function nothing(place) {
  fill(place, h("p", { class: "empty" }, "This plugin has no settings."));
  return {};
}

// On, for every model, contents in traces: each takes effect at once and can be undone.
function switchRow(id) {
  const on = toggle("On", false, (wanted) => flip("enabled", "/toggle", wanted, wanted ? `${id} is on.` : `${id} is off.`));
  const global = toggle("For every model", false,
    (wanted) => flip("global", "/toggle/global", wanted, wanted ? `${id} runs for every model.` : `${id} runs for models that list it.`));
  const contents = toggle("Keep contents in traces", false, keep);
  const wrong = h("p", { class: "wrong", role: "alert" });
  const row = h("div", { class: "switches" }, on, global, contents, wrong);
  let flipping = 0;
  row.update = (plugin) => {
    // What is being switched stands as somebody wants it.
    if (flipping > 0) return;
    on.box.checked = plugin.enabled;
    global.box.checked = plugin.global;
    global.hidden = plugin.kind === "tool";
    contents.box.checked = plugin.contents;
  };
  return row;

  async function flip(what, rest, wanted, said) {
    fill(wrong);
    flipping += 1;
    try {
      // The route turns a switch over: it must stand as it is shown.
      await reload();
      if (known(id)?.[what] !== wanted) await post(path(id, rest));
      tell(said, () => flip(what, rest, !wanted, `${id} is as it was.`));
    } catch (error) {
      fill(wrong, `Not switched: ${error.message}`);
    }
    flipping -= 1;
    reload();
  }

  async function keep(wanted) {
    fill(wrong);
    flipping += 1;
    try {
      await put(`/api/v1/traces/contents/${encodeURIComponent(id)}`, { keep: wanted });
      tell(wanted ? `What ${id} sees is kept in traces from now on.` : `Nothing of what ${id} sees is kept from now on.`);
    } catch (error) {
      fill(wrong, `Not switched: ${error.message}`);
    }
    flipping -= 1;
    reload();
  }
}

async function erase(id) {
  const plugin = known(id);
  const isGuard = plugin?.security;
  const detail = isGuard ? "It is a guard: requests are let through without it from then on. Its history stays, so that it can be brought back."
    : "Its file is removed. Its history stays, so that it can be brought back.";
  if (!await confirmed(`Delete ${plugin?.title ?? id}?`, detail, "Delete")) return;
  const before = await get(path(id, "/history")).catch(() => []);
  try {
    await remove(path(id, `/delete${isGuard ? "?confirm=true" : ""}`));
  } catch (error) {
    tell(`Not deleted: ${error.message}`);
    return;
  }
  const version = before[0]?.version;
  tell(`${id} is deleted.`, version === undefined ? undefined : () => bringBack(id, version));
  await reload();
  go("plugins");
}

async function bringBack(id, version) {
  try {
    await post(path(id, "/rollback"), { version });
    tell(`${id} is back.`);
    await reload();
    go("plugins", id);
  } catch (error) {
    tell(`${id} did not come back: ${error.message}`);
  }
}
