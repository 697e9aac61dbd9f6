// The first steps in an empty project: a service, a plugin and a request.

import { button, copy, fill, h } from "/page/dom.js";
import { address } from "/page/route.js";
import { state } from "/page/state.js";

const SERVICE = `[[providers]]
name = "openai"
api_key = "env:OPENAI_API_KEY"

[[models]]
name = "smart"
provider = "openai"
model = "gpt-5"`;

// An element with `update(recent)`, which is hidden once there are plugins and requests.
export function firstSteps() {
  const list = h("ol", { class: "first" });
  const place = h("section", { "aria-label": "First steps", hidden: true }, h("h2", {}, "The next three steps"), list);
  let shown = "";
  place.update = (recent) => {
    const overview = state.overview;
    if (!overview || !recent) return;
    const done = [overview.providers.some(({ name }) => name !== "demo"), overview.plugins.length > 0, recent.ever || state.requests.size > 0];
    place.hidden = done[1] && done[2];
    const model = overview.models[0]?.id ?? "demo";
    const text = JSON.stringify([done, model]);
    if (text === shown) return;
    shown = text;
    const call = `curl ${location.origin}/v1/chat/completions -H 'content-type: application/json' \\\n  -d '{"model":"${model}","messages":[{"role":"user","content":"hello"}]}'`;
    fill(list,
      connect(done[0]),
      step(done[1], "Add a plugin", "A filter changes or checks what passes; a tool is called by models.", null,
        h("p", {}, h("a", { href: address("new") }, "Write one here"), ", or copy one: ", h("code", {}, "valvehouse new --list"))),
      step(done[2], "Send a request", "Any OpenAI, Anthropic or Ollama client works with this address.", call,
        h("p", {}, h("a", { href: address("try") }, "Or open the test chat"))));
  };
  return place;
}

// What a host without a service shows where its models stand.
export function connectService() {
  return h("section", { class: "models", "aria-label": "First step" }, h("h2", {}, "The next step"), h("ol", { class: "first" }, connect(false)));
}

function connect(isDone) {
  return step(isDone, "Connect a service", "Add it to valvehouse.toml; the host reloads it on save. Without one, the model demo answers.", SERVICE);
}

function step(isDone, title, text, code, more) {
  return h("li", { "data-done": isDone ? "yes" : "no" }, h("h3", {}, title, isDone && h("span", { class: "unseen" }, " (done)")), h("p", { class: "dim" }, text),
    code && h("pre", { tabindex: "0", "aria-label": title }, code),
    more, code && h("p", {}, button("Copy", () => copy(code), { "aria-label": `Copy: ${title}` })));
}
