// The running order of filters: the number of each, moves, and their saving.

import { get, plugin as path, post } from "/page/api.js";
import { button, h, notify } from "/page/dom.js";
import { plugin as known, reload } from "/page/state.js";

// Returns the controls of a filter in the list. `ordered()` returns the filters in running order.
export function place(plugin, ordered) {
  const number = h("input", { type: "number", step: "any", onchange: () => number.value !== "" && save([[plugin.id, Number(number.value)]]) });
  const move = (by) => {
    const ids = ordered().map(({ id }) => id);
    const at = ids.indexOf(plugin.id) + by;
    if (at >= 0 && at < ids.length) moved(plugin.id, at, ordered());
  };
  const up = button("↑", () => move(-1), { class: "quiet" });
  const down = button("↓", () => move(1), { class: "quiet" });
  const element = h("span", { class: "place" }, number, up, down);
  element.update = (plugin) => {
    number.setAttribute("aria-label", `Order of ${plugin.title}`);
    up.setAttribute("aria-label", `Run ${plugin.title} earlier`);
    down.setAttribute("aria-label", `Run ${plugin.title} later`);
    if (document.activeElement !== number) number.value = plugin.priority;
  };
  return element;
}

// Makes a row draggable; a row that is dropped on another one takes its place.
export function draggable(row, id, ordered) {
  row.addEventListener("dragstart", (event) => {
    event.dataTransfer.setData("text/plain", id);
    event.dataTransfer.effectAllowed = "move";
  });
  row.addEventListener("dragover", (event) => {
    event.preventDefault();
    row.dataset.over = "yes";
  });
  for (const end of ["dragleave", "drop", "dragend"]) row.addEventListener(end, () => delete row.dataset.over);
  row.addEventListener("drop", (event) => {
    event.preventDefault();
    const from = event.dataTransfer.getData("text/plain");
    const all = ordered();
    if (from !== id && all.some((one) => one.id === from)) moved(from, all.findIndex((one) => one.id === id), all);
  });
}

// Moves a filter to a place in the order. The filters behind it get other numbers only if there is no whole one between.
function moved(id, at, ordered) {
  const rest = ordered.filter((one) => one.id !== id);
  const after = rest[at - 1]?.priority ?? null;
  const before = rest[at]?.priority ?? null;
  const between = after === null ? Math.floor(before) - 1 : before === null ? Math.floor(after) + 1 : Math.floor((after + before) / 2);
  const own = after !== null && between <= after ? Math.floor(after) + 1 : between;
  const changes = [[id, own]];
  let last = own;
  for (const one of rest.slice(at)) {
    if (one.priority > last) break;
    last += 1;
    changes.push([one.id, last]);
  }
  save(changes);
}

async function save(changes) {
  const before = changes.map(([id]) => [id, known(id).priority]);
  try {
    for (const [id, number] of changes) await set(id, number);
    const [[id, number]] = changes;
    notify(`${id} runs at ${number}${changes.length > 1 ? `, and ${changes.length - 1} behind it moved` : ""}.`, () => save(before));
  } catch (error) {
    notify(`Cannot change the order: ${error.message}`);
  }
  reload();
}

// The order is the valve `priority`, or else the `priority` of the opening comment.
async function set(id, number) {
  const spec = await get(path(id, "/valves/spec"));
  if (spec?.properties?.priority) {
    const stored = await get(path(id, "/valves"));
    await post(path(id, "/valves/update"), { ...stored, priority: number });
    return;
  }
  const { content, hash } = await get(path(id));
  await post(path(id, "/update"), { content: written(content, number), expected_hash: hash });
}

function written(text, number) {
  const head = /^\s*\/\*[^]*?\*\//.exec(text)?.[0];
  if (!head) return `/*\npriority: ${number}\n*/\n${text}`;
  const line = /^([ \t*]*priority:).*$/m;
  const next = line.test(head) ? head.replace(line, `$1 ${number}`) : head.replace(/\/\*[ \t]*\n?/, `/*\npriority: ${number}\n`);
  return next + text.slice(head.length);
}
