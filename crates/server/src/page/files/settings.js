// The effective settings of the host, with the origin of each value.

import { get } from "/page/api.js";
import { failed, fill, h, name, setText } from "/page/dom.js";
import { count } from "/page/words.js";

const ORIGINS = { default: "default", file: "file", environment: "environment", flag: "command line" };

export function settings(place, _parts, scope) {
  const search = h("input", { type: "search", id: name("find"), autocomplete: "off", oninput: draw });
  const origin = h("select", { id: name("origin"), onchange: draw }, h("option", { value: "" }, "All"), h("option", { value: "set" }, "Set here"), h("option", { value: "next" }, "Waiting for a restart"));
  const summary = h("p", { class: "dim", role: "status" });
  const list = h("div", { class: "sections" }, h("p", { class: "empty" }, "Loading."));
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Settings"),
    h("p", { class: "dim" }, "The values in effect, as ", h("code", {}, "valvehouse config"), " lists them. They are changed in ", h("code", {}, "valvehouse.toml"), ", by variables of the environment, or on the command line; secrets are never shown."),
    h("div", { class: "search" }, h("p", { class: "field" }, h("label", { for: search.id }, "Find"), search), h("p", { class: "field" }, h("label", { for: origin.id }, "Show"), origin)),
    summary, list);
  let all = null;
  load();
  scope.on("overview", load);

  async function load() {
    try {
      all = (await get("/api/v1/settings")).data;
      if (!scope.closed) draw();
    } catch (error) {
      if (!scope.closed) fill(list, failed("The settings could not be loaded", error));
    }
  }

  function draw() {
    if (!all) return;
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (one) => (!origin.value || (origin.value === "set" ? one.origin !== "default" : one.next !== null))
      && words.every((word) => `${one.key} ${one.value} ${one.about} ${one.place}`.toLowerCase().includes(word));
    const shown = all.filter(fits);
    const waiting = all.filter(({ next }) => next !== null).length;
    setText(summary, `${shown.length} of ${count(all.length, "setting")}${waiting ? `; ${waiting} changed in the file, in effect after a restart` : ""}`);
    if (shown.length === 0) fill(list, h("p", { class: "empty" }, "No setting fits."));
    else fill(list, [...Map.groupBy(shown, ({ key }) => key.split(".")[0])].map(([section, rows]) => table(section, rows)));
  }
}

function table(section, rows) {
  return h("section", { class: "scroll", tabindex: "0", "aria-label": section }, h("table", { class: "settings" },
    h("thead", {}, h("tr", {}, ["Setting", "Value", "Origin", "Changes apply"].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, rows.map((one) => h("tr", { "data-origin": one.origin },
      h("th", { scope: "row" }, h("code", {}, one.key), h("p", { class: "hint" }, first(one.about))),
      h("td", {}, one.value ? h("code", {}, one.value) : h("span", { class: "dim" }, "none"), one.next !== null && h("p", { class: "next" }, "after a restart: ", h("code", {}, one.next || "none"))),
      h("td", {}, ORIGINS[one.origin], one.place && h("p", { class: "dim" }, one.place)),
      h("td", {}, one.restart ? "at the next start" : "at once"))))));
}

// The first sentence of a description.
function first(text) {
  return text.replaceAll(/`|\[([^\]]*)\]\([^)]*\)/g, "$1").split(/(?<=\.)\s/)[0];
}
