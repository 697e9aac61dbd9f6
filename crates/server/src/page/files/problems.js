// What is wrong, where, and what mends it.

import { plugin as path, post, remove } from "/page/api.js";
import { badge, button, confirmed, h, keyed, say, tell } from "/page/dom.js";
import { address } from "/page/route.js";
import { reload } from "/page/state.js";

// A list that is kept up to date by `update(problems)`.
export function problemList({ linked }) {
  const list = h("ul", { class: "problems" });
  list.update = (problems) => keyed(list, problems, keyOf, (problem) => card(problem, linked));
  return list;
}

function keyOf(problem) {
  return JSON.stringify([problem.plugin, problem.state, problem.place, problem.state === "breaker_open" ? "" : problem.message]);
}

function card(problem, linked) {
  const message = h("p", { class: "message" });
  const item = h("li", { class: "problem", "data-severity": problem.severity },
    h("p", { class: "head" },
      badge(problem.state), " ",
      problem.plugin && (linked ? h("a", { href: address("plugins", problem.plugin, ...(problem.line ? ["source"] : [])) }, problem.plugin) : h("strong", {}, problem.plugin)),
      problem.place && h("code", { class: "place" }, problem.place)),
    message,
    excerpt(problem),
    problem.help && h("p", { class: "help" }, "Help: ", problem.help),
    problem.command && command(problem));
  item.update = (problem) => say(message, problem.message);
  return item;
}

// The line with a caret under the place.
export function excerpt({ excerpt, line, column }) {
  if (!excerpt || !line) return null;
  const from = Math.max(0, (column ?? 1) - 60);
  const letters = [...excerpt.replaceAll("\t", " ")];
  const shown = letters.slice(from, from + 100).join("");
  const gutter = String(line);
  const rest = letters.slice(Math.max(0, (column ?? 1) - 1)).join("");
  const width = /^[\p{Alphabetic}\p{Number}_]+/u.exec(rest)?.[0].length ?? 1;
  const indent = " ".repeat(Math.max(0, (column ?? 1) - 1 - from));
  const blank = " ".repeat(gutter.length);
  return h("pre", { class: "excerpt", tabindex: "0", "aria-label": `Line ${line}, column ${column ?? 1}` },
    `${gutter} | ${shown}\n${blank} | ${indent}`, h("span", { class: "caret" }, "^".repeat(width)));
}

function command(problem) {
  const copy = button("Copy", async () => {
    try {
      await navigator.clipboard.writeText(problem.command);
      tell("Copied.");
    } catch {
      tell("Not copied: the browser did not let me.");
    }
  }, { class: "quiet", "aria-label": `Copy the command for ${problem.plugin ?? "this"}` });
  const mend = problem.state === "missing" && button("It may be gone", () => letGo(problem.plugin), { class: "danger" });
  const accept = problem.state === "pending" && button("Accept the change", () => acceptChange(problem), { class: "danger" });
  const adopt = problem.state === "set_aside" && button("Adopt", () => adoptValues(problem), { class: "danger" });
  const free = problem.state === "quarantined" && button("Release", () => release(problem), { class: "danger" });
  return h("div", { class: "command" }, h("code", {}, problem.command), copy, mend || accept || adopt || free);
}

async function release(problem) {
  const id = problem.plugin;
  if (!await confirmed(`Release ${id}?`, `${problem.message}. If it ends the process again, it is quarantined again at the next start.`, "Release")) return;
  try {
    await post(path(id, "/release"), {});
    tell(`${id} is released.`);
  } catch (error) {
    tell(`Cannot release ${id}: ${error.message}`);
  }
  reload();
}

async function acceptChange(problem) {
  const id = problem.plugin;
  if (!await confirmed(`Accept the change of the guard ${id}?`, problem.message, "Accept the change")) return;
  try {
    await post(path(id, "/confirm"), {});
    tell(`The change of ${id} is accepted.`);
  } catch (error) {
    tell(`Cannot accept the change of ${id}: ${error.message}`);
  }
  reload();
}

async function adoptValues(problem) {
  const id = problem.plugin;
  if (!await confirmed(`Give ${id} what was stored for the removed plugin?`, problem.message, "Adopt")) return;
  try {
    await post(path(id, "/adopt"), {});
    tell(`${id} has what was set aside.`);
  } catch (error) {
    tell(`Cannot adopt what was set aside for ${id}: ${error.message}`);
  }
  reload();
}

async function letGo(id) {
  const isSure = await confirmed(`Let the guard ${id} go?`,
    "Its file is gone, so requests are refused. If it may be gone, they are let through without it from now on.", "It may be gone");
  if (!isSure) return;
  try {
    await remove(path(id, "/delete?confirm=true"));
    tell(`${id} may be gone: requests go on without it.`);
  } catch (error) {
    tell(`${id} is still missed: ${error.message}`);
  }
  reload();
}
