// The steps of a request: the outcome, cost and change of each hook, model call and tool call.

import { badge, fill, h } from "/page/dom.js";
import { valueDifference } from "/page/diff.js";
import { address } from "/page/route.js";
import { plugin } from "/page/state.js";
import { bytes, count, plain, time } from "/page/words.js";

const OUTCOMES = {
  continue: "continued", skip: "stopped the chain", refused: "rejected", ignored: "failed, ignored", ended: "ended",
  failed: "failed", running: "running", breaker_open: "breaker open", would_change: "would change it", would_refuse: "would refuse", would_skip: "would answer", would_fail: "would fail",
};
const BAD = new Set(["failed", "ignored", "refused"]);
// The number of steps whose differences are expanded at first.
const OPEN = 12;
// The number of values of one step that are shown at first.
const MOST = 3;

// The parts of a bar: the class and the title in the key.
const PARTS = [["computes", "computing"], ["waits", "waiting"], ["answers", "receiving the answer"]];

// Shows steps, events and log lines of a request.
export function detail(place, trace) {
  const steps = trace.steps ?? [];
  fill(place,
    steps.length ? [h("p", { class: "key dim", "aria-hidden": "true" }, PARTS.map(([part, title]) => h("span", {}, h("i", { class: part }), title))), stepList(steps, trace.took_ms)] : h("p", { class: "empty" }, "No steps."),
    trace.events?.length > 0 && [h("h3", {}, "Events"), h("ul", { class: "lines" }, trace.events.map(event))],
    trace.lines?.length > 0 && [h("h3", {}, "Log"), h("ul", { class: "lines" }, trace.lines.map(line))]);
}

export function stepList(steps, took) {
  const whole = Math.max(took ?? 0, ...steps.map((step) => step.at_ms + step.took_us / 1000), 1);
  let open = 0;
  return h("ol", { class: "steps" }, steps.map((step) => {
    const changes = step.values?.some((value) => value.diff?.length > 0);
    return row(step, whole, changes && open++ < OPEN);
  }));
}

function row(step, whole, isOpen) {
  const bar = h("span", { class: "bar", "aria-hidden": "true" }, parts(step).map(([part, us]) => segment(part, us, whole)));
  bar.firstChild.style.marginInlineStart = `${Math.min(98, 100 * step.at_ms / whole)}%`;
  const cost = [time(step.took_us), step.first_us !== null && `first token ${time(step.first_us)}`, step.waited_us > 0 && `${time(step.waited_us)} waiting`,
    step.prompt_tokens + step.completion_tokens > 0 && `${step.prompt_tokens} + ${step.completion_tokens} tokens`, step.calls > 1 && count(step.calls, "call"),
    step.operations > 0 && count(step.operations, "operation"), step.memory > 0 && bytes(step.memory)].filter(Boolean).join(" · ");
  const outcome = badge(BAD.has(step.outcome) ? "broken" : "step");
  outcome.textContent = OUTCOMES[step.outcome] ?? step.outcome;
  const head = [h("span", { class: "hook" }, step.hook), h("span", { class: "who" },
    plugin(step.plugin ?? step.name) ? h("a", { href: address("plugins", step.plugin ?? step.name) }, step.name) : h("strong", {}, step.name), " ", outcome,
    step.changed > 0 && h("span", { class: "changed" }, "changed")), bar, h("span", { class: "dim cost" }, cost)];
  const cause = step.cause && h("pre", { class: "wrong", tabindex: "0" }, step.cause);
  if (!step.contents) {
    return h("li", { class: "step" }, h("div", { class: "step-head" }, head), cause);
  }
  return h("li", { class: "step" }, h("div", { class: "step-head" }, head), cause,
    h("details", { open: isOpen }, h("summary", {}, differences(step)), values(step)));
}

// The parts of the time of a step in microseconds. A model is waited for until its answer begins.
function parts(step) {
  if (step.hook !== "model") return [["computes", step.took_us - step.waited_us], ["waits", step.waited_us]];
  const first = step.first_us ?? step.took_us;
  return [["waits", first], ["answers", step.took_us - first]];
}

function segment(part, us, whole) {
  const element = h("i", { class: part });
  element.style.width = us > 0 ? `${Math.max(0.6, Math.min(100, us / 10 / whole))}%` : "0";
  return element;
}

function differences(step) {
  const number = (step.values ?? []).reduce((sum, value) => sum + (value.diff?.length ?? 0), 0);
  return number ? count(number, "change") : "Same value";
}

function values(step) {
  const all = (step.values ?? []).filter((value) => value.diff?.length > 0 || step.values.length === 1);
  const shown = all.slice(0, MOST).map(one);
  const rest = all.slice(MOST);
  return [shown, rest.length > 0 && unfolded(`${count(rest.length, "further event")}`, () => rest.map(one))];
}

// The content is built when it is expanded: a stream has thousands of events.
function unfolded(title, make) {
  const details = h("details", {}, h("summary", {}, title));
  details.addEventListener("toggle", () => details.append(...make().flat(Infinity)), { once: true });
  return details;
}

function one(value) {
  return [
    valueDifference(value.diff ?? []),
    h("details", {}, h("summary", {}, "Complete value before and after"),
      h("pre", { class: "text", tabindex: "0" }, plain(value.before)), h("pre", { class: "text", tabindex: "0" }, value.after === null ? "nothing" : plain(value.after))),
  ];
}

function event({ at_ms: at, plugin, type, event }) {
  return h("li", {}, h("span", { class: "dim" }, `${Math.round(at)} ms `), h("strong", {}, plugin), ` ${type} `, event && h("code", {}, plain(event)));
}

function line({ at_ms: at, plugin, level, text }) {
  return h("li", { "data-level": level }, h("span", { class: "dim" }, `${Math.round(at)} ms `), h("strong", {}, plugin), ` ${level} `,
    text === null ? h("span", { class: "dim" }, "(not recorded)") : h("code", {}, text));
}
