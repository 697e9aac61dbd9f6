// The first line of the overview: whether requests are answered, and the fix if not.

import { fill, h } from "/page/dom.js";
import { icon } from "/page/icons.js";
import { address } from "/page/route.js";
import { plugin, standing, state } from "/page/state.js";
import { count } from "/page/words.js";

// The share of failed requests that is not worth a word.
const MOST_FAILED = 0.01;

// An element with `update(recent, away)`: the use of the last minutes or null, and the error of a host that cannot be reached.
export function statusLine() {
  const says = h("div", { class: "says" });
  const fix = h("div", { class: "fix" });
  const picture = h("span");
  const element = h("div", { class: "status", role: "status" }, picture, says, fix);
  let shown = "";
  element.update = (recent, away) => {
    const now = judge(recent, away ?? state.problem);
    const text = JSON.stringify([now.state, now.says, now.fix.map((part) => part.textContent ?? part)]);
    if (text === shown) return;
    shown = text;
    element.dataset.state = now.state;
    fill(picture, icon(now.state === "good" ? "good" : "bad"));
    fill(says, now.says.map((sentence) => h("p", {}, coded(sentence))));
    fill(fix, now.fix);
  };
  return element;
}

function judge(recent, problem) {
  if (problem || state.connection === "lost") {
    const why = problem ? `: ${problem.message}` : "";
    return { state: "bad", says: [`The host does not answer this page${why}`], fix: ["The page tries again by itself. Look at the log of the host, and at its address."] };
  }
  const overview = state.overview;
  if (!overview) return { state: "warn", says: ["Loading."], fix: [] };
  const refused = overview.problems.filter((problem) => problem.state === "refused");
  if (refused.length > 0) {
    return { state: "bad", says: refused.map(({ message }) => message), fix: refused.map(({ message }) => h("p", {}, fixOf(message))) };
  }
  const unwell = overview.plugins.filter((one) => !["live", "off"].includes(standing(one)));
  const isGood = overview.problems.length === 0;
  const notes = isGood ? "No problems. Every plugin runs its current file."
    : unwell.length > 0 ? [`${count(unwell.length, "plugin")} ${unwell.length === 1 ? "needs" : "need"} attention: `, unwell.slice(0, 4).map(({ id }, place) => [place > 0 && ", ", linkTo(id)]), unwell.length > 4 && " …"]
      : `${count(overview.problems.length, "problem")} below.`;
  const observing = overview.plugins.filter((one) => one.security && standing(one) === "audit");
  const trial = observing.length > 0 && [" Guards in audit mode protect nothing: ", observing.map(({ id }, place) => [place > 0 && ", ", linkTo(id)]), "."];
  if (recent?.failed > MOST_FAILED * recent?.requests) {
    const says = `${recent.failed} of ${count(recent.requests, "request")} failed in the last five minutes`;
    return { state: "warn", says: [says], fix: [h("p", {}, h("a", { href: address("requests", "status", "failed") }, "Look at the failed requests"), ". ", notes)] };
  }
  return { state: isGood ? "good" : "warn", says: ["Everything is answered"], fix: [h("p", {}, notes, trial)] };
}

// The plugin that a refusal names is its last name between backticks.
function fixOf(message) {
  const id = [...message.matchAll(/`([^`]+)`/g)].at(-1)?.[1] ?? "";
  if (!plugin(id)) return [h("a", { href: address("new") }, `Create ${id}`), ", or remove it from ", h("code", {}, "filters"), " of the model in valvehouse.toml."];
  if (message.endsWith("is open")) return ["The breaker closes by itself after its cool-down. The last failure is at ", linkTo(id), "."];
  const problem = state.overview.problems.find((one) => one.plugin === id && one.severity === "error");
  const run = problem?.command && h("code", {}, problem.command);
  if (problem?.state === "missing") return ["Restore its file from the history of ", linkTo(id, "history"), ", or accept that the guard is gone: ", run];
  if (run) return ["Look at ", linkTo(id), ", and run ", run];
  return ["Correct ", linkTo(id, problem?.line ? "source" : null), problem?.place && [" at ", h("code", {}, problem.place)], problem?.help && `: ${problem.help}`, ". Its history has earlier versions."];
}

// A sentence with code between backticks.
function coded(text) {
  return text.split("`").map((part, place) => place % 2 ? h("code", {}, part) : part);
}

function linkTo(id, part) {
  return h("a", { href: address("plugins", id, ...(part ? [part] : [])) }, id);
}
