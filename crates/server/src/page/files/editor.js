// A text area with line numbers, colors, matching brackets, indentation, suggestions and the problems of its script. The
// colors are highlights of a text behind the area, which itself stays a plain one.

import { post } from "/page/api.js";
import { completion } from "/page/completion.js";
import { button, fill, h, name, setText } from "/page/dom.js";
import { KINDS, scan } from "/page/rhai.js";
import { count } from "/page/words.js";

const INDENT = "    ";
// The pause in typing after which the text is checked, in milliseconds.
const PAUSE = 500;

// `of()` returns what the script is: `{type}`, and for a plugin that exists `{id, type}`. A fixed text is only shown.
export function editor(title, of = () => ({}), isFixed = false) {
  const numbers = h("pre", { class: "numbers", "aria-hidden": "true" });
  const letters = document.createTextNode("");
  const layer = h("pre", {}, letters);
  const keys = h("p", { class: "dim", id: name("keys") }, "Ctrl+Space lists names. Tab indents; Escape, then Tab, leaves the editor.");
  const area = h("textarea", { id: name("editor"), spellcheck: "false", autocapitalize: "off", autocomplete: "off", wrap: "off", rows: "20", ...(isFixed ? { readonly: true } : { "aria-autocomplete": "list", "aria-describedby": keys.id }) });
  const tip = h("div", { class: "tip", hidden: true });
  const verdict = h("p", { class: "verdict", role: "status" });
  const list = h("ul", { class: "findings", "aria-label": "Problems of the script" });
  const names = isFixed ? null : completion(area, { rectOf, replace, of });
  const sheet = h("div", { class: "sheet" }, h("label", { for: area.id, class: "unseen" }, title), numbers, h("div", { class: "colors", "aria-hidden": "true" }, layer), area);
  const element = h("div", { class: "editor" }, sheet, !isFixed && [h("div", { class: "row" }, verdict, keys), list, tip, names.element]);
  let marked = null;
  let shown = "";
  let pairs = new Map();
  let problems = [];
  let timer;
  // Set between Escape and the next change: Tab leaves the editor.
  let isLeaving = false;
  area.addEventListener("input", () => {
    isLeaving = false;
    draw();
    checkSoon();
  });
  area.addEventListener("scroll", follow);
  if (!isFixed) area.addEventListener("keydown", press);
  area.addEventListener("focus", () => { isLeaving = false; });
  area.addEventListener("pointermove", point);
  element.addEventListener("pointerleave", () => { tip.hidden = true; });
  for (const event of ["keyup", "pointerup", "select", "blur"]) area.addEventListener(event, drawPair);

  function follow() {
    numbers.scrollTop = area.scrollTop;
    layer.style.translate = `${-area.scrollLeft}px ${-area.scrollTop}px`;
    tip.hidden = true;
  }

  function draw() {
    const text = area.value;
    letters.data = `${text}\n`;
    const { parts, pairs: found } = scan(text);
    pairs = found;
    for (const kind of KINDS) highlight(kind, parts.filter((part) => part[0] === kind).map(([, from, to]) => [from, to]));
    drawProblems();
    drawPair();
    const lines = text.split("\n").length;
    area.rows = Math.min(Math.max(lines + 1, 12), 40);
    drawNumbers(lines);
    follow();
  }

  function drawNumbers(lines) {
    const wrong = new Set(problems.filter(({ severity }) => severity === "error").map(({ line }) => line).concat(marked ?? []));
    const now = `${lines} ${[...wrong]}`;
    if (now === shown) return;
    shown = now;
    fill(numbers, Array.from({ length: lines }, (_, place) => [wrong.has(place + 1) ? h("mark", {}, `${place + 1}`) : `${place + 1}`, "\n"]));
  }

  function drawProblems() {
    for (const severity of ["error", "warning"]) highlight(severity, problems.filter((one) => one.from !== null && one.severity === severity).map(({ from, to }) => [from, to]));
  }

  // The bracket beside the cursor and its partner; a bracket without one is wrong.
  function drawPair() {
    const at = [area.selectionStart - 1, area.selectionStart].find((at) => pairs.has(at));
    const is = at !== undefined && area.selectionStart === area.selectionEnd && document.activeElement === area;
    const both = is ? [at, pairs.get(at)].filter((at) => at >= 0).map((at) => [at, at + 1]) : [];
    highlight("pair", both.length === 2 ? both : []);
    highlight("single", both.length === 1 ? both : []);
  }

  function highlight(kind, ranges) {
    const all = globalThis.CSS?.highlights;
    if (!all) return;
    const end = letters.length;
    // A highlight has the ranges of all editors of the page.
    const others = [...(all.get(`code-${kind}`) ?? [])].filter(({ startContainer: text }) => text !== letters && text.isConnected);
    all.set(`code-${kind}`, new Highlight(...others, ...ranges.map(([from, to]) =>
      new StaticRange({ startContainer: letters, startOffset: Math.min(from, end), endContainer: letters, endOffset: Math.min(to, end) }))));
  }

  function rectOf(from, to) {
    const range = document.createRange();
    range.setStart(letters, from);
    range.setEnd(letters, to);
    return range.getBoundingClientRect();
  }

  // Replaces a part of the text so that the browser can undo it. Of a snippet, the first placeholder is selected.
  function replace(from, to, text, isSnippet = false) {
    const margin = /^[ \t]*/.exec(area.value.slice(area.value.lastIndexOf("\n", from - 1) + 1))[0];
    const { plain, stops } = isSnippet ? expanded(text.replaceAll("\n", `\n${margin}`)) : { plain: text, stops: {} };
    area.focus();
    area.setSelectionRange(from, to);
    if (!plain && from === to) return;
    if (!document.execCommand(plain ? "insertText" : "delete", false, plain)) {
      area.setRangeText(plain, from, to, "end");
      area.dispatchEvent(new InputEvent("input", { bubbles: true }));
    }
    const stop = stops[1] ?? stops[0];
    if (stop) area.setSelectionRange(from + stop[0], from + stop[1]);
    drawPair();
  }

  function press(event) {
    if (names.key(event)) {
      event.preventDefault();
      return;
    }
    const [from, to] = [area.selectionStart, area.selectionEnd];
    const start = area.value.lastIndexOf("\n", from - 1) + 1;
    const before = area.value.slice(start, from);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") isLeaving = true;
    else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      const margin = /^[ \t]*/.exec(before)[0];
      const opens = /[{([]\s*$/.test(before);
      const closes = opens && /^[})\]]/.test(area.value.slice(to));
      const inner = `\n${margin}${opens ? INDENT : ""}`;
      replace(from, to, closes ? `${inner}\n${margin}` : inner);
      if (closes) area.setSelectionRange(from + inner.length, from + inner.length);
    } else if ("})]".includes(event.key) && before.endsWith(INDENT) && !before.trim()) {
      event.preventDefault();
      replace(from - INDENT.length, to, event.key);
    } else if (event.key === "Tab" && !isLeaving) {
      event.preventDefault();
      if (from === to && !event.shiftKey) replace(from, to, INDENT.slice(before.length % INDENT.length));
      else shift(start, to, event.shiftKey);
    }
  }

  // Indents the lines of the selection, or the other way round.
  function shift(start, to, isBack) {
    const lines = area.value.slice(start, to);
    const moved = isBack ? lines.replaceAll(/^ {1,4}/gm, "") : lines.replaceAll(/^(?=.)/gm, INDENT);
    if (moved === lines) return;
    replace(start, to, moved);
    area.setSelectionRange(lines.includes("\n") ? start : start + moved.length, start + moved.length);
  }

  function checkSoon() {
    if (isFixed) return;
    clearTimeout(timer);
    timer = setTimeout(check, PAUSE);
  }

  async function check() {
    const content = area.value;
    if (!element.isConnected || content === "") return;
    let answer;
    try {
      answer = await post("/api/v1/functions/check", { content, ...of() });
    } catch (error) {
      setText(verdict, error.status === 403 ? "" : `The script could not be checked: ${error.message}`);
      return;
    }
    if (area.value !== content) return;
    const own = `/${of().id ?? "draft"}.rhai`;
    problems = answer.slice(0, 20).map((problem) => ({ ...problem, ...placed(problem, problem.place?.replace(/(:\d+)*$/, "").endsWith(own)) }));
    drawProblems();
    drawNumbers(content.split("\n").length);
    verdict.dataset.state = problems.length === 0 ? "good" : "bad";
    setText(verdict, problems.length === 0 ? "No problems" : count(answer.length, "problem"));
    fill(list, problems.map((problem) => finding(problem, true)));
  }

  // The place of a problem in this text; of another file, none.
  function placed({ line, column, width }, isHere) {
    if (!isHere || !line) return { from: null, to: null, line: null };
    const from = offset(line, column ?? 1);
    const end = area.value.indexOf("\n", from);
    return { from, to: Math.max(from + 1, column ? from + width : end < 0 ? area.value.length : end) };
  }

  // Columns are counted in characters.
  function offset(line, column) {
    const lines = area.value.split("\n");
    const start = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    return start + [...(lines[line - 1] ?? "")].slice(0, column - 1).join("").length;
  }

  function finding(problem, isItem) {
    const { severity, code, message, help, place, line, column, fix } = problem;
    return h(isItem ? "li" : "div", { class: "finding", "data-severity": severity },
      h("p", {}, isItem && (line ? button(`Line ${line}`, () => go(line, column ?? 1), { class: "plain" }) : h("code", {}, place)), isItem && " ", message, " ", code && h("span", { class: "dim" }, code)),
      help && h("p", { class: "help" }, "Help: ", help),
      fix && button(fix.title, () => apply(problem), { "aria-label": isItem ? `${fix.title} in line ${line}` : null }));
  }

  function apply({ fix }) {
    tip.hidden = true;
    const letters = [...area.value];
    const at = (place) => letters.slice(0, place).join("").length;
    // The last one first, so that the places of the others stay.
    for (const { from, to, text } of [...fix.edits].sort((a, b) => b.from - a.from)) replace(at(from), at(to), text);
  }

  // Shows the problem under the pointer.
  function point(event) {
    const isAt = ({ left, right, top, bottom }) => event.clientX >= left - 4 && event.clientX <= right + 4 && event.clientY >= top && event.clientY <= bottom + 4;
    const at = problems.find(({ from, to }) => from !== null && to < letters.length && isAt(rectOf(from, to)));
    if (!at) {
      tip.hidden = true;
      return;
    }
    const { left, bottom } = rectOf(at.from, at.to);
    fill(tip, finding(at, false));
    tip.hidden = false;
    tip.style.top = `${bottom}px`;
    tip.style.left = `${Math.max(8, Math.min(left, innerWidth - tip.offsetWidth - 8))}px`;
  }

  function go(line, column) {
    const at = Math.min(offset(line, column), area.value.length);
    const end = area.value.indexOf("\n", at);
    area.focus();
    area.setSelectionRange(at, end < 0 ? area.value.length : end);
    area.scrollTop = Math.max(0, (line - 5) * parseFloat(getComputedStyle(area).lineHeight));
  }

  return {
    element,
    get value() {
      return area.value;
    },
    set value(text) {
      area.value = text;
      area.setSelectionRange(0, 0);
      problems = [];
      fill(list);
      draw();
      checkSoon();
    },
    onchange: (act) => area.addEventListener("input", act),
    // Calls `act` when a key is pressed together with Ctrl.
    onkey: (key, act) => area.addEventListener("keydown", (event) => {
      if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === key) {
        event.preventDefault();
        act();
      }
    }),
    // Marks the line with the error, or none for null.
    mark(line) {
      marked = line;
      draw();
      if (line) area.setAttribute("aria-invalid", "true");
      else area.removeAttribute("aria-invalid");
    },
    go,
  };
}

// The text of a snippet and the ranges of its placeholders by number.
function expanded(snippet) {
  let plain = "";
  const stops = {};
  for (const [, escaped, bare, number, word, other] of snippet.matchAll(/\\([^])|\$(\d)|\$\{(\d):((?:\\[^]|[^}])*)\}|([^])/g)) {
    const start = plain.length;
    plain += escaped ?? other ?? (word ?? "").replaceAll(/\\([^])/g, "$1");
    const stop = bare ?? number;
    if (stop !== undefined) stops[stop] ??= [start, plain.length];
  }
  return { plain, stops };
}
