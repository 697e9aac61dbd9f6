// The tests of a plugin, run on the text in the editor or on the saved script.

import { plugin as path, post } from "/page/api.js";
import { valueDifference } from "/page/diff.js";
import { badge, button, failed, fill, h } from "/page/dom.js";
import { editor } from "/page/editor.js";
import { excerpt } from "/page/problems.js";
import { count, ms } from "/page/words.js";

const GUIDE = "https://github.com/valvehouse/valvehouse/blob/main/docs/guide/testing.md#its-tests";

// `draft()` returns the unsaved text of the editor, if there is one.
export function testRuns(id, text, draft) {
  const start = button("Run tests", run);
  const saved = button("Run tests of the file", () => begin(null), { class: "quiet", hidden: true });
  const end = button("Stop", stop, { class: "quiet", hidden: true });
  const sum = h("p", { class: "dim", role: "status" });
  const results = h("div", { class: "results" });
  const element = h("section", { class: "tests", "aria-label": "Tests", hidden: true }, sum, results);
  let running = null;
  return { buttons: [start, saved, end], element, run, stop, update };

  function update(isChanged) {
    saved.hidden = !isChanged;
  }

  function run() {
    begin(draft() ?? null);
  }

  function stop() {
    running?.abort();
  }

  async function begin(content) {
    if (running) return;
    running = new AbortController();
    start.disabled = saved.disabled = true;
    element.hidden = end.hidden = false;
    fill(results);
    fill(sum, "Running the tests");
    try {
      const report = await post(path(id, "/test"), content === null ? {} : { content }, running.signal);
      show(report, content === null ? "the file" : "the unsaved text");
    } catch (error) {
      fill(sum, error.name === "AbortError" ? "The tests were stopped." : "");
      if (error.name !== "AbortError") fill(results, failed("The tests could not be run", error));
    }
    running = null;
    start.disabled = saved.disabled = false;
    end.hidden = true;
  }

  function show({ file, content, tests, problems, not_run: rest, took_ms: took }, what) {
    if (content === null && problems.length === 0) {
      fill(sum, `${id} has no tests.`);
      fill(results, h("p", {}, "Write them in ", h("code", {}, file), ", next to the script: functions ", h("code", {}, "fn test_…()"), " that call its hooks and check the results, such as ",
        h("code", {}, "assert_eq(inlet(\"hi\").messages[-1].text, \"hi\");"), " ", h("a", { href: GUIDE, target: "_blank", rel: "noreferrer" }, "How to write tests")));
      return;
    }
    const bad = tests.filter((test) => !test.passed).length;
    const parts = [`${tests.length - bad} passed`, bad > 0 && `${bad} failed`, rest > 0 && `${rest} not run within 60 s`];
    fill(sum, problems.length > 0 ? `The tests of ${what} cannot be run.` : `${count(tests.length + rest, "test")} of ${what}: ${parts.filter(Boolean).join(", ")}, in ${ms(took)}`);
    const viewer = editor(`Tests of ${id}`, undefined, true);
    const source = h("details", {}, h("summary", {}, h("code", {}, file)), viewer.element);
    const places = { script: ["the script", text.go], tests: ["the tests", (...at) => { source.open = true; viewer.go(...at); }] };
    fill(results, problems.map((problem) => reason(problem, places)), tests.length > 0 && h("ol", {}, tests.map((test) => result(test, places))), content !== null && source);
    viewer.value = content ?? "";
  }
}

function result(test, places) {
  const name = test.name.replace(/^test_/, "").replaceAll("_", " ");
  return h("li", {},
    h("p", { class: "row start" }, badge(test.passed ? "passed" : "failed"),
      button(name, () => places.tests[1](test.line, 1), { class: "plain", "aria-label": `${name}: line ${test.line} of the tests` }), h("span", { class: "dim" }, ms(test.took_ms))),
    test.problems.map((problem) => reason(problem, places)),
    test.differences.length > 0 && [h("p", { class: "dim" }, "- expected, + actual"), valueDifference(test.differences)],
    test.printed.length > 0 && h("details", {}, h("summary", {}, "Printed"), h("pre", { class: "text", tabindex: "0" }, test.printed.join("\n"))));
}

// A problem with a button that leads to its line.
function reason(problem, places) {
  const { line, column, severity, message, help, place } = problem;
  const [where, go] = places[problem.file] ?? [];
  return h("div", { class: "finding", "data-severity": severity },
    h("p", {}, where && line ? button(`Line ${line} of ${where}`, () => go(line, column ?? 1), { class: "plain" }) : h("code", {}, place), " ", message),
    excerpt(problem), help && h("p", { class: "help" }, "Help: ", help));
}
