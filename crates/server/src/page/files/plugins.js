// A searchable list of all plugins, with the selected one beside it.

import { badge, button, failed, fill, h, keyed, rowsOf, setText } from "/page/dom.js";
import { pluginPanel } from "/page/plugin.js";
import { address, go } from "/page/route.js";
import { standing, state } from "/page/state.js";
import { count } from "/page/words.js";

const ORDER = ["missing", "broken", "held", "stale", "breaker_open", "live", "off"];

export function plugins(place, parts, scope) {
  const search = h("input", { type: "search", id: "plugin-search", autocomplete: "off", oninput: draw });
  const kind = h("select", { id: "plugin-kind", onchange: draw },
    h("option", { value: "" }, "All"), h("option", { value: "filter" }, "Filters"),
    h("option", { value: "tool" }, "Tools"),
    h("option", { value: "action" }, "Actions"), h("option", { value: "!" }, "With problems"));
  const list = h("ul", { class: "list" });
  const summary = h("p", { class: "dim", role: "status" });
  const detail = h("div", { class: "detail" });
  const missing = h("div");
  fill(place,
    h("div", { class: "master" },
      h("div", { class: "row" }, h("h1", { tabindex: "-1" }, "Plugins"), button("New plugin", () => go("new"), { class: "main" })),
      missing,
      h("div", { class: "search" },
        h("p", { class: "field" }, h("label", { for: search.id }, "Find"), search),
        h("p", { class: "field" }, h("label", { for: kind.id }, "Show"), kind)),
      summary, list),
    detail);
  let panel = null;
  scope.on("overview", () => {
    draw();
    panel?.update();
  });
  scope.on("figures", () => panel?.figures());
  draw();
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
    const shown = all.filter(fits).sort(inOrder);
    setText(summary, shown.length === all.length ? count(all.length, "plugin") : `${shown.length} of ${count(all.length, "plugin")}`);
    keyed(list, shown, (plugin) => plugin.id, row);
  }

  function row(plugin) {
    const title = h("span", { class: "title" });
    const word = badge(standing(plugin));
    const kind = h("span", { class: "dim" });
    const link = h("a", { href: address("plugins", plugin.id) }, title, h("span", { class: "marks" }, kind, word));
    const item = h("li", {}, link);
    item.update = (plugin) => {
      setText(title, plugin.title);
      setText(kind, plugin.title === plugin.id ? plugin.kind : `${plugin.id} · ${plugin.kind}`);
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

// Plugins that need attention come first, then by kind and name.
function inOrder(a, b) {
  const urgency = (plugin) => Math.min(ORDER.indexOf(standing(plugin)), 5);
  return urgency(a) - urgency(b) || a.kind.localeCompare(b.kind) || a.title.localeCompare(b.title) || a.id.localeCompare(b.id);
}
