// What a plugin asks for and may use: approvals of exactly the text that is shown, and revocations.

import { get, plugin as path, post } from "/page/api.js";
import { badge, button, confirmed, failed, fill, h, name, notify } from "/page/dom.js";
import { address } from "/page/route.js";
import { plugin as known, reload, state } from "/page/state.js";
import { day, visible } from "/page/words.js";

const EXAMPLES = { hosts: "api.example.com, *.example.org", folders: "data", programs: "git", variables: "LANG", tools: "weather, tag:shop" };
const BADGES = { missing: "asked", declared: "declared", granted: "approved", unused: "unused" };

export function access(place, id) {
  const news = h("div", { role: "status" });
  const wrong = h("div");
  const body = h("div", { class: "access" }, h("p", { class: "empty" }, "Loading."));
  const title = h("h3", { tabindex: "-1", "data-focus": true }, "Access");
  fill(place, title, h("p", { class: "dim" }, "A script reaches only what its opening comment asks for. An approval holds for the capability and the names that you give, in this and later versions of the script."), news, wrong, body);
  let isClosed = false;
  let generation = state.overview?.generation;
  let shown = null;
  load(true);
  return { update, close: () => { isClosed = true; } };

  function update() {
    if (generation === state.overview?.generation) return;
    generation = state.overview?.generation;
    load(false);
  }

  async function load(isWanted) {
    let now;
    try {
      now = await get(path(id, "/grants"));
    } catch (error) {
      if (isClosed) return;
      fill(wrong, failed("The grants could not be loaded", error), error.status === 422 && button("Revoke all stored grants", () => revoke([], "all stored grants"), { class: "danger" }));
      if (!shown) fill(body);
      return;
    }
    if (isClosed) return;
    if (isWanted || !shown) draw(now);
    // What somebody may be reading or approving is not replaced without a click.
    else if (JSON.stringify(now) !== JSON.stringify(shown)) fill(news, h("p", { class: "notice row" }, "The script or its grants have changed. ", button("Show changes", () => load(true), { class: "main" })));
  }

  function draw(now) {
    shown = now;
    fill(news);
    fill(wrong);
    const rows = now.capabilities.map((one) => row(one));
    const waiting = rows.filter(({ one }) => one.state === "missing");
    const stored = now.capabilities.filter((one) => one.stored !== null);
    fill(body, rows.length === 0 && h("p", { class: "empty" }, "This script asks for nothing, and nothing is granted."),
      (waiting.length > 1 || stored.length > 1) && h("div", { class: "actions" },
        waiting.length > 1 && button(`Approve all ${waiting.length}`, () => approve(waiting), { class: "main" }),
        stored.length > 1 && button("Revoke all approvals", () => revoke([], "all approvals"), { class: "danger" })),
      rows.map(({ element }) => element));
  }

  // A capability with its approval.
  function row(one) {
    const label = `${one.names?.[0].toUpperCase()}${one.names?.slice(1)}`;
    const input = one.names && h("input", { id: name("names"), type: "text", autocomplete: "off", spellcheck: "false", placeholder: `such as ${EXAMPLES[one.names]}` });
    const made = { one, input };
    const form = h("form", { class: "row start", onsubmit: (event) => { event.preventDefault(); approve([made]); } },
      input && h("div", {}, h("label", { for: input.id }, `${label}, with commas between several`), input),
      h("button", { type: "submit", class: one.state === "missing" ? "main" : "", "aria-label": `Approve ${one.name}` }, "Approve"));
    const optional = one.state === "missing" ? form : h("details", {}, h("summary", {}, `Approve ${one.stored ?? one.configured ?? one.declared[0] ? "more" : "other"} ${one.names}`), form);
    const mayMore = one.state === "missing" || (one.state !== "unused" && one.names && one.stored !== true && one.configured !== true);
    made.element = h("section", { class: "card", "aria-label": one.name },
      h("div", { class: "row start" }, h("h4", {}, one.name), badge(BADGES[one.state])),
      h("p", {}, `${one.state === "missing" ? "Asks to" : "May"} ${one.meaning}.`, one.state === "unused" && " The script does not ask for it."),
      asked(one),
      one.declared.length > 0 && h("p", {}, "Its text names: ", one.declared.map((host, place) => [place > 0 && ", ", h("code", {}, visible(host))])),
      granted(one), mayMore && optional);
    return made;
  }

  function asked({ since, version }) {
    if (since === null && version === null) return null;
    const which = version === null ? "a version that has not run yet" : h("a", { href: address("plugins", id, "history", String(version)) }, `version ${version}`);
    return h("p", { class: "dim" }, "Asks for it since ", which, since !== null && `, ${day(since)}`);
  }

  function granted(one) {
    const own = (source, act) => (source === true ? [[one.names ? "everything" : "", act, ""]] : (source ?? []).map((word) => [word, act, `=${word}`]));
    const all = [...own(one.configured, null), ...own(one.stored, true)];
    return all.length > 0 && h("ul", { class: "granted", "aria-label": `Approved: ${one.name}` }, all.map(([word, canRevoke, suffix]) => h("li", {},
      h("code", {}, visible(`${one.name}${word && ` = ${word}`}`)),
      canRevoke ? button("Revoke", () => revoke([`${one.name}${suffix}`], `${one.name}${word && ` = ${word}`}`), { class: "quiet", "aria-label": `Revoke ${one.name}${suffix}` }) : h("span", { class: "dim" }, `by ${one.configured_by}`))));
  }

  async function approve(rows) {
    fill(wrong);
    const words = [];
    for (const { one, input } of rows) {
      const names = (input?.value ?? "").split(",").map((word) => word.trim()).filter(Boolean).join(",");
      if (one.names && !names && (!one.whole || rows.length > 1)) {
        fill(wrong, h("p", { class: "failed", role: "alert" }, `Name the ${one.names} that ${id} may use for ${one.name}.`));
        input.setAttribute("aria-invalid", "true");
        input.focus();
        return;
      }
      if (one.names && !names && !await confirmed(`Approve ${one.name} for all ${one.names}?`, `${id} may then ${one.whole}.`, "Approve")) return;
      words.push(names ? `${one.name}=${names}` : one.name);
    }
    await change("approve", "/grants/approve", { hash: shown.hash, grants: words }, `Approved for ${id}: ${words.join(", ")}.`);
  }

  async function revoke(words, what) {
    const isGuard = known(id)?.security;
    const detail = isGuard ? `${id} is a guard: without it, it may reject every request or check less.` : `${id} can no longer use it. A script that cannot do without it stops.`;
    if (!await confirmed(`Revoke ${what}?`, detail, "Revoke")) return;
    await change("revoke", `/grants/revoke${isGuard ? "?confirm=true" : ""}`, { grants: words }, `Revoked for ${id}: ${what}.`);
  }

  async function change(act, route, sent, message) {
    try {
      const now = await post(path(id, route), sent);
      if (isClosed) return;
      draw(now);
      notify(message);
    } catch (error) {
      if (isClosed) return;
      if (error.status === 409) await load(true);
      fill(wrong, failed(`Cannot ${act}`, error));
    }
    // The pressed button may no longer exist.
    title.focus({ preventScroll: true });
    await reload();
    generation = state.overview?.generation;
  }
}
