// A text area with line numbers.

import { fill, h, name } from "/page/dom.js";

export function editor(title) {
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
  const area = h("textarea", { id: name("editor"), spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", rows: "20" });
  const element = h("div", { class: "editor" }, h("label", { for: area.id, class: "unseen" }, title), numbers, area);
  let marked = null;
  let shown = 0;
  area.addEventListener("input", draw);
  area.addEventListener("scroll", () => { numbers.scrollTop = area.scrollTop; });

  function draw() {
    const lines = area.value.split("\n").length;
    area.rows = Math.min(Math.max(lines + 1, 12), 40);
    if (lines === shown) return;
    shown = lines;
    const before = marked ? Math.min(marked - 1, lines) : lines;
    const words = (from, to) => Array.from({ length: Math.max(0, to - from) }, (_, place) => from + place + 1).join("\n");
    fill(numbers, words(0, before), marked && marked <= lines && [before ? "\n" : "", h("mark", {}, `${marked}`), lines > marked ? "\n" : "", words(marked, lines)]);
    numbers.scrollTop = area.scrollTop;
  }

  return {
    element,
    get value() {
      return area.value;
    },
    set value(text) {
      area.value = text;
      draw();
    },
    onchange: (act) => area.addEventListener("input", act),
    onsave: (act) => area.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "s") {
        event.preventDefault();
        act();
      }
    }),
    // Marks the line with the error, or none for null.
    mark(line) {
      marked = line;
      shown = 0;
      draw();
      if (line) area.setAttribute("aria-invalid", "true");
      else area.removeAttribute("aria-invalid");
    },
    go(line, column) {
      const lines = area.value.split("\n");
      const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
      const at = Math.min(start + column - 1, area.value.length);
      area.focus();
      area.setSelectionRange(at, start + (lines[line - 1]?.length ?? 0));
      area.scrollTop = Math.max(0, (line - 5) * parseFloat(getComputedStyle(area).lineHeight));
    },
  };
}
