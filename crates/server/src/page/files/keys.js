// Keys for clients and operators: what each allows and has used, and its creation, rotation and end.

import { get, post, put, remove } from "/page/api.js";
import { badge, button, confirmed, failed, fill, h, name, notify } from "/page/dom.js";
import { day, visible } from "/page/words.js";

// The interval of polls, in milliseconds.
const PERIOD = 10_000;
// The fields of the form: the name in the API, the label, the kind, and a hint.
const FIELDS = [
  ["user", "User", "text", "id, such as ann"],
  ["group", "Group", "text", "of @research: research"],
  ["models", "Models", "list", "all; or fast, gpt-*"],
  ["requests_per_minute", "Requests per minute", "number", ""],
  ["tokens_per_day", "Tokens per day", "number", ""],
  ["tokens_per_month", "Tokens per month", "number", ""],
  ["cost_per_day", "Cost per day", "number", "in the models' currency"],
  ["cost_per_month", "Cost per month", "number", ""],
  ["expires_at", "Expires on", "date", ""],
];
const ROLES = [["", "models"], ["read", "operator: read"], ["tune", "operator: tune valves and switches"], ["write", "operator: write scripts"], ["admin", "operator: everything"]];

export function keys(place, _parts, scope) {
  const shown = h("div", { role: "status" });
  const wrong = h("div");
  const list = h("div", {}, h("p", { class: "empty" }, "Loading."));
  const fields = form(created);
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Keys"),
    h("p", { class: "dim" }, "A key is shown once, when it is created; the host stores only its digest. A group (@name) has limits that its keys share. Changes take effect at once on all hosts."),
    shown, wrong, list, fields.element);
  load();
  scope.every(PERIOD, load);

  async function load() {
    try {
      const { data } = await get("/api/v1/keys");
      if (scope.closed) return;
      fill(wrong);
      fill(list, table(data));
    } catch (error) {
      if (!scope.closed) fill(wrong, failed("The keys could not be loaded", error));
    }
  }

  function created(key) {
    if (!key.key) {
      notify(`Saved ${key.name}.`);
      return load();
    }
    const word = h("input", { id: name("key"), value: key.key, readonly: true, onfocus: () => word.select() });
    fill(shown, h("section", { class: "card notice", "aria-label": "New key" },
      h("label", { for: word.id }, `The key of ${key.name}, which is shown only now`), word,
      h("p", { class: "actions" }, button("Copy", async () => {
        try {
          await navigator.clipboard.writeText(key.key);
          notify("Copied.");
        } catch {
          word.select();
        }
      }), button("Done", () => fill(shown), { class: "quiet" }))));
    word.focus();
    load();
  }

  function table(keys) {
    if (keys.length === 0) return h("p", { class: "empty" }, "No keys are stored. With the first one, requests need a key.");
    const titles = ["Name", "State", "User", "Models", "Limits", "Used today", "Used this month", "Last use", "Expires", ""];
    return h("div", { class: "scroll" }, h("table", { class: "usage" },
      h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col" }, title)))),
      h("tbody", {}, keys.map(row))));
  }

  function row(key) {
    const { rights, use } = key;
    const state = key.state === "valid" ? rights.role ?? "valid" : key.state;
    return h("tr", {}, h("th", { scope: "row" }, key.name), h("td", {}, badge(state)),
      h("td", {}, visible([rights.user, rights.group && `@${rights.group}`].filter(Boolean).join(" ") || "–")), h("td", {}, visible((rights.models ?? ["all"]).join(", "))), h("td", {}, limits(rights) || "–"),
      h("td", {}, spent(use.tokens_today, use.cost_today)), h("td", {}, spent(use.tokens_this_month, use.cost_this_month)),
      h("td", {}, key.used_at ? day(key.used_at) : "never"), h("td", {}, rights.expires_at ? day(rights.expires_at) : "–"),
      h("td", {}, !key.revoked_at && h("span", { class: "actions" },
        button("Change", () => fields.change(key), { class: "quiet", "aria-label": `Change ${key.name}` }),
        !key.name.startsWith("@") && button("Rotate", () => rotate(key), { class: "quiet", "aria-label": `Rotate ${key.name}` }),
        button("Revoke", () => revoke(key), { class: "danger", "aria-label": `Revoke ${key.name}` }))));
  }

  async function rotate(key) {
    if (!await confirmed("Replace the key?", `Clients that use the key of ${key.name} are rejected until they have the new one.`, "Rotate")) return;
    try {
      created(await post(`/api/v1/keys/${encodeURIComponent(key.name)}/rotate`));
    } catch (error) {
      notify(`Cannot rotate: ${error.message}`);
    }
  }

  async function revoke(key) {
    if (!await confirmed("Revoke the key?", `Clients that use the key of ${key.name} are rejected at once.`, "Revoke")) return;
    try {
      await remove(`/api/v1/keys/${encodeURIComponent(key.name)}`);
      notify(`Revoked the key of ${key.name}.`);
    } catch (error) {
      notify(`Cannot revoke: ${error.message}`);
    }
    load();
  }
}

