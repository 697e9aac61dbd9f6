// One plugin: its status, switches, settings, source and history.

import { access } from "/page/access.js";
import { get, plugin as path, post, put, remove } from "/page/api.js";
import { badge, button, confirmed, failed, fill, h, setText, notify, toggle } from "/page/dom.js";
import { history } from "/page/history.js";
import { problemList } from "/page/problems.js";
import { address, go } from "/page/route.js";
import { source } from "/page/source.js";
import { plugin as known, reload, standing, state } from "/page/state.js";
import { ofPlugin, ofUser } from "/page/valves.js";
import { time } from "/page/words.js";

const PARTS = [["", "Settings"], ["users", "User settings"], ["source", "Source"], ["access", "Access"], ["history", "History"]];

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
    else if (name === "access") part = access(content, id);
    else if (name === "history") part = history(content, id, rest[0]);
    else part = known(id)?.has_valves === false ? nothing(content) : ofPlugin(content, id);
  }

  function update() {
    const plugin = known(id);
    fill(gone, !plugin && (state.problem ? failed("The plugin could not be loaded", state.problem)
      : h("p", { class: "failed", role: "alert" }, `There is no plugin ${id}. Its history may still be available.`)));
    setText(title, plugin?.title ?? id);
    word.hidden = switches.hidden = !plugin;
    if (plugin) {
      word.update(standing(plugin));
      setText(about, plugin.description ?? "");
      about.hidden = !plugin.description;
      setText(facts, [plugin.kind, plugin.id, plugin.version && `version ${plugin.version}`, plugin.author && `by ${plugin.author}`, plugin.path,
        plugin.priority !== null && `priority ${plugin.priority}`, plugin.security && "a guard", plugin.chats_only?.length > 0 && `not at pipelines: ${plugin.chats_only.join(", ")}`, plugin.toggle && "only on request",
        plugin.kind !== "action" && plugin.hooks.length && `hooks: ${plugin.hooks.join(", ")}`, plugin.tools.length && `tools: ${plugin.tools.join(", ")}`,
        plugin.buttons.length && `buttons: ${plugin.buttons.join(", ")}`].filter(Boolean).join(" · "));
      switches.update(plugin);
    }
    problems.update((state.overview?.problems ?? []).filter((problem) => problem.plugin === id));
    stats();
    drawParts();
    // Only the history of a deleted plugin is updated.
    if (plugin || shown === "history") part?.update?.();
  }

  function stats() {
    const { calls, broken, mean_us: mean } = known(id)?.stats ?? { calls: 0 };
    setText(figures, calls ? `${calls.toLocaleString("en")} calls since startup, ${time(mean)} on average, ${broken} failed` : "No calls since startup");
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

// The switches of a plugin: on, for every model, audit mode, contents in traces. Each takes effect at once.
function switchRow(id) {
  const on = toggle("On", false, (isOn) => flip((plugin) => plugin.enabled, "/toggle", isOn, isOn ? `${id} is on.` : `${id} is off.`));
  const global = toggle("For every model", false,
    (isOn) => flip((plugin) => plugin.global, "/toggle/global", isOn, isOn ? `${id} runs for every model.` : `${id} runs for models that list it.`));
  const audit = toggle("Audit mode", false,
    (isOn) => flip((plugin) => plugin.mode === "audit", "/toggle/audit", isOn, isOn ? `${id} is in audit mode: nothing of it applies.` : `The verdicts and changes of ${id} apply.`));
  const contents = toggle("Record contents in traces", false, keep);
  const wrong = h("p", { class: "wrong", role: "alert" });
  const row = h("div", { class: "switches" }, on, global, audit, contents, wrong);
  let flipping = 0;
  row.update = (plugin) => {
    // A switch that is being saved shows the requested state.
    if (flipping > 0) return;
    on.box.checked = plugin.enabled;
    global.box.checked = plugin.global;
    global.hidden = plugin.kind === "tool";
    audit.box.checked = plugin.mode === "audit";
    audit.hidden = plugin.kind !== "filter";
    contents.box.checked = plugin.contents;
  };
  return row;

  async function flip(is, rest, isOn, message) {
    fill(wrong);
    flipping += 1;
    try {
      // The route inverts the state, so that the current state must be known.
      await reload();
      if (is(known(id)) !== isOn) await post(path(id, rest));
      notify(message, () => flip(is, rest, !isOn, `The change of ${id} is undone.`));
    } catch (error) {
      fill(wrong, `Cannot change the setting: ${error.message}`);
    }
    flipping -= 1;
    reload();
  }

  async function keep(isOn) {
    fill(wrong);
    flipping += 1;
    try {
      await put(`/api/v1/traces/contents/${encodeURIComponent(id)}`, { keep: isOn });
      notify(isOn ? `New traces record the contents that ${id} reads.` : `New traces do not record the contents that ${id} reads.`);
    } catch (error) {
      fill(wrong, `Cannot change the setting: ${error.message}`);
    }
    flipping -= 1;
    reload();
  }
}

async function erase(id) {
  const plugin = known(id);
  const isGuard = plugin?.security;
  const detail = isGuard ? "This plugin is a guard. Requests will pass without it. Its history is kept, so that it can be restored."
    : "The file is deleted. Its history is kept, so that it can be restored.";
  if (!await confirmed(`Delete ${plugin?.title ?? id}?`, detail, "Delete")) return;
  try {
    await remove(path(id, `/delete${isGuard ? "?confirm=true" : ""}`));
  } catch (error) {
    notify(`Cannot delete ${id}: ${error.message}`);
    return;
  }
  notify(`${id} is deleted.`, () => restore(id));
  await reload();
  go("plugins");
}

// Restores a deleted plugin as it was before: the newest version that has a text.
export async function restore(id) {
  try {
    const last = (await get(path(id, "/history"))).find((version) => version.after !== null);
    if (!last) throw new Error("its history has no text");
    await post(path(id, "/rollback"), { version: last.version });
    notify(`${id} is restored.`);
    await reload();
    go("plugins", id);
  } catch (error) {
    notify(`Cannot restore ${id}: ${error.message}`);
  }
}
