// A plugin's file in an editor: saved through the host, which refuses what does not load and loses nothing.

import { get, plugin as path, post } from "/page/api.js";
import { button, failed, fill, h, name, tell } from "/page/dom.js";
import { editor } from "/page/editor.js";
import { excerpt } from "/page/problems.js";
import { reload, state } from "/page/state.js";

// What somebody wrote and did not save, by plugin: it outlives a look at another part of the page.
export const drafts = new Map();

addEventListener("beforeunload", (event) => {
  if (drafts.size > 0) event.preventDefault();
});

export function source(place, id) {
  const text = editor("Source");
  const wrong = h("div", { role: "alert" });
  const standing = h("p", { class: "dim", role: "status", id: name("standing") });
  const elsewhere = h("div");
  const save = button("Save", write, { class: "main" });
  const discard = button("Discard my changes", () => { drafts.delete(id); load(); }, { class: "quiet" });
  fill(place, h("p", { class: "dim" }, "A text that does not load is refused, and what runs runs on. Ctrl+S saves."),
    elsewhere, wrong, text.element, h("div", { class: "actions" }, save, discard, standing));
  let saved = null;
  // Of the text that the changes began with.
  let hash;
  let isClosed = false;
  let generation = state.overview?.generation;
  text.onchange(() => {
    if (text.value === saved) drafts.delete(id);
    else drafts.set(id, text.value);
    show();
  });
  text.onsave(write);
  load();
  return { update, close: () => { isClosed = true; } };

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
    fill(standing, isChanged ? "Changed, not saved" : "");
  }

  // The file may have been changed by somebody else.
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
    fill(elsewhere, h("div", { class: "notice" }, h("p", {}, "The file has changed since you began."),
      h("div", { class: "actions" },
        button("Save mine over it", () => write(null, true), { class: "quiet" }),
        button("Show the file instead", () => { drafts.delete(id); load(); }, { class: "quiet" }))));
  }

  async function write(_event, over = false) {
    if (!drafts.has(id)) return;
    const sent = text.value;
    save.disabled = true;
    fill(standing, "Saving");
    try {
      const answer = await post(path(id, "/update"), { content: sent, ...(over ? {} : { expected_hash: hash }) });
      // Somebody may have typed on meanwhile.
      if (drafts.get(id) === sent) drafts.delete(id);
      saved = answer?.content ?? sent;
      hash = answer?.hash;
      text.mark(null);
      fill(wrong);
      fill(elsewhere);
      show();
      fill(standing, "Saved and live");
      tell(`${id} is saved and live.`);
      reload();
    } catch (error) {
      show();
      if (error.status === 409) overtaken();
      else refused(wrong, text, error);
    }
  }
}

// Shows why a text does not load, with the line and a caret, and marks the line.
export function refused(place, text, error) {
  const problems = error.body?.problems ?? error.body?.error?.problems ?? [];
  const [first] = problems;
  const at = first?.line ? [first.line, first.column ?? 1] : placeIn(error.message);
  fill(place, h("div", { class: "problem", "data-severity": "error" },
    h("p", {}, "Not saved: it does not load. Your text is still here."),
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
