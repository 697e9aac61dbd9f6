// Every version of a plugin: author, time, difference and rollback.

import { get, plugin as path, post } from "/page/api.js";
import { button, confirmed, failed, fill, h, notify } from "/page/dom.js";
import { drafts } from "/page/source.js";
import { go, address } from "/page/route.js";
import { plugin, reload, state } from "/page/state.js";
import { textDifference } from "/page/diff.js";
import { day, plain } from "/page/words.js";

export const ACTIONS = {
  create: "created", update: "source changed", valves: "settings changed", toggle: "toggled", delete: "deleted",
  rollback: "rolled back", file: "file changed on disk", grant: "grants changed",
};

export function history(place, id, chosen) {
  const list = h("ol", { class: "history" });
  const version = h("section", { class: "version", "aria-label": "Version" });
  const wrong = h("div");
  fill(place, wrong, h("div", { class: "split" }, list, version));
  let generation = null;
  let isClosed = false;
  update();
  if (chosen) show(chosen);
  return { update, close: () => { isClosed = true; } };

  async function update() {
    if (generation === state.overview?.generation) return;
    generation = state.overview?.generation;
    try {
      const all = await get(path(id, "/history"));
      if (isClosed) return;
      fill(wrong, all.length === 0 && h("p", { class: "empty" }, "No changes yet."));
      fill(list, all.map((entry, place) => row(entry, place === 0)));
    } catch (error) {
      fill(wrong, failed("The history could not be loaded", error));
    }
  }

  function row(entry, isNewest) {
    const changed = entry.valves_changed?.length ? `: ${entry.valves_changed.join(", ")}` : "";
    return h("li", {},
      h("a", { href: address("plugins", id, "history", String(entry.version)), "aria-current": String(entry.version) === chosen ? "true" : null },
        h("strong", {}, `Version ${entry.version}`), " ", ACTIONS[entry.action] ?? entry.action, changed, isNewest && (isGood(id) ? " (current)" : " (last that ran)")),
      h("p", { class: "dim" }, `${day(entry.at)}, by ${entry.by || "unknown"}`));
  }

  async function show(number) {
    let shownVersion;
    try {
      const which = `/history/${encodeURIComponent(number)}`;
      const [own, now] = await Promise.all([get(path(id, which)), get(path(id, `${which}?against=current`)).catch(() => null)]);
      shownVersion = { ...own, now };
    } catch (error) {
      fill(version, failed("The version could not be loaded", error));
      return;
    }
    if (isClosed) return;
    fill(version,
      h("div", { class: "row" }, h("h3", { tabindex: "-1", "data-focus": true }, `Version ${shownVersion.version}`),
        button("Roll back to this version", () => rollBack(number), { class: "main" })),
      h("p", { class: "dim" }, `${ACTIONS[shownVersion.action] ?? shownVersion.action}, ${day(shownVersion.at)}, by ${shownVersion.by || "unknown"}`),
      h("h4", {}, "Changes in this version"), difference(shownVersion),
      shownVersion.now && [h("h4", {}, "Changes if you roll back"), difference(shownVersion.now)],
      h("details", {}, h("summary", {}, "Complete source"), h("pre", { class: "text", tabindex: "0" }, shownVersion.content ?? "This version has no file.")));
  }

  function difference({ diff, valves_diff: valves = [] }) {
    if (!diff && valves.length === 0) return h("p", { class: "empty" }, "No changes.");
    return [diff && textDifference(diff), valves.length > 0 && h("table", { class: "plain" },
      h("thead", {}, h("tr", {}, ["Setting", "Before", "After"].map((word) => h("th", { scope: "col" }, word)))),
      h("tbody", {}, valves.map(({ key, before, after }) => h("tr", {}, h("th", { scope: "row" }, key), h("td", {}, shown(before)), h("td", {}, shown(after))))))];
  }

  async function rollBack(number) {
    if (drafts.has(id) && !await confirmed("Roll back?", "The editor has unsaved changes. They stay in the editor.", "Roll back")) return;
    try {
      await post(path(id, "/rollback"), { version: Number(number) });
    } catch (error) {
      fill(wrong, h("div", { role: "alert", class: "problem", "data-severity": "error" }, h("p", {}, `Cannot roll back to version ${number}:`), h("pre", { class: "excerpt" }, error.message)));
      return;
    }
    notify(`${id} is rolled back to version ${number}.`);
    await reload();
    go("plugins", id, "history");
  }
}

function isGood(id) {
  return plugin(id)?.state === "live";
}

function shown(value) {
  return value === null || value === undefined ? "default" : plain(value);
}
