// The form of a plugin's valves. Each change is saved at once, applies from the next turn, and can be undone.

import { get, plugin as path, post } from "/page/api.js";
import { button, failed, fill, h, name, setText, notify } from "/page/dom.js";
import { control, rules } from "/page/fields.js";
import { go } from "/page/route.js";
import { short } from "/page/words.js";

const SOURCES = { default: "default", configuration: "from valvehouse.toml", stored: "set here" };

// The valves that operators set.
export function ofPlugin(place, id) {
  return form(place, {
    what: id,
    spec: () => get(path(id, "/valves/spec")),
    read: async () => {
      const [stored, effective] = await Promise.all([get(path(id, "/valves")), get(path(id, "/valves/effective"))]);
      return { stored: stored ?? {}, effective };
    },
    write: (values) => post(path(id, "/valves/update"), values),
    newest: async () => (await get(path(id, "/history")))[0]?.version,
    back: (version) => post(path(id, "/rollback"), { version }),
  });
}

// The valves of one user, whose id is typed first.
export function ofUser(place, id, user) {
  const input = h("input", { id: name("user"), autocomplete: "off", required: true, value: user ?? "" });
  const fields = h("div");
  fill(place,
    h("form", { class: "row start", onsubmit: choose },
      h("p", { class: "field" }, h("label", { for: input.id }, "User id"), input), h("button", { type: "submit" }, "Show")),
    fields);
  if (!user) {
    fill(fields, h("p", { class: "empty" }, "Each user has their own settings. Enter the user id that chats contain."));
    return {};
  }
  const query = `?user=${encodeURIComponent(user)}`;
  let schema = null;
  return form(fields, {
    what: `${id} for ${user}`,
    spec: async () => {
      schema = await get(path(id, "/valves/user/spec"));
      return schema;
    },
    read: async () => {
      const stored = await get(path(id, `/valves/user${query}`)) ?? {};
      const effective = {};
      for (const [key, { default: usual = null }] of Object.entries(schema?.properties ?? {})) {
        effective[key] = key in stored ? { value: stored[key], source: "stored" } : { value: usual, source: "default" };
      }
      return { stored, effective };
    },
    write: (values) => post(path(id, `/valves/user/update${query}`), values),
  });

  function choose(event) {
    event.preventDefault();
    if (input.value.trim()) go("plugins", id, "users", input.value.trim());
  }
}

function form(place, from) {
  const fields = h("div", { class: "valves" });
  const all = button("Reset all", resetAll, { class: "quiet", hidden: true });
  const wrong = h("div");
  fill(place, wrong, fields, h("div", { class: "actions" }, all));
  let rows = new Map();
  let stored = {};
  let isClosed = false;
  // Changes are sent one after the other, because each replaces all stored values.
  let last = load();
  return { update: () => { last = last.then(refresh); }, close: () => { isClosed = true; } };

  async function load() {
    try {
      const schema = await from.spec();
      const properties = Object.entries(schema?.properties ?? {});
      rows = new Map(properties.map(([key, schema]) => [key, field(key, schema, { save, set, unset })]));
      await refresh();
      // Fields are shown once they have their values.
      const all = [...rows.values()];
      const switches = all.filter((row) => row.isSwitch);
      fill(fields, switches.length > 0 && h("div", { class: "onoff" }, switches.map((row) => row.element)), all.filter((row) => !row.isSwitch).map((row) => row.element),
        properties.length === 0 && h("p", { class: "empty" }, "No settings."));
    } catch (error) {
      fill(wrong, failed("The settings could not be loaded", error));
    }
  }

  async function refresh() {
    if (isClosed) return;
    try {
      const read = await from.read();
      stored = read.stored;
      for (const [key, row] of rows) row.show(read.effective[key] ?? { value: null, source: "default" });
      all.hidden = Object.keys(stored).length === 0;
      fill(wrong);
    } catch (error) {
      fill(wrong, failed("The settings could not be loaded", error));
    }
  }

  async function resetAll() {
    for (const row of rows.values()) row.settle();
    const error = await save("All settings are reset to their defaults", () => ({}));
    if (error) fill(wrong, failed("Cannot save", error));
  }

  function set(key, value) {
    return (values) => ({ ...values, [key]: value });
  }

  function unset(key) {
    return ({ [key]: _, ...values }) => values;
  }

  // Changes the stored values. Returns the error if the change is rejected.
  function save(message, change) {
    const saved = last.then(async () => {
      const before = { ...stored };
      const version = await newest();
      try {
        await from.write(change(before));
      } catch (error) {
        return error;
      }
      await refresh();
      const own = await newest();
      notify(`${message}.`, () => undo(async () => {
        if (version === undefined) return from.write(before);
        if (own !== await newest()) throw new Error("the plugin has changed since; its history has every version");
        return from.back(version);
      }));
      return null;
    });
    last = saved.catch(() => {});
    return saved;
  }

  function newest() {
    return from.newest?.().catch(() => undefined);
  }

  function undo(back) {
    last = last.then(async () => {
      try {
        await back();
        notify(`The last change to ${from.what} is undone.`);
      } catch (error) {
        notify(`Cannot undo: ${error.message}`);
      }
      for (const row of rows.values()) row.settle();
      await refresh();
    });
  }
}