function form(created) {
  const own = h("input", { id: name("field"), required: true, autocomplete: "off", maxlength: 65, pattern: "@?[A-Za-z0-9._\\-]+" });
  const role = h("select", { id: name("field") }, ROLES.map(([value, title]) => h("option", { value }, title)));
  const inputs = FIELDS.map(([field, label, kind, hint]) => {
    const input = h("input", { id: name("field"), type: kind === "list" ? "text" : kind, min: kind === "number" ? 0 : null, step: "any", autocomplete: "off", placeholder: hint });
    return { field, kind, input, row: h("p", { class: "field" }, h("label", { for: input.id }, label), input) };
  });
  const limits = h("div", { class: "row start" }, inputs.map(({ row }) => row));
  role.addEventListener("change", () => { limits.hidden = role.value !== ""; });
  const wrong = h("p", { class: "wrong", role: "alert" });
  const title = h("h2");
  const main = h("button", { type: "submit", class: "main" });
  const cancel = button("Cancel", () => edit(null), { class: "quiet" });
  const element = h("form", { class: "card", onsubmit: send }, title,
    h("div", { class: "row start" },
      h("p", { class: "field" }, h("label", { for: own.id }, "Name"), own),
      h("p", { class: "field" }, h("label", { for: role.id }, "For"), role)),
    limits, wrong, h("p", { class: "actions" }, main, cancel));
  let changed = null;
  edit(null);
  return { element, change: edit };

  // Shows the rights of a key, or an empty form for a new one.
  function edit(key) {
    changed = key;
    fill(title, key ? `Rights of ${key.name}` : "New key");
    fill(main, key ? "Save" : "Create key");
    own.readOnly = role.disabled = key !== null;
    cancel.hidden = key === null;
    own.value = key?.name ?? "";
    role.value = key?.rights.role ?? "";
    limits.hidden = role.value !== "";
    for (const { field, kind, input } of inputs) {
      const before = key?.rights[field] ?? "";
      input.value = kind === "list" ? [before].flat().join(", ") : kind === "date" ? before.slice(0, 10) : before;
    }
    fill(wrong);
    if (key) own.focus();
  }

  async function send(event) {
    event.preventDefault();
    const rights = role.value ? { role: role.value } : {};
    const given = inputs.filter(({ field, input }) => input.value.trim() && (!role.value || field === "expires_at"));
    for (const { field, kind, input } of given) rights[field] = value(kind, input.value.trim());
    try {
      created(changed ? await put(`/api/v1/keys/${encodeURIComponent(changed.name)}`, { rights }) : await post("/api/v1/keys", { name: own.value, rights }));
      edit(null);
    } catch (error) {
      fill(wrong, `Cannot save the key: ${error.message}`);
    }
  }
}

function value(kind, text) {
  if (kind === "number") return Number(text);
  if (kind === "list") return text.split(",").map((part) => part.trim()).filter(Boolean);
  return kind === "date" ? `${text}T00:00:00Z` : text;
}

function limits(rights) {
  const words = { requests_per_minute: "requests/min", tokens_per_day: "tokens/day", tokens_per_month: "tokens/month", cost_per_day: "cost/day", cost_per_month: "cost/month" };
  return Object.entries(words).filter(([field]) => field in rights).map(([field, word]) => `${rights[field].toLocaleString("en")} ${word}`).join(", ");
}

function spent(tokens, cost) {
  const words = `${tokens.toLocaleString("en")} tokens`;
  return cost > 0 ? `${words}, ${Number(cost.toPrecision(4))}` : words;
}
