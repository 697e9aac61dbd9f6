// A searchable list of all plugins, with the selected one beside it, and the deleted ones, which can be restored.

import { get } from "/page/api.js";
import { badge, button, failed, fill, h, keyed, rowsOf, setText } from "/page/dom.js";
import { draggable, place as orderOf } from "/page/order.js";
import { pluginPanel, restore } from "/page/plugin.js";
import { address, go } from "/page/route.js";
import { standing, state } from "/page/state.js";
import { count, day, number, time } from "/page/words.js";

const ORDER = ["missing", "broken", "held", "stale", "breaker_open", "audit", "live", "off"];
// The orders of the list: the title, the number to sort by, and the number in words.
const SORTS = {
  "": ["Attention", urgency, () => ""],
  priority: ["Running order", (plugin) => plugin.priority ?? Infinity, (plugin) => plugin.priority === null || isOrdered(plugin) ? "" : `order ${plugin.priority}`],
  calls: ["Calls", (plugin) => -plugin.stats.calls, (plugin) => count(plugin.stats.calls, "call")],
  time: ["Time", (plugin) => -plugin.stats.mean_us, (plugin) => plugin.stats.calls ? time(plugin.stats.mean_us) : "–"],
  broken: ["Failures", (plugin) => -plugin.stats.broken, (plugin) => `${number(plugin.stats.broken)} failed`],
};
// `Filter 2` stands before `Filter 10`.
const NAMES = new Intl.Collator("en", { numeric: true });

export function plugins(place, parts, scope) {
  const search = h("input", { type: "search", id: "plugin-search", autocomplete: "off", oninput: draw });
  const kind = h("select", { id: "plugin-kind", onchange: draw },
    h("option", { value: "" }, "All"), h("option", { value: "filter" }, "Filters"),
    h("option", { value: "tool" }, "Tools"),
    h("option", { value: "action" }, "Actions"), h("option", { value: "!" }, "With problems"));
  const sort = h("select", { id: "plugin-sort", onchange: draw }, Object.entries(SORTS).map(([value, [title]]) => h("option", { value }, title)));
  const list = h("ul", { class: "list" });
  const deleted = h("details", { class: "deleted", hidden: true }, h("summary", {}), h("ul", {}));
  const summary = h("p", { class: "dim", role: "status" });
  const detail = h("div", { class: "detail" });
  const missing = h("div");
  fill(place,
    h("div", { class: "master" },
      h("div", { class: "row" }, h("h1", { tabindex: "-1" }, "Plugins"), button("New plugin", () => go("new"), { class: "main" })),
      missing,
      h("div", { class: "search" },
        h("p", { class: "field" }, h("label", { for: search.id }, "Find"), search),
        h("p", { class: "field" }, h("label", { for: kind.id }, "Show"), kind),
        h("p", { class: "field" }, h("label", { for: sort.id }, "Sort by"), sort)),
      summary, list, deleted),
    detail);
  let panel = null;
  scope.on("overview", () => {
    draw();
    panel?.update();
    drawDeleted();
  });
  scope.on("figures", () => {
    if (sort.value) draw();
    panel?.figures();
  });
  draw();
  drawDeleted();
  open(parts);
  return open;

  function draw() {
    fill(missing, state.problem && failed("The plugins could not be loaded", state.problem));
    const all = state.overview?.plugins ?? [];
    const word = search.value.trim().toLowerCase();
    const fits = (plugin) => {
      const isKind = kind.value === "!" ? !["live", "off"].includes(standing(plugin)) : !kind.value || plugin.kind === kind.value;
      return isKind && (!word || `${plugin.id} ${plugin.title} ${plugin.description ?? ""} ${plugin.tools.join(" ")}`.toLowerCase().includes(word));
    };
    const [, numberOf] = SORTS[sort.value];
    // The host runs filters with the same number by id.
    const byName = sort.value === "priority" ? byId : (a, b) => a.kind.localeCompare(b.kind) || NAMES.compare(a.title, b.title) || NAMES.compare(a.id, b.id);
    const shown = all.filter(fits).sort((a, b) => numberOf(a) - numberOf(b) || byName(a, b));
    setText(summary, shown.length === all.length ? count(all.length, "plugin") : `${shown.length} of ${count(all.length, "plugin")}`);
    const focused = document.activeElement;
    keyed(list, shown, (plugin) => plugin.id, row);
    if (list.contains(focused) && focused !== document.activeElement) focused.focus({ preventScroll: true });
  }

  function ordered() {
    return (state.overview?.plugins ?? []).filter(isOrdered).sort((a, b) => a.priority - b.priority || byId(a, b));
  }

  async function drawDeleted() {
    const gone = await get("/api/v1/functions/deleted").catch(() => []);
    if (scope.closed) return;
    deleted.hidden = gone.length === 0;
    setText(deleted.firstChild, `${count(gone.length, "deleted plugin")}`);
    keyed(deleted.lastChild, gone.sort((a, b) => b.deleted_at - a.deleted_at), (one) => `${one.id} ${one.version}`, ({ id, deleted_at: at }) => h("li", { class: "row" },
      h("span", {}, h("a", { href: address("plugins", id, "history") }, id), " ", h("span", { class: "dim" }, day(at))), button("Restore", () => restore(id), { "aria-label": `Restore ${id}` })));
  }

  function row(plugin) {
    const title = h("span", { class: "title" });
    const word = badge(standing(plugin));
    const kind = h("span", { class: "dim" });
    const link = h("a", { href: address("plugins", plugin.id) }, title, h("span", { class: "marks" }, kind, word));
    const item = h("li", {}, link);
    let order = null;
    item.update = (plugin) => {
      item.draggable = isOrdered(plugin) && sort.value === "priority";
      if (item.draggable && !order) {
        order = orderOf(plugin, ordered);
        draggable(item, plugin.id, ordered);
      }
      if (!item.draggable) order?.remove();
      else if (order.parentNode !== item) item.append(order);
      order?.update(plugin);
      setText(title, plugin.title);
      setText(kind, SORTS[sort.value][2](plugin) || (plugin.title === plugin.id ? plugin.kind : `${plugin.id} · ${plugin.kind}`));
      word.update(standing(plugin));
    };
    item.mark = (id) => id === plugin.id ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
    item.mark(panel?.id);
    return item;
  }

  function open([id, ...rest]) {
    place.dataset.open = id ? "yes" : "no";
    if (!id) {
      panel?.close();
      panel = null;
      fill(detail, h("p", { class: "empty" }, "Select a plugin."));
    } else if (panel?.id === id) {
      panel.open(rest);
    } else {
      panel?.close();
      panel = pluginPanel(detail, id, rest);
    }
    for (const item of rowsOf(list).values()) item.mark(id);
  }
}

// Plugins that need attention come first.
function urgency(plugin) {
  return Math.min(ORDER.indexOf(standing(plugin)), 5);
}

function byId(a, b) {
  return a.id < b.id ? -1 : 1;
}

function isOrdered(plugin) {
  return plugin.kind === "filter" && plugin.priority !== null;
}
