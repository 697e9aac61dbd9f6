// Suggestions for the position in an editor, as the language server makes them.

import { post } from "/page/api.js";
import { fill, h, name, setText } from "/page/dom.js";

// The pause in typing after which suggestions are fetched, in milliseconds.
const PAUSE = 120;

// `from` has `rectOf(from, to)`, `replace(from, to, text)` and `of()`, which returns the kind of the script.
export function completion(area, from) {
  const list = h("ul", { role: "listbox", id: name("names"), "aria-label": "Suggestions" });
  const about = h("div", { class: "about" });
  const says = h("p", { class: "unseen", role: "status" });
  const element = h("div", { class: "completion", hidden: true }, list, about);
  let found = [];
  let chosen = 0;
  let asked = 0;
  let timer;
  area.setAttribute("aria-controls", list.id);
  area.addEventListener("input", (event) => {
    const before = area.value.slice(0, area.selectionStart);
    const isWord = event.inputType === "insertText" && /[\w.]$|::$/.test(before) && !/(?:^|[^\w])\d+$/.test(before);
    if (isWord || (event.inputType === "deleteContentBackward" && isOpen())) soon();
    else close();
  });
  area.addEventListener("blur", close);
  area.addEventListener("scroll", close);
  area.addEventListener("pointerdown", close);
  return { element: [element, says], key, close };

  function isOpen() {
    return !element.hidden;
  }

  function close() {
    clearTimeout(timer);
    asked += 1;
    element.hidden = true;
    area.removeAttribute("aria-activedescendant");
    setText(says, "");
  }

  function soon(pause = PAUSE) {
    clearTimeout(timer);
    timer = setTimeout(ask, pause);
  }

  async function ask() {
    const own = asked += 1;
    const [content, at] = [area.value, area.selectionStart];
    // The host counts characters.
    const names = await post("/api/v1/functions/complete", { content, at: [...content.slice(0, at)].length, type: from.of().type }).catch(() => []);
    if (own !== asked || area.value !== content || area.selectionStart !== at || document.activeElement !== area) return;
    found = names.filter(({ label }) => label !== wordAt());
    if (found.length === 0) {
      close();
      return;
    }
    fill(list, found.map(({ label, detail }, place) => h("li", { role: "option", id: `${list.id}-${place}`, onpointerdown: (event) => { event.preventDefault(); accept(place); } },
      h("span", { class: "label" }, label), h("span", { class: "dim" }, detail))));
    element.hidden = false;
    addEventListener("scroll", close, { passive: true, once: true });
    setText(says, `${found.length} suggestions`);
    const word = from.rectOf(at - wordAt().length, at);
    const isBelow = word.bottom + element.offsetHeight < innerHeight;
    element.style.top = `${isBelow ? word.bottom + 2 : Math.max(0, word.top - element.offsetHeight - 2)}px`;
    element.style.left = `${Math.max(8, Math.min(word.left, innerWidth - element.offsetWidth - 8))}px`;
    choose(0);
  }

  function wordAt() {
    return /[\p{Alphabetic}\p{Number}_]*$/u.exec(area.value.slice(0, area.selectionStart))[0];
  }

  function choose(place) {
    list.children[chosen]?.removeAttribute("aria-selected");
    chosen = (place + found.length) % found.length;
    const row = list.children[chosen];
    row.setAttribute("aria-selected", "true");
    row.scrollIntoView({ block: "nearest", behavior: "instant" });
    area.setAttribute("aria-activedescendant", row.id);
    const { detail, doc } = found[chosen];
    fill(about, detail && h("code", {}, detail), doc && h("p", {}, doc.split("\n\n")[0].replaceAll(/[`*]/g, "")));
  }

  function accept(place) {
    const { insert } = found[place];
    const at = area.selectionStart;
    from.replace(at - wordAt().length, at, insert, true);
    // The inserted word needs no suggestions.
    close();
  }

  // Returns true if a key is meant for the list.
  function key(event) {
    if ((event.ctrlKey || event.metaKey) && event.key === " ") {
      soon(0);
      return true;
    }
    if (!isOpen() || event.ctrlKey || event.metaKey || event.altKey || event.shiftKey) return false;
    if (event.key === "ArrowDown") choose(chosen + 1);
    else if (event.key === "ArrowUp") choose(chosen - 1);
    else if (event.key === "Enter" || event.key === "Tab") accept(chosen);
    else if (event.key === "Escape") close();
    else return false;
    return true;
  }
}
