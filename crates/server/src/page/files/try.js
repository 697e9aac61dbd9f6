// A chat through the chain of a model, or a press of an action button, with the result of each hook.

import { post } from "/page/api.js";
import { failed, fill, h, name, notify } from "/page/dom.js";
import { facts } from "/page/requests.js";
import { state } from "/page/state.js";
import { detail } from "/page/steps.js";
import { plain } from "/page/words.js";

// The last input, restored when the view is opened again.
const last = { model: "", text: "", user: "", stream: false, action: "" };

export function tryIt(place, _parts, scope) {
  const known = h("datalist", { id: name("models") });
  const model = h("input", { id: name("model"), list: known.id, required: true, autocomplete: "off", value: last.model });
  const text = h("textarea", { id: name("text"), rows: "3", required: true, value: last.text, placeholder: "Hello" });
  const user = h("input", { id: name("user"), autocomplete: "off", value: last.user });
  const stream = h("input", { type: "checkbox", id: name("stream"), checked: last.stream });
  const action = h("select", { id: name("action"), onchange: draw });
  const actions = h("p", { class: "field", hidden: true }, h("label", { for: action.id }, "Action"), action);
  const toggles = h("fieldset", { class: "toggles" });
  const label = h("label", { for: text.id }, "Message");
  const send = h("button", { type: "submit", class: "main" }, "Send");
  const result = h("section", { "aria-label": "Result" });
  text.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key === "Enter") form.requestSubmit();
  });
  const form = h("form", { class: "card", onsubmit: run },
    h("div", { class: "row start" },
      h("p", { class: "field" }, h("label", { for: model.id }, "Model"), model, known),
      h("p", { class: "field" }, h("label", { for: user.id }, "User id (optional)"), user),
      actions,
      h("p", { class: "check" }, stream, h("label", { for: stream.id }, "Stream"))),
    h("p", { class: "field wide" }, label, text),
    toggles,
    h("div", { class: "actions" }, send, h("span", { class: "dim" }, "Press Ctrl+Enter to send. This calls the model.")));
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Try it"), form, result);
  model.addEventListener("change", draw);
  scope.on("overview", draw);
  draw();
  return () => {};

  function draw() {
    const overview = state.overview;
    if (!overview) {
      fill(result, state.problem && failed("Models could not be loaded", state.problem));
      return;
    }
    fill(known, overview.models.map(({ id }) => h("option", { value: id })));
    if (!model.value) model.value = overview.models[0]?.id ?? "";
    const buttons = overview.models.find(({ id }) => id === model.value)?.actions ?? [];
    const selectedId = action.value || last.action;
    fill(action, h("option", { value: "" }, "Send a message"),
      buttons.map(({ id, name }) => h("option", { value: id, selected: id === selectedId }, `Press: ${name}`)));
    actions.hidden = buttons.length === 0;
    label.textContent = action.value ? "Answer above the button" : "Message";
    send.textContent = action.value ? "Press" : "Send";
    stream.disabled = action.value !== "";
    const chosen = new Set([...toggles.querySelectorAll("input:checked")].map((box) => box.value));
    const onRequest = overview.plugins.filter((plugin) => plugin.toggle);
    toggles.hidden = onRequest.length === 0;
    fill(toggles, h("legend", {}, "Filters to enable"), onRequest.map(({ id, title }) =>
      h("label", { class: "check" }, h("input", { type: "checkbox", value: id, checked: chosen.has(id) }), title)));
  }

  async function run(event) {
    event.preventDefault();
    Object.assign(last, { model: model.value, text: text.value, user: user.value, stream: stream.checked, action: action.value });
    const chosen = [...toggles.querySelectorAll("input:checked")].map((box) => box.value);
    const body = { model: model.value.trim(), filter_ids: chosen };
    if (action.value) Object.assign(body, { action: action.value, messages: [{ role: "user", content: "Hello" }, { role: "assistant", content: text.value }] });
    else Object.assign(body, { text: text.value, stream: stream.checked });
    if (user.value.trim()) body.user = user.value.trim();
    send.disabled = true;
    fill(result, h("p", { class: "empty" }, "Running."));
    try {
      show(await post("/api/v1/try", body));
    } catch (error) {
      fill(result, failed("Cannot run the test", error));
    } finally {
      send.disabled = false;
    }
  }

  function show({ status, answer, error, trace }) {
    const steps = h("div");
    detail(steps, trace ?? {});
    notify(error ? `Rejected with status ${status}.` : "Answered.");
    fill(result,
      error ? h("div", { class: "card" }, h("h2", {}, `Rejected with status ${status}`), h("p", { class: "wrong" }, textOf(error)))
        : h("div", { class: "card" }, h("h2", {}, "Answer"), h("p", { class: "answer" }, textOf(answer))),
      h("h2", {}, "Steps"), trace && facts(trace), steps);
  }
}

function textOf(answer) {
  if (answer === null || answer === undefined) return "No answer. Emitted events are listed below.";
  if (typeof answer === "string") return answer;
  const text = answer?.error?.message ?? answer?.message ?? answer?.choices?.[0]?.message?.content ?? answer?.content;
  return typeof text === "string" ? text : plain(answer);
}
