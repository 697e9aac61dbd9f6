// The form for a new plugin.

import { post } from "/page/api.js";
import { button, fill, h, name } from "/page/dom.js";
import { editor } from "/page/editor.js";
import { go } from "/page/route.js";
import { refused } from "/page/source.js";
import { reload } from "/page/state.js";

const FIRST = {
  filter: `/*
title: My filter
description: What it does, in a sentence.
mode: audit
*/
const Valves = #{
    priority: 0,
    greeting: #{ value: "Hello", description: "Put before each answer" },
};

// Runs for each event of an answer; an unstreamed answer is one event.
fn stream(event, state, valves) {
    if state.greeted == () && event.text != "" {
        event.text = \`\${valves.greeting} \${event.text}\`;
        state.greeted = true;
    }
    event
}
`,
  tool: `/*
description: What it does, and when a model should call it.
*/
const parameters = #{
    city: #{ type: "string", required: true, description: "City name" },
};

fn handler(args) {
    \`You asked about \${args.city}\`
}
`,
  action: `/*
title: Word count
description: What pressing the button does, in a sentence.
*/
fn action(body) {
    let words = body.messages[-1].text.split().len();
    emit(#{ type: "status", data: #{ description: \`\${words} words\`, done: true } });
}
`,
};

export function create(place) {
  const id = h("input", { id: name("id"), required: true, pattern: "[a-z0-9_\\-]{1,64}", autocomplete: "off", spellcheck: "false" });
  const hint = h("p", { class: "hint", id: name("hint") }, "Lowercase letters, digits, _ and -. This is also the file name.");
  id.setAttribute("aria-describedby", hint.id);
  const kind = h("select", { id: name("kind"), onchange: propose }, h("option", { value: "filter" }, "Filter"), h("option", { value: "tool" }, "Tool"),
    h("option", { value: "action" }, "Action (a button under answers)"));
  const trial = h("p", { class: "dim" }, "In audit mode, as proposed, a filter changes nothing: its steps under Requests show what it would do. End it with the switch of the plugin, or without ", h("code", {}, "mode: audit"), ".");
  const text = editor("Source", () => ({ type: kind.value }));
  const wrong = h("div", { role: "alert" });
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "New plugin"),
    h("form", { class: "card", onsubmit: send },
      h("div", { class: "row start" },
        h("div", { class: "field" }, h("label", { for: id.id }, "Id"), id, hint),
        h("p", { class: "field" }, h("label", { for: kind.id }, "Kind"), kind)),
      wrong, text.element, trial,
      h("div", { class: "actions" }, h("button", { type: "submit", class: "main" }, "Create"), button("Cancel", () => go("plugins"), { class: "quiet" }))));
  propose();
  return () => {};

  // Typed text is never overwritten.
  function propose() {
    trial.hidden = kind.value !== "filter";
    if (text.value === "" || Object.values(FIRST).includes(text.value)) text.value = FIRST[kind.value];
  }

  async function send(event) {
    event.preventDefault();
    const content = text.value;
    try {
      await post("/api/v1/functions/create", { id: id.value, name: id.value, type: kind.value, content, meta: { description: "" } });
    } catch (error) {
      if (error.status === 422 || error.body?.problems) refused(wrong, text, error);
      else fill(wrong, h("p", { class: "wrong" }, `Cannot create the plugin: ${error.message}`));
      return;
    }
    await reload();
    go("plugins", id.value);
  }
}
