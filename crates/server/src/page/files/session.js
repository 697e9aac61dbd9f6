// Sign-in, if a key is configured. The key is sent to the host only.

import { post } from "/page/api.js";
import { fill, h, name } from "/page/dom.js";

export function signIn(main, session, entered) {
  if (!session.needs_key) {
    fill(main, h("section", { class: "card narrow" },
      h("h1", { tabindex: "-1" }, "Local access only"),
      h("p", {}, "No operator key is set, so this page is available only on the machine that runs the host, at localhost or 127.0.0.1."),
      h("p", {}, "To allow access from other machines, set a key in valvehouse.toml:"),
      h("pre", {}, "[admin]\nkey = \"env:VALVEHOUSE_ADMIN_KEY\"")));
    return;
  }
  const wrong = h("p", { class: "wrong", role: "alert", id: name("wrong") });
  const key = h("input", { type: "password", id: name("key"), autocomplete: "current-password", required: true, "aria-describedby": wrong.id });
  const submit = h("button", { type: "submit", class: "main" }, "Sign in");
  const form = h("form", { class: "card narrow", onsubmit: send },
    h("h1", {}, "Sign in"),
    session.refusal && h("p", { class: "failed" }, session.refusal),
    h("p", {}, "This page is for operators. Enter the key of the [admin] section, or your own."),
    h("label", { for: key.id }, "Admin key"), key, wrong, submit);
  fill(main, form);
  key.focus();

  async function send(event) {
    event.preventDefault();
    submit.disabled = true;
    fill(wrong);
    try {
      const session = await post("/api/v1/session", { key: key.value });
      if (!session.operator) throw new Error("the key is wrong");
      key.value = "";
      entered(session);
    } catch (error) {
      fill(wrong, `Cannot sign in: ${error.message}`);
      key.setAttribute("aria-invalid", "true");
      key.select();
      key.focus();
    } finally {
      submit.disabled = false;
    }
  }
}
