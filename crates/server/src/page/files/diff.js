// Differences of texts, line by line, and of JSON values, path by path.

import { h } from "/page/dom.js";
import { plain, short } from "/page/words.js";

// Longer values are cut, and shown completely on request.
const LONG = 1200;

// A unified difference. The first character of a line is its kind.
export function textDifference(diff) {
  const lines = diff.replace(/\n$/, "").split("\n");
  const kinds = { "+": "added", "-": "removed", "@": "place" };
  // The names of both texts stand before the first place. Further below, `--- ` is a line that begins with `-- `.
  const first = Math.max(0, lines.findIndex((line) => line.startsWith("@@")));
  return h("pre", { class: "difference", tabindex: "0" },
    lines.slice(first).map((line) => h("span", { class: kinds[line[0]] ?? "same" }, `${line}\n`)));
}

const OPS = { add: "added", remove: "removed", replace: "changed" };

export function valueDifference(changes) {
  if (changes.length === 0) return h("p", { class: "empty" }, "No difference.");
  return h("ul", { class: "changes" }, changes.map((change) => h("li", { "data-op": change.op },
    h("p", {}, h("strong", {}, OPS[change.op] ?? change.op), " ", h("code", {}, change.path || "the whole value")),
    ...values(change))));
}

function values({ op, before, after }) {
  if (op === "add") return [value("added", [plain(after)])];
  if (op === "remove") return [value("removed", [plain(before)])];
  const [old, fresh] = [plain(before), plain(after)];
  const [from, to] = common(old, fresh);
  const parts = (text) => [text.slice(0, from), h("mark", {}, text.slice(from, text.length - to)), text.slice(text.length - to)];
  return [value("removed", parts(old)), value("added", parts(fresh))];
}

function value(kind, parts) {
  const sign = kind === "added" ? "+ " : "- ";
  const length = parts.reduce((sum, part) => sum + (part.textContent ?? part).length, 0);
  const whole = h("pre", { class: kind, tabindex: "0" }, h("span", { class: "sign" }, sign), parts);
  if (length <= LONG) return whole;
  const beginning = short(parts.map((part) => part.textContent ?? part).join(""), 200);
  return h("details", {}, h("summary", {}, h("code", { class: kind }, `${sign}${beginning}`)), whole);
}

// How many letters two texts begin and end with alike.
function common(a, b) {
  const most = Math.min(a.length, b.length);
  let from = 0;
  while (from < most && a[from] === b[from]) from += 1;
  let to = 0;
  while (to < most - from && a[a.length - 1 - to] === b[b.length - 1 - to]) to += 1;
  return [from, to];
}
