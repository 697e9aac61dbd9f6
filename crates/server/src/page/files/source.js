// A plugin's file in an editor. The host rejects a text that does not load and keeps the running version.

import { get, plugin as path, post } from "/page/api.js";
import { button, failed, fill, h, name, notify } from "/page/dom.js";
import { editor } from "/page/editor.js";
import { excerpt } from "/page/problems.js";
import { plugin as known, reload, state } from "/page/state.js";
import { testRuns } from "/page/tests.js";

// Unsaved texts by plugin id. They are kept while another view is open.
export const drafts = new Map();

addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault();
});

export function source(place, id) {
  const text = editor("Source", () => ({ id, type: known(id)?.kind }));
  const wrong = h("div", { role: "alert" });
  const standing = h("p", { class: "dim", role: "status", id: name("standing") });
  const elsewhere = h("div");
  const tests = testRuns(id, text, () => drafts.get(id));
  const save = button("Save", write, { class: "main" });
  const discard = button("Discard changes", () => { drafts.delete(id); load(); }, { class: "quiet" });
  fill(place, h("p", { class: "dim" }, "Press Ctrl+S to save and Ctrl+Enter to run the tests. A text that does not load is rejected, and the current version keeps running."),
    elsewhere, wrong, text.element, h("div", { class: "actions" }, save, discard, tests.buttons, standing), tests.element);
  let saved = null;
  // The hash of the text before the changes.
  let hash;
  let isClosed = false;
  let generation = state.overview?.generation;
  text.onchange(() => {
    if (text.value === saved) drafts.delete(id);
    else drafts.set(id, text.value);
    show();
  });
  text.onkey("s", write);
  text.onkey("enter", tests.run);
  load();
  return { update, close: () => { isClosed = true; tests.stop(); } };

  async function load() {
    try {
      const { content, hash: now } = await get(path(id));
      if (isClosed) return;
      saved = content;
      hash = now;
      text.value = drafts.get(id) ?? content;
      text.mark(null);
      fill(wrong);
      fill(elsewhere);
      show();
    } catch (error) {
      fill(wrong, failed("The source could not be loaded", error));
    }
  }

  function show() {
    const isChanged = drafts.has(id);
    save.disabled = !isChanged;
    discard.hidden = !isChanged;
    tests.update(isChanged);
    fill(standing, isChanged ? "Unsaved changes" : "");
  }

  // Checks whether the file was changed elsewhere.
  async function update() {
    const latest = state.overview?.generation;
    if (latest === generation || saved === null) return;
    generation = latest;
    const now = await get(path(id)).catch(() => null);
    if (isClosed || !now || now.content === saved) return;
    if (!drafts.has(id)) {
      ({ content: saved, hash } = now);
      text.value = saved;
      return;
    }
    overtaken();
  }

  function overtaken() {
    fill(elsewhere, h("div", { class: "notice" }, h("p", {}, "The file has changed since you started editing."),
      h("div", { class: "actions" },
        button("Overwrite the file", () => write(null, true), { class: "quiet" }),
        button("Discard changes and show the file", () => { drafts.delete(id); load(); }, { class: "quiet" }))));
  }

  async function write(_event, over = false) {
    if (!drafts.has(id)) return;
    const sent = text.value;
    save.disabled = true;
    fill(standing, "Saving");
    try {
      const answer = await post(path(id, "/update"), { content: sent, ...(over ? {} : { expected_hash: hash }) });
      // The text may have changed in the meantime.
      if (drafts.get(id) === sent) drafts.delete(id);
      saved = answer?.content ?? sent;
      hash = answer?.hash;
      text.mark(null);
      fill(wrong);
      fill(elsewhere);
      show();
      fill(standing, "Saved and live");
      notify(`${id} is saved and live.`);
      reload();
    } catch (error) {
      show();
      if (error.status === 409) overtaken();
      else refused(wrong, text, error);
    }
  }
}

// Shows the problems of a text that does not load, and marks the line of the first one.
export function refused(place, text, error) {
  const problems = error.body?.problems ?? error.body?.error?.problems ?? [];
  const [first] = problems;
  const at = first?.line ? [first.line, first.column ?? 1] : placeIn(error.message);
  fill(place, h("div", { class: "problem", "data-severity": "error" },
    h("p", {}, "Not saved: the script does not load. Your text is still in the editor."),
    problems.length > 0
      ? problems.map((problem) => [h("p", { class: "message" }, problem.message), excerpt(problem), problem.help && h("p", { class: "help" }, "Help: ", problem.help)])
      : h("pre", { class: "excerpt", tabindex: "0" }, error.message),
    at && button(`Go to line ${at[0]}`, () => text.go(...at), { class: "quiet" })));
  text.mark(at?.[0] ?? null);
}

function placeIn(message) {
  const found = /:(\d+):(\d+)/.exec(message);
  return found && [Number(found[1]), Number(found[2])];
}
