// Runs of models with a memory: what each does or waits for, its conversation, and decisions. Approvals stand above.

import { get, post } from "/page/api.js";
import { approvals } from "/page/approvals.js";
import { badge, button, failed, fill, h, name, notify, setText } from "/page/dom.js";
import { markdown } from "/page/markdown.js";
import { address } from "/page/route.js";
import { count, day, plain, span, visible } from "/page/words.js";

// The interval of polls, in milliseconds, and the number of listed runs.
const PERIOD = 4_000;
const LISTED = 100;
const STATES = ["running", "paused", "interrupted", "failed", "done", "cancelled"];

export function runs(place, parts, scope) {
  const status = h("select", { id: name("status"), onchange: load }, h("option", { value: "" }, "All"), STATES.map((state) => h("option", { value: state }, state)));
  const summary = h("p", { class: "dim", role: "status" });
  const wrong = h("div");
  const list = h("div", {}, h("p", { class: "empty" }, "Loading."));
  const detail = h("div", { class: "detail" });
  const all = h("div", { class: "master" }, approvals(scope),
    h("p", { class: "dim" }, "Runs of models with a memory, newest first. Scheduled calls of plugins (", h("code", {}, "tick"), ") stand in the ", h("a", { href: address("requests") }, "requests"), "."),
    h("div", { class: "search" }, h("p", { class: "field small" }, h("label", { for: status.id }, "Status"), status)), summary, list);
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Runs and approvals"), wrong, all, detail);
  let chosen;
  let drawn = "";
  open(parts);
  scope.every(PERIOD, () => chosen ? show() : load());
  return open;

  function open([id]) {
    chosen = id;
    drawn = "";
    all.hidden = Boolean(id);
    fill(detail, id && h("p", { class: "empty" }, "Loading."));
    if (id) show();
    else load();
  }

  async function load() {
    try {
      const [runs, conversations] = await Promise.all([
        get(`/api/v1/agents/runs?limit=${LISTED}&status=${status.value}`), get(`/api/v1/agents/conversations?limit=${LISTED}`)]);
      if (scope.closed || chosen) return;
      fill(wrong);
      const users = new Map(conversations.data.map((one) => [one.chat_id, userOf(one.user)]));
      const now = JSON.stringify([runs.data, [...users]]);
      // A row that has the focus stays.
      if (now === drawn) return;
      drawn = now;
      setText(summary, `${count(runs.data.length, "run")}${runs.data.length === LISTED ? ", the newest" : ""}`);
      fill(list, runs.data.length === 0 ? h("p", { class: "empty" }, "No runs. Models with ", h("code", {}, "memory = true"), " in valvehouse.toml have them.") : table(runs.data, users));
    } catch (error) {
      if (!scope.closed) fill(wrong, failed("The runs could not be loaded", error));
    }
  }

  async function show() {
    const id = chosen;
    try {
      const path = `/api/v1/agents/runs/${encodeURIComponent(id)}`;
      const [run, pending] = await Promise.all([get(path), get(`${path}/pending`)]);
      const now = JSON.stringify([run, pending]);
      // What somebody reads or answers is replaced only by news.
      if (scope.closed || chosen !== id || now === drawn) return;
      drawn = now;
      fill(wrong);
      fill(detail, whole(run, pending));
    } catch (error) {
      if (!scope.closed) fill(wrong, failed("The run could not be loaded", error));
    }
  }

  function whole(run, pending) {
    return [h("p", { class: "back" }, h("a", { href: address("runs") }, "← All runs")),
      h("div", { class: "row start" }, h("h2", {}, `Run ${run.run_id}`), badge(run.status)),
      h("dl", { class: "figures small" }, Object.entries({ Model: run.agent, Conversation: run.chat_id, Started: day(run.created_at / 1000), Duration: duration(run), Steps: String(run.step) })
        .map(([title, value]) => h("div", {}, h("dt", {}, title), h("dd", {}, visible(value))))),
      run.error && h("pre", { class: "failed wrong" }, visible(run.error)),
      pending.decisions.length > 0 && decisions(pending),
      h("h3", {}, "Conversation"), h("div", { class: "turns" }, run.full_messages.map(message))];
  }

  function decisions({ run_id: id, pending_action: action, decisions: open }) {
    const answer = h("input", { id: name("answer"), autocomplete: "off" });
    const title = { approve: "Approve", reject: "Reject", retry: "Retry", continue: "Continue", answer: "Answer" };
    const hasAnswer = open.includes("answer");
    return h("section", { class: "card notice", "aria-label": "Decision" },
      h("p", {}, action ? words(action) : "The run stopped. It can go on from its last step."),
      hasAnswer && h("p", { class: "field" }, h("label", { for: answer.id }, "Your answer"), answer),
      h("p", { class: "actions" }, open.map((decision) => button(title[decision], async (event) => {
        event.target.disabled = true;
        notify("The run goes on.");
        try {
          await post(`/api/v1/agents/runs/${encodeURIComponent(id)}/resume`, { decision, ...(action?.hash ? { hash: action.hash } : {}), ...(decision === "answer" ? { answer: answer.value } : {}) });
        } catch (error) {
          notify(`Cannot resume the run: ${error.message}`);
        }
        drawn = "";
        if (chosen === id) show();
      }, { class: decision === "reject" ? "danger" : "main" }))));
  }
}

