// Elements: made from a description, kept in step with a list, and a few that are used everywhere.

// h("button", {class: "quiet", onclick: go}, "Go"): what is null or false is left out.
export function h(tag, given = {}, ...children) {
  const element = document.createElement(tag);
  element.append(...children.flat(Infinity).filter(isShown));
  for (const [name, value] of Object.entries(given)) {
    set(element, name, value);
  }
  return element;
}

const PROPERTIES = new Set(["value", "checked", "selected", "disabled", "hidden", "open", "textContent"]);

function set(element, name, value) {
  if (name.startsWith("on")) {
    element.addEventListener(name.slice(2), value);
  } else if (PROPERTIES.has(name)) {
    element[name] = value;
  } else if (value === true) {
    element.setAttribute(name, "");
  } else if (value !== false && value !== null && value !== undefined) {
    element.setAttribute(name, value);
  }
}

function isShown(child) {
  return child !== null && child !== undefined && child !== false;
}

export function fill(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter(isShown));
  return element;
}

// Only what differs is written: whoever listens to the page hears only news.
export function say(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

const rowsByParent = new WeakMap();

// The elements that `keyed` keeps in another one, by their keys.
export function rowsOf(parent) {
  return rowsByParent.get(parent) ?? new Map();
}

// Keeps the children of an element in step with a list. `make(item)` gives an element, whose `update(item)` is
// called when there is news of it; what stays, stays where it is and keeps its focus.
export function keyed(parent, items, keyOf, make) {
  const old = rowsOf(parent);
  const rows = new Map();
  for (const item of items) {
    const key = keyOf(item);
    const row = old.get(key) ?? make(item);
    row.update?.(item);
    rows.set(key, row);
  }
  for (const [key, row] of old) {
    if (!rows.has(key)) {
      row.remove();
    }
  }
  let next = parent.firstChild;
  for (const row of rows.values()) {
    if (row === next) {
      next = next.nextSibling;
    } else {
      parent.insertBefore(row, next);
    }
  }
  rowsByParent.set(parent, rows);
}

let names = 0;

// A name that no other element has.
export function name(of) {
  names += 1;
  return `${of}-${names}`;
}

export function button(text, act, more = {}) {
  return h("button", { type: "button", onclick: act, ...more }, text);
}

// A switch with its label.
export function toggle(label, isOn, act, more = {}) {
  const box = h("input", { type: "checkbox", role: "switch", checked: isOn, onchange: () => act(box.checked, box), ...more });
  const element = h("label", { class: "toggle" }, box, h("span", {}, label));
  element.box = box;
  return element;
}

const STATES = {
  live: "live", stale: "stale", broken: "does not load", missing: "missing", breaker_open: "breaker open", held: "held", pending: "waits for you", set_aside: "set aside", quarantined: "quarantined", off: "off",
  file: "file", used: "used",
  connected: "connected", connecting: "connecting", unavailable: "not available", approved: "approved", new: "new", changed: "changed", gone: "gone",
};

// How something stands, in a word and a colour.
export function badge(state) {
  const element = h("span", { class: "badge" });
  element.update = (state) => {
    element.dataset.state = state;
    say(element, STATES[state] ?? state);
  };
  element.update(state);
  return element;
}

// What cannot be shown, and why.
export function failed(what, error) {
  return h("p", { class: "failed", role: "alert" }, `${what}: ${error.message}`);
}

// Asks before something that cannot be taken back by another click.
export function confirmed(question, detail, yes) {
  return new Promise((answer) => {
    const dialog = h("dialog", { "aria-labelledby": "question" },
      h("h2", { id: "question" }, question),
      h("p", {}, detail),
      h("div", { class: "actions" },
        button("Cancel", () => dialog.close("no"), { class: "quiet" }),
        button(yes, () => dialog.close("yes"), { class: "danger" })));
    dialog.addEventListener("close", () => {
      dialog.remove();
      answer(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// Says something to who sees the page and to who hears it, with a way back where there is one.
let quietly;
export function tell(text, undo) {
  const said = document.getElementById("said");
  fill(said, text, undo && button("Undo", () => { fill(said); undo(); }, { class: "quiet" }));
  clearTimeout(quietly);
  quietly = undo ? undefined : setTimeout(() => fill(said), 8000);
}