// One valve: label, control, rules, source of the value and result of saving.
function field(key, schema, { save, set, unset }) {
  const own = control(schema, changed);
  const source = h("span", { class: "source" });
  const outcome = h("span", { class: "outcome", id: name("outcome"), role: "status" });
  const wrong = h("p", { class: "wrong", id: name("wrong"), role: "alert" });
  const hint = h("p", { class: "hint", id: name("hint") }, [schema.description, rules(schema)].filter(Boolean).join(". "));
  const title = schema.title ?? key;
  const reset = button(own.isSecret ? "Clear" : "Reset", putBack, {
    class: "quiet", "aria-label": `${own.isSecret ? "Clear" : "Reset"} ${title}`,
  });
  const label = own.isGroup ? h("span", { class: "label", id: name("label") }, title) : h("label", { class: "label", for: own.id }, title);
  own.element.setAttribute("aria-describedby", `${hint.id} ${wrong.id}`);
  if (own.isGroup) {
    own.element.setAttribute("role", "group");
    own.element.setAttribute("aria-labelledby", label.id);
  }
  const about = h("div", { class: "about" }, h("p", {}, label, " ", title.toLowerCase().replaceAll(" ", "_") !== key && h("code", { class: "dim" }, key)), hint);
  const place = h("div", { class: "control" }, own.element);
  const ends = h("div", { class: "ends" }, outcome, source, reset);
  // A switch stands before its label, other controls beside it.
  const element = h("div", { class: "valve", "data-valve": key }, own.box ? [place, about, ends] : [about, place, ends], wrong);
  hint.hidden = hint.textContent === "";
  // True if an entered value is not saved yet; `isTyping` is true before the value is entered.
  let isDirty = false;
  let isTyping = false;
  let shown = null;
  own.element.addEventListener("input", () => { isTyping = true; });
  own.element.addEventListener("focusout", () => { isTyping = false; });

  return { element, isSwitch: Boolean(own.box), show, settle: () => { isDirty = false; shown = null; fill(wrong); own.element.removeAttribute("aria-invalid"); } };

  function show({ value, source: from }) {
    setText(source, SOURCES[from] ?? from);
    source.dataset.source = from;
    reset.hidden = from !== "stored" && !isDirty;
    const now = JSON.stringify(value);
    if (isDirty || isTyping || now === shown) return;
    shown = now;
    own.write(value);
  }

  function putBack() {
    isDirty = false;
    shown = null;
    put(`${title} is ${own.isSecret ? "cleared" : "reset to its default"}`, unset(key));
    own.element.matches("input, select, textarea") ? own.element.focus() : document.getElementById(own.id)?.focus();
  }

  function changed() {
    isDirty = true;
    isTyping = false;
    shown = null;
    let value;
    try {
      value = own.read();
    } catch (error) {
      refused(error);
      return;
    }
    const message = own.isSecret ? "is replaced" : value === undefined ? "is reset to its default" : `is ${short(JSON.stringify(value), 60)}`;
    put(`${title} ${message}`, value === undefined ? unset(key) : set(key, value));
  }

  async function put(message, change) {
    setText(outcome, "Saving");
    const sent = isDirty ? own.element.value : undefined;
    const error = await save(message, change).catch((error) => error);
    if (error) {
      refused(error);
      return;
    }
    // Unless the value changed in the meantime.
    if (own.element.value === sent || sent === undefined || own.isSecret || own.box) isDirty = false;
    own.element.removeAttribute("aria-invalid");
    fill(wrong);
    if (own.isSecret) own.write(!change({ [key]: 1 })[key] ? null : "set");
    setText(outcome, "Saved");
    setTimeout(() => setText(outcome, ""), 4000);
  }

  function refused(error) {
    setText(outcome, "");
    own.element.setAttribute("aria-invalid", "true");
    reset.hidden = false;
    fill(wrong, `Cannot save: ${error.message}`);
  }
}
