// The usual marks of answers as elements: code, lists, headings, bold text and links of the web. Other marks stay text.

import { h } from "/page/dom.js";

const INLINE = /`([^`\n]+)`|\*\*([^*\n]+)\*\*|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;

export function markdown(text) {
  const parts = [];
  let plain = [];
  let items = null;
  const lines = text.split("\n");
  const flush = () => {
    if (plain.some((line) => line.trim())) parts.push(h("p", {}, inline(plain.join("\n").trim())));
    if (items) parts.push(h(items.tag, {}, items.lines.map((line) => h("li", {}, inline(line)))));
    plain = [];
    items = null;
  };
  for (let place = 0; place < lines.length; place += 1) {
    const line = lines[place];
    const item = /^\s*(?:[-*]|(\d+)\.)\s+(.*)$/.exec(line);
    if (line.startsWith("```")) {
      flush();
      const end = lines.findIndex((other, at) => at > place && other.startsWith("```"));
      const last = end < 0 ? lines.length : end;
      parts.push(h("pre", { tabindex: "0" }, h("code", {}, lines.slice(place + 1, last).join("\n"))));
      place = last;
    } else if (item) {
      const tag = item[1] ? "ol" : "ul";
      if (items?.tag !== tag) flush();
      items ??= { tag, lines: [] };
      items.lines.push(item[2]);
    } else if (/^#{1,6} /.test(line)) {
      flush();
      parts.push(h("p", {}, h("strong", {}, inline(line.replace(/^#+ /, "")))));
    } else if (line.trim() === "") {
      flush();
    } else {
      if (items) flush();
      plain.push(line);
    }
  }
  flush();
  return parts;
}

function inline(text) {
  const parts = [];
  let from = 0;
  for (const [whole, code, bold, title, url] of text.matchAll(INLINE)) {
    const at = text.indexOf(whole, from);
    parts.push(text.slice(from, at));
    parts.push(code ? h("code", {}, code) : bold ? h("strong", {}, bold) : h("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, title));
    from = at + whole.length;
  }
  return [...parts, text.slice(from)];
}
