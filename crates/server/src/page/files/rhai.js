// The parts of a script, for the colors and the brackets of the editor.

const WORDS = new Set(("let const if else for in while loop do until switch return throw try catch fn private import export as "
  + "break continue this global").split(" "));
const CODE = new RegExp(["(?<comment>/\\*[^]*?(?:\\*/|$)|//[^\\n]*)", "(?<text>\"(?:\\\\[^]|[^\"\\\\\\n])*\"?|'(?:\\\\.|[^'\\\\\\n])+'?)", "(?<tick>`)",
  "(?<number>\\b(?:0[xob][\\da-f_]+|\\d[\\d_]*(?:\\.\\d[\\d_]*)?(?:e[+-]?\\d+)?))", "(?<word>[a-z_]\\w*)", "(?<bracket>#\\{|[{}()[\\]])"].join("|"), "gi");
const CLOSING = { "}": ["{", "#{", "${"], ")": ["("], "]": ["["] };

export const KINDS = ["comment", "text", "number", "keyword", "call", "key"];

// Returns `{parts: [[kind, from, to]], pairs}`, where `pairs` has the other bracket of each bracket, or -1.
export function scan(text) {
  const parts = [];
  const pairs = new Map();
  const open = [];
  CODE.lastIndex = 0;
  for (let found = CODE.exec(text); found; found = CODE.exec(text)) {
    const { comment, text: string, tick, number, word, bracket } = found.groups;
    const [from, to] = [found.index, CODE.lastIndex];
    if (comment) parts.push(["comment", from, to]);
    else if (string) parts.push(["text", from, to]);
    else if (tick) template(from, to);
    else if (number) parts.push(["number", from, to]);
    else if (word) name(word, from, to);
    else if (CLOSING[bracket]) close(bracket, from);
    else {
      open.push({ bracket, at: to - 1 });
      pairs.set(to - 1, -1);
    }
  }
  return { parts, pairs };

  function name(word, from, to) {
    if (WORDS.has(word)) parts.push(["keyword", from, to]);
    else if (word === "true" || word === "false") parts.push(["number", from, to]);
    else if (text[to] === "(" || text.startsWith("::", to)) parts.push(["call", from, to]);
    else if (text[to] === ":") parts.push(["key", from, to]);
  }

  // A text between backticks goes on behind the `}` of a `${`.
  function template(from, to) {
    const end = /`|\$\{|$(?![^])/g;
    end.lastIndex = to;
    const found = end.exec(text);
    CODE.lastIndex = found.index + found[0].length;
    parts.push(["text", from, CODE.lastIndex]);
    if (found[0] === "${") open.push({ bracket: "${", at: CODE.lastIndex - 1 });
  }

  function close(bracket, at) {
    const last = open.at(-1);
    if (!CLOSING[bracket].includes(last?.bracket)) {
      pairs.set(at, -1);
      return;
    }
    open.pop();
    pairs.set(at, last.at);
    pairs.set(last.at, at);
    if (last.bracket === "${") template(at, at + 1);
  }
}