function table(runs, users) {
  const titles = ["Started", "Status", "Model", "User", "Conversation", "Steps", "Duration", "Waits for, or failed with"];
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Runs" }, h("table", { class: "requests" },
    h("thead", {}, h("tr", {}, titles.map((title) => h("th", { scope: "col", class: ["Steps", "Duration"].includes(title) ? "number" : null }, title)))),
    h("tbody", {}, runs.map((run) => h("tr", {},
      h("td", {}, h("a", { href: address("runs", run.run_id) }, day(run.created_at / 1000))), h("td", {}, badge(run.status)),
      h("td", {}, visible(run.agent || "–")), h("td", {}, visible(users.get(run.chat_id) ?? "–")), h("td", { class: "long" }, visible(run.chat_id)),
      h("td", { class: "number" }, String(run.step)), h("td", { class: "number" }, duration(run)),
      h("td", { class: "long", title: why(run) }, why(run)))))));
}

function why(run) {
  return visible(run.error ?? (run.pending_action ? words(run.pending_action) : ""));
}

// The question that a run waits for.
function words({ type, question }) {
  const data = question?.data ?? {};
  if (type === "approval") return `May ${data.tool} run with ${JSON.stringify(data.arguments)}?`;
  return visible(data.message ?? data.description ?? JSON.stringify(question));
}

function userOf(user) {
  return typeof user === "object" ? user?.id : user;
}

function duration({ created_at: from, updated_at: to }) {
  return to - from < 1000 ? `${Math.max(0, to - from)} ms` : span(Math.round((to - from) / 1000));
}

function message({ role, content, tool_calls: calls = [], name: tool }) {
  const text = Array.isArray(content) ? content.map((part) => part.text ?? `[${part.type}]`).join("\n") : content ?? "";
  return h("article", { class: "turn", "data-role": role === "user" ? "user" : "assistant" },
    role !== "user" && h("h4", { class: "dim" }, role === "tool" ? `Result${tool ? ` of ${tool}` : ""}` : role === "system" ? "System" : "Answer"),
    role === "user" ? visible(text) : text && h("div", { class: "answer" }, markdown(visible(text))),
    calls?.length > 0 && h("ul", { class: "shows" }, calls.map((call) => h("li", {}, h("span", { class: "kind" }, "calls"), " ", h("code", {}, visible(`${call.function?.name} ${plain(call.function?.arguments)}`))))));
}
