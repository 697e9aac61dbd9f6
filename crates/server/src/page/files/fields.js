// Controls for the values of valves, made from the schema that a plugin declares.

import { button, h, keyed, name } from "/page/dom.js";

// Returns the schema of the value without its null alternative.
export function readable(schema) {
  const value = schema.anyOf?.find((one) => one.type !== "null");
  return { ...schema, ...value, nullable: Boolean(value) };
}

// Returns `{element, focus id, read, write}`. `read` throws an error for an invalid entry and returns undefined for an empty one.
export function control(schema, changed) {
  const is = readable(schema);
  if (is.writeOnly) return secret(changed);
  if (is.enum) return choice(is, changed);
  if (is.type === "boolean") return onOff(changed);
  if (is.type === "integer" || is.type === "number") return number(is, changed);
  if (is.type === "array") return list(is, changed);
  return text(is, changed);
}

function onOff(changed) {
  const box = h("input", { type: "checkbox", role: "switch", id: name("valve"), onchange: changed });
  return { element: box, id: box.id, box, read: () => box.checked, write: (value) => { box.checked = Boolean(value); } };
}

function number(is, changed) {
  const step = is.type === "integer" ? 1 : "any";
  const input = h("input", { type: "number", id: name("valve"), inputmode: "decimal", step, min: is.minimum, max: is.maximum, onchange: changed });
  const read = () => {
    if (input.validity.badInput) throw new Error("this is not a number");
    if (input.value === "") {
      if (is.nullable) return undefined;
      throw new Error("enter a number, or use Reset for the default");
    }
    return Number(input.value);
  };
  return { element: input, id: input.id, read, write: (value) => { input.value = value ?? ""; } };
}

function choice(is, changed) {
  const none = is.nullable ? [h("option", { value: "" }, "none")] : [];
  const select = h("select", { id: name("valve"), onchange: changed },
    none, is.enum.map((value, place) => h("option", { value: String(place) }, String(value))));
  return {
    element: select,
    id: select.id,
    read: () => select.value === "" ? undefined : is.enum[Number(select.value)],
    write: (value) => { select.value = value === null || value === undefined ? "" : String(is.enum.indexOf(value)); },
  };
}

function text(is, changed) {
  const isLong = is.format === "textarea";
  const input = isLong
    ? h("textarea", { id: name("valve"), rows: "4", spellcheck: "false", onchange: changed })
    : h("input", { type: "text", id: name("valve"), autocomplete: "off", spellcheck: "false", onchange: changed });
  return {
    element: input,
    id: input.id,
    read: () => input.value === "" && is.nullable ? undefined : input.value,
    write: (value) => { input.value = value ?? ""; },
  };
}

// A secret is never shown; the placeholder says whether it is set.
function secret(changed) {
  const input = h("input", { type: "password", id: name("valve"), autocomplete: "new-password", spellcheck: "false", onchange: () => input.value && changed() });
  return {
    element: input,
    id: input.id,
    isSecret: true,
    read: () => {
      if (!input.value) throw new Error("enter a new secret, or clear it");
      return input.value;
    },
    write: (value) => {
      input.value = "";
      input.placeholder = value ? "set; enter a new value to replace it" : "not set";
    },
  };
}

// A row for each item, with buttons that remove and add.
function list(is, changed) {
  const rows = h("ol", { class: "items" });
  const id = name("valve");
  const add = button("Add item", () => {
    draw([...entries(), { key: name("item"), value: undefined }]);
    rows.lastChild.input.focus();
  }, { class: "quiet", id });
  const group = h("div", { class: "list-editor" }, rows, add);
  return {
    element: group,
    id,
    isGroup: true,
    read: () => [...rows.children].filter((row) => !row.isEmpty()).map((row) => row.read()),
    write: (value) => draw((value ?? []).map((value, place) => ({ key: `${place}`, value }))),
  };

  function entries() {
    return [...rows.children].map((row) => ({ key: row.key, keep: true }));
  }

  function draw(entries) {
    keyed(rows, entries.map((entry, place) => ({ ...entry, place: place + 1 })), (entry) => entry.key, (entry) => item(entry.key));
  }

  function item(key) {
    const own = control({ type: "string", ...is.items }, changed);
    const isWord = ["input", "textarea"].includes(own.element.tagName.toLowerCase()) && own.element.type !== "checkbox";
    const row = h("li", {}, own.element, button("Remove", () => {
      const after = row.nextElementSibling ?? row.previousElementSibling;
      draw(entries().filter((entry) => entry.key !== key));
      changed();
      (after?.input ?? add).focus();
    }, { class: "quiet" }));
    row.key = key;
    row.input = own.element;
    row.read = own.read;
    row.isEmpty = () => isWord && own.element.value === "";
    row.update = (entry) => {
      if (!entry.keep) own.write(entry.value);
      const place = `item ${entry.place}`;
      own.element.setAttribute("aria-label", place);
      row.lastChild.setAttribute("aria-label", `Remove ${place}`);
    };
    return row;
  }
}

// Returns the rules of the value as text.
export function rules(schema) {
  const is = readable(schema);
  const of = is.type === "array" && is.items ? { ...is.items } : is;
  const parts = [];
  const { minimum: from, maximum: to } = of;
  if (from !== undefined && to !== undefined) parts.push(`${from} to ${to}`);
  else if (from !== undefined) parts.push(`at least ${from}`);
  else if (to !== undefined) parts.push(`at most ${to}`);
  if (of.pattern) parts.push(`must match ${of.pattern}`);
  if (is.type === "integer") parts.push("a whole number");
  if (is.nullable && !is.writeOnly) parts.push("optional");
  return parts.join(", ");
}
