// Helpers that create elements, synchronize them with a list, and build common ones.

// Creates an element: h("button", {class: "quiet", onclick: go}, "Go"). Children that are null or false are left out.
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

// Writes only a changed text, so that screen readers announce only changes.
export function setText(element, text) {
  if (element.textContent !== text) {
    element.textContent = text;
  }
}

const rowsByParent = new WeakMap();

// Returns the elements that `keyed` manages in `parent`, by key.
export function rowsOf(parent) {
  return rowsByParent.get(parent) ?? new Map();
}

// Synchronizes the children of an element with a list. `make(item)` returns an element, whose `update(item)` is
// called with each new state; elements that remain keep their position and focus.
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

// Returns a unique name for an element.
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
  live: "live", stale: "stale", broken: "does not load", missing: "missing", breaker_open: "breaker open", held: "held", pending: "needs confirmation", set_aside: "set aside", quarantined: "quarantined", refused: "refused", off: "off", audit: "audit mode",
  asked: "needs approval", declared: "needs no approval", unused: "not used", passed: "passed", failed: "failed",
  file: "file", used: "used", ready: "ready", resting: "at rest",
  connected: "connected", connecting: "connecting", unavailable: "unavailable", approved: "approved", new: "new", changed: "changed", gone: "missing",
};

// A badge: the status as a colored word.
export function badge(state) {
  const element = h("span", { class: "badge" });
  element.update = (state) => {
    element.dataset.state = state;
    setText(element, STATES[state] ?? state);
  };
  element.update(state);
  return element;
}

// Copies a text.
export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    notify("Copied.");
  } catch {
    notify("Cannot copy: the browser denied access to the clipboard.");
  }
}

// An error message: the failed operation and the reason.
export function failed(what, error) {
  return h("p", { class: "failed", role: "alert" }, `${what}: ${error.message}`);
}

// Asks for confirmation of an operation that cannot be undone by another click.
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

// Shows a message, which screen readers announce, with an undo button if `undo` is given.
let quietly;
export function notify(text, undo) {
  const toast = document.getElementById("toast");
  fill(toast, text, undo && button("Undo", () => { fill(toast); undo(); }, { class: "quiet" }));
  clearTimeout(quietly);
  quietly = undo ? undefined : setTimeout(() => fill(toast), 8000);
}
