// Replays a recorded request with the current plugin, or with its text in the editor.

import { post } from "/page/api.js";
import { badge, button, failed, fill, h, name } from "/page/dom.js";
import { valueDifference } from "/page/diff.js";
import { drafts } from "/page/source.js";
import { plugin } from "/page/state.js";
import { time } from "/page/words.js";

export function replay(trace) {
  const kept = [...new Set((trace.steps ?? []).map((step) => step.contents && (step.plugin ?? step.name)).filter((id) => id && plugin(id)))];
  if (kept.length === 0) {
    return h("p", { class: "dim" }, "No contents were recorded for this request. Turn on \"Record contents in traces\" for a plugin to replay later requests.");
  }
  const which = h("select", { id: name("plugin"), onchange: offer }, kept.map((id) => h("option", {}, id)));
  const draft = h("input", { type: "checkbox", id: name("draft") });
  const withDraft = h("p", { class: "check" }, draft, h("label", { for: draft.id }, "Use the unsaved text in the editor"));
  const result = h("div", { role: "status" });
  offer();
  return h("section", { class: "card", "aria-label": "Replay" }, h("h3", {}, "Replay"),
    h("p", { class: "dim" }, "Runs the hooks again on the recorded values, without external effects."),
    h("div", { class: "row start" }, h("p", { class: "field" }, h("label", { for: which.id }, "Plugin"), which), withDraft, button("Replay", run)), result);

  function offer() {
    withDraft.hidden = !drafts.has(which.value);
  }

  async function run() {
    const source = draft.checked && !withDraft.hidden ? { source: drafts.get(which.value) } : {};
    fill(result, "Running.");
    try {
      const { steps } = await post(`/api/v1/traces/${encodeURIComponent(trace.id)}/replay`, { plugin: which.value, ...source });
      fill(result, h("ol", { class: "steps" }, steps.map(step)));
    } catch (error) {
      fill(result, failed("Cannot replay", error));
    }
  }
}

function step({ hook, recorded, replayed, same, diff }) {
  const word = badge(same ? "live" : "stale");
  word.textContent = same ? "same" : "different";
  return h("li", { class: "step" },
    h("div", { class: "step-head" }, h("span", { class: "hook" }, hook), " ", word,
      h("span", { class: "dim cost" }, `recorded: ${recorded.outcome}, now: ${replayed.outcome}, ${time(replayed.took_us)}`)),
    replayed.cause && h("pre", { class: "wrong", tabindex: "0" }, replayed.cause),
    !same && diff?.length > 0 && valueDifference(diff));
}
