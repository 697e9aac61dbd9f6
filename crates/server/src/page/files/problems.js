// Problems with their position and their fix.

import { plugin as path, post, remove } from "/page/api.js";
import { badge, button, confirmed, copy, h, keyed, setText, notify } from "/page/dom.js";
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
  item.update = (problem) => setText(message, problem.message);
  return item;
}

// The source line with a caret under the position.
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
  const take = button("Copy", () => copy(problem.command), { class: "quiet", "aria-label": `Copy the command for ${problem.plugin ?? "this"}` });
  const mend = problem.state === "missing" && button("Confirm removal", () => confirmRemoval(problem.plugin), { class: "danger" });
  const accept = problem.state === "pending" && button("Accept the change", () => acceptChange(problem), { class: "danger" });
  const adopt = problem.state === "set_aside" && button("Adopt", () => adoptValues(problem), { class: "danger" });
  const free = problem.state === "quarantined" && button("Release", () => release(problem), { class: "danger" });
  const approve = problem.state === "held" && problem.plugin && h("a", { href: address("plugins", problem.plugin, "access") }, "Review and approve");
  return h("div", { class: "command" }, h("code", {}, problem.command), take, mend || accept || adopt || free || approve);
}

async function release(problem) {
  const id = problem.plugin;
  if (!await confirmed(`Release ${id}?`, `${problem.message}. If it crashes the process again, it is quarantined again at the next start.`, "Release")) return;
  try {
    await post(path(id, "/release"), {});
    notify(`${id} is released.`);
  } catch (error) {
    notify(`Cannot release ${id}: ${error.message}`);
  }
  reload();
}

async function acceptChange(problem) {
  const id = problem.plugin;
  if (!await confirmed(`Accept the change to the guard ${id}?`, problem.message, "Accept the change")) return;
  try {
    await post(path(id, "/confirm"), {});
    notify(`The change to ${id} is accepted.`);
  } catch (error) {
    notify(`Cannot accept the change to ${id}: ${error.message}`);
  }
  reload();
}

async function adoptValues(problem) {
  const id = problem.plugin;
  if (!await confirmed(`Adopt the stored data for ${id}?`, problem.message, "Adopt")) return;
  try {
    await post(path(id, "/adopt"), {});
    notify(`${id} uses the data of the removed plugin.`);
  } catch (error) {
    notify(`Cannot adopt the stored data for ${id}: ${error.message}`);
  }
  reload();
}

async function confirmRemoval(id) {
  const isSure = await confirmed(`Remove the guard ${id}?`,
    "Its file is missing, so requests are rejected. After you confirm the removal, requests pass without this guard.", "Confirm removal");
  if (!isSure) return;
  try {
    await remove(path(id, "/delete?confirm=true"));
    notify(`The removal of ${id} is confirmed. Requests pass without it.`);
  } catch (error) {
    notify(`Cannot confirm the removal of ${id}: ${error.message}`);
  }
  reload();
}
