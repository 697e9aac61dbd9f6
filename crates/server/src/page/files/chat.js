// The test chat: a conversation with a model as a client has it, with the steps of the chosen answer beside it.

import { get, post, stream } from "/page/api.js";
import { approvals } from "/page/approvals.js";
import { button, failed, fill, h, name } from "/page/dom.js";
import { facts, recorded } from "/page/facts.js";
import { markdown } from "/page/markdown.js";
import { address } from "/page/route.js";
import { plugin, state } from "/page/state.js";
import { detail } from "/page/steps.js";
import { plain, time, visible } from "/page/words.js";

// The interval at which the steps of a running answer are read, in milliseconds.
const PERIOD = 1_000;

// The conversation, which stays while another section is open.
let talk = fresh({ model: "", user: "", isStreamed: true, toggles: new Set() });
// Draws the open view again.
let redraw = () => {};

function fresh({ model, user, isStreamed, toggles }) {
  return { model, user, isStreamed, toggles, turns: [], before: [], draft: "", chosen: null, running: null, id: `test-${Math.random().toString(36).slice(2, 10)}` };
}

// Starts a conversation with the recorded messages of a request, of which the last one is not sent yet.
function resume(trace, messages) {
  talk = fresh({ ...talk, model: trace.model, user: trace.user });
  talk.before = messages.filter(({ role }) => !["user", "assistant"].includes(role));
  talk.turns = messages.filter(({ role }) => role === "user" || role === "assistant").map(({ role, content }) => ({ role, text: textOf(content) }));
  if (talk.turns.at(-1)?.role === "user") talk.draft = talk.turns.pop().text;
}

export function chat(place, parts, scope) {
  const known = h("datalist", { id: name("models") });
  const model = h("input", { id: name("model"), list: known.id, required: true, autocomplete: "off", onchange: () => { talk.model = model.value.trim(); draw(); } });
  const user = h("input", { id: name("user"), autocomplete: "off", placeholder: "none", onchange: () => { talk.user = user.value.trim(); } });
  const isStreamed = h("input", { type: "checkbox", id: name("stream"), onchange: () => { talk.isStreamed = isStreamed.checked; } });
  const text = h("textarea", { id: name("text"), rows: "2", required: true, placeholder: "Hello", oninput: () => { talk.draft = text.value; } });
  const toggles = h("fieldset", { class: "toggles" });
  const submit = h("button", { type: "submit", class: "main" }, "Send");
  const stop = button("Stop", () => talk.running?.abort.abort(), { class: "danger" });
  const hint = h("p", { class: "empty" });
  const turns = h("div", { class: "turns", role: "log", tabindex: "0", "aria-label": "Conversation" });
  const inspector = h("section", { class: "inspector", "aria-label": "Steps of the answer" });
  const note = h("div");
  text.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  });
  const form = h("form", { class: "composer", onsubmit: (event) => { event.preventDefault(); send(); } },
    h("label", { for: text.id, class: "unseen" }, "Message"), text,
    h("div", { class: "row" }, h("p", { class: "dim" }, "Enter sends, Shift+Enter starts a line"), h("div", { class: "actions" }, stop, submit)));
  fill(place,
    h("div", { class: "row head" }, h("h1", { tabindex: "-1", "data-focus": true }, "Test chat"), button("New conversation", restart, { class: "quiet" })),
    h("div", { class: "talk" },
      h("div", { class: "card models" },
        h("div", { class: "row start search" },
          h("p", { class: "field" }, h("label", { for: model.id }, "Model"), model, known),
          h("p", { class: "field" }, h("label", { for: user.id }, "User id (optional)"), user),
          h("p", { class: "check" }, isStreamed, h("label", { for: isStreamed.id }, "Stream"))),
        toggles),
      note, hint, turns, approvals(scope, (one) => talk.running && (one.model ?? talk.model) === talk.model), form),
    inspector);
  redraw = draw;
  scope.on("overview", draw);
  scope.every(PERIOD, follow);
  open(parts);
  return open;

  async function open([from, id]) {
    draw(true);
    if (from !== "from" || !id) return;
    try {
      const trace = await get(`/api/v1/traces/${encodeURIComponent(id)}`);
      const messages = recorded(trace)?.messages;
      resume(trace, messages ?? []);
      fill(note, h("p", { class: messages ? "dim" : "notice" }, messages ? `The messages are those of the request ${id}; the last one is not sent yet.`
        : `The contents of the request ${id} were not recorded, so only its model and its user are set.`));
      history.replaceState(null, "", address("try"));
      draw(true);
    } catch (error) {
      fill(note, failed(`The request ${id} could not be loaded`, error));
    }
  }

  function draw(isWhole) {
    if (scope.closed) return;
    const overview = state.overview;
    if (!overview && state.problem) fill(note, failed("Models could not be loaded", state.problem));
    fill(known, overview?.models.map(({ id }) => h("option", { value: id })) ?? []);
    talk.model ||= overview?.models[0]?.id ?? "";
    if (document.activeElement !== model) model.value = talk.model;
    if (document.activeElement !== user) user.value = talk.user;
    isStreamed.checked = talk.isStreamed;
    if (text.value !== talk.draft) text.value = talk.draft;
    const optional = overview?.plugins.filter((one) => one.toggle) ?? [];
    toggles.hidden = optional.length === 0;
    fill(toggles, h("legend", {}, "Filters to enable"), optional.map(({ id, title }) => h("label", { class: "check" },
      h("input", { type: "checkbox", value: id, checked: talk.toggles.has(id), onchange: ({ target }) => talk.toggles[target.checked ? "add" : "delete"](id) }), title)));
    stop.hidden = !talk.running;
    submit.disabled = Boolean(talk.running);
    turns.setAttribute("aria-busy", String(Boolean(talk.running)));
    hint.hidden = talk.turns.length > 0;
    hint.textContent = "A message takes the way of a client's: filters, tools and limits apply, and the model is called. It is not counted in the usage.";
    const kept = turns.children;
    const isAtEnd = turns.scrollHeight - turns.scrollTop - turns.clientHeight < 80;
    talk.turns.forEach((turn, place) => {
      if (!isWhole && kept[place]?.turn === turn && !turn.isChanged) return;
      turn.isChanged = false;
      const element = turn.role === "user" ? h("p", { class: "turn", "data-role": "user" }, turn.text) : answer(turn);
      element.turn = turn;
      if (kept[place]) kept[place].replaceWith(element);
      else turns.append(element);
    });
    while (kept.length > talk.turns.length) kept[kept.length - 1].remove();
    if (isAtEnd) turns.scrollTop = turns.scrollHeight;
    inspect();
  }

  function answer(turn) {
    const actions = state.overview?.models.find(({ id }) => id === turn.model)?.actions ?? [];
    const isChosen = turn === talk.chosen;
    return h("article", { class: "turn", "data-role": "assistant", "data-state": turn.error ? "wrong" : null, "aria-current": isChosen && talk.turns.length > 2 ? "true" : null },
      h("h2", {}, titleOf(turn)),
      shows(turn).length > 0 && h("ul", { class: "shows" }, shows(turn)),
      turn.text ? h("div", { class: "answer" }, markdown(turn.text)) : turn.running && h("p", { class: "empty" }, "Waiting for the model."),
      turn.error && [h("p", { class: "wrong", role: "alert" }, turn.error.message ?? plain(turn.error)), helpFor(turn)],
      turn.sources.length > 0 && h("ul", { class: "shows" }, turn.sources.map(source)),
      !turn.running && h("div", { class: "row" }, h("p", { class: "dim" }, factsOf(turn).join(" · ")),
        h("p", { class: "actions" },
          turn.error && !talk.running && button("Send again", () => again(turn), { class: "quiet" }),
          turn.text && actions.map((one) => button(one.name, () => press(turn, one), { class: "quiet", disabled: Boolean(talk.running) })),
          !isChosen && turn.trace && button("Show its steps", () => choose(turn), { class: "quiet" }))));
  }

  function inspect() {
    const trace = talk.chosen?.trace;
    if (inspector.trace === trace) return;
    inspector.trace = trace;
    const steps = h("div", { class: "models" });
    if (trace) detail(steps, trace);
    fill(inspector, trace ? [h("div", { class: "row" }, h("h2", {}, "Steps"), h("a", { href: address("requests", trace.id) }, `Request ${trace.id}`)), facts(trace), steps]
      : talk.turns.length > 0 && h("p", { class: "empty" }, "Steps appear here."));
  }

  function choose(turn) {
    talk.chosen = turn;
    draw(true);
  }

  function restart() {
    talk.running?.abort.abort();
    talk = fresh(talk);
    fill(note);
    draw(true);
    text.focus();
  }

  function send() {
    const said = text.value.trim();
    if (!said || talk.running) return;
    talk.draft = "";
    ask(said);
    text.focus();
    turns.scrollTop = turns.scrollHeight;
    form.scrollIntoView({ block: "nearest" });
  }

  function again(turn) {
    const place = talk.turns.indexOf(turn);
    const [said] = talk.turns.splice(place - 1);
    ask(said.text);
  }

  async function follow() {
    const turn = talk.running?.turn;
    if (turn?.id) await readTrace(turn);
  }
}

// Sends a message, and adds it and its answer to the conversation.
async function ask(said) {
  const own = talk;
  const turn = begun(own.model);
  own.turns.push({ role: "user", text: said }, turn);
  const body = { model: own.model, messages: [...own.before, ...messagesOf(own.turns)], chat_id: own.id, stream: own.isStreamed, filter_ids: [...own.toggles] };
  if (own.user) body.user = own.user;
  await run(own, turn, async (signal) => {
    if (!own.isStreamed) return whole(turn, await post("/api/v1/try", body));
    return stream("/api/v1/try", body, {
      signal,
      begun: (response) => { turn.id = response.headers.get("x-valvehouse-trace"); turn.status = response.status; },
      act: (event) => { read(turn, event); later(turn); },
    });
  });
}

// Presses a button under an answer.
async function press(answered, { id, name }) {
  const own = talk;
  const turn = begun(answered.model, `Pressed: ${name}`);
  const body = { model: answered.model, action: id, messages: [...own.before, ...messagesOf(own.turns.slice(0, own.turns.indexOf(answered) + 1))], chat_id: own.id };
  if (own.user) body.user = own.user;
  own.turns.push(turn);
  await run(own, turn, async () => whole(turn, await post("/api/v1/try", body)));
}

function begun(model, title) {
  return { role: "assistant", model, title, text: "", thought: "", calls: [], events: [], sources: [], status: null, error: null, id: null, trace: null, running: true, isStopped: false };
}

async function run(own, turn, act) {
  const abort = new AbortController();
  own.running = { turn, abort };
  own.chosen = turn;
  redraw(true);
  try {
    await act(abort.signal);
  } catch (error) {
    turn.isStopped = error.name === "AbortError";
    if (!turn.isStopped) {
      turn.error = error.body?.error ?? { message: error.message };
      turn.status = error.status ?? turn.status;
      turn.id = error.trace ?? turn.id;
    }
  }
  turn.running = false;
  if (own.running?.turn === turn) own.running = null;
  if (turn.id) await readTrace(turn);
  redraw(true);
}

// A whole answer, with its trace.
function whole(turn, { status, answer, error, trace }) {
  const message = answer?.choices?.[0]?.message;
  Object.assign(turn, { status, error, trace, id: trace.id });
  turn.text = message ? textOf(message.content) : answer === null ? "" : textOf(answer.content ?? plain(answer));
  turn.thought = message?.reasoning_content ?? "";
  turn.calls = (message?.tool_calls ?? []).map((call) => call.function);
  for (const { type, event } of trace.events ?? []) emitted(turn, event ?? { type, data: {} });
}

// An event of a streamed answer.
function read(turn, event) {
  if (event.error) turn.error = event.error;
  if (event.event) emitted(turn, event.event);
  const delta = event.choices?.[0]?.delta;
  turn.text += delta?.content ?? "";
  turn.thought += delta?.reasoning_content ?? delta?.reasoning ?? "";
  for (const { index, function: part } of delta?.tool_calls ?? []) {
    const call = (turn.calls[index ?? 0] ??= { name: "", arguments: "" });
    call.name += part?.name ?? "";
    call.arguments += part?.arguments ?? "";
  }
}

// An event of a plugin: a text changes the answer as at a client; others are listed.
function emitted(turn, { type, data = {} }) {
  if (["message", "delta", "chat:message:delta"].includes(type)) turn.text += data.content ?? "";
  else if (["replace", "chat:message"].includes(type)) turn.text = data.content ?? "";
  else if (["citation", "source"].includes(type)) turn.sources.push(data);
  else turn.events.push({ type, data });
}

async function readTrace(turn) {
  try {
    turn.trace = await get(`/api/v1/traces/${encodeURIComponent(turn.id)}`);
    turn.isChanged = true;
    redraw();
  } catch {
    // A host that keeps few requests may have dropped it.
  }
}

let isDue = false;

// Draws a turn at the next frame.
function later(turn) {
  turn.isChanged = true;
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; redraw(); });
}

// The messages so far. A failed exchange is left out, because it would fail again.
function messagesOf(turns) {
  const isLeftOut = (turn, place) => turn.error || turn.title || turns[place + 1]?.error || (turn.role === "assistant" && !turn.text);
  return turns.filter((turn, place) => !isLeftOut(turn, place)).map(({ role, text }) => ({ role, content: text }));
}

function titleOf(turn) {
  if (turn.running) return turn.text ? "Answering" : "Running";
  if (turn.error) return turn.status === 200 ? "Interrupted" : turn.status ? `Rejected with status ${turn.status}` : "No answer";
  return turn.isStopped ? "Stopped" : turn.title ?? "Answer";
}

// Thoughts, calls of tools and events, in the order in which clients show them.
function shows(turn) {
  const tools = (turn.trace?.steps ?? []).filter((step) => step.hook === "tool");
  const statuses = turn.events.filter(({ type, data }) => type === "status" && !data.hidden);
  const others = turn.events.filter(({ type }) => type !== "status");
  const lastStatus = statuses.at(-1);
  return [
    turn.thought && h("li", {}, h("details", {}, h("summary", {}, "Reasoning"), h("p", {}, turn.thought))),
    lastStatus && h("li", { "data-done": turn.running && lastStatus.data.done === false ? "no" : "yes" }, h("span", { class: "kind" }, statuses.map((one) => visible(one.data.description ?? "")).join(" → "))),
    ...tools.map((step) => h("li", {}, h("details", {}, h("summary", {}, h("span", { class: "kind" }, `Tool ${step.name}`), step.outcome === "ended" ? time(step.took_us) : step.outcome),
      step.cause && h("p", { class: "wrong" }, step.cause),
      step.values?.map(({ before, after }) => [h("pre", { class: "text", tabindex: "0" }, plain(before)), after !== null && h("pre", { class: "text", tabindex: "0" }, plain(after))])))),
    ...turn.calls.filter(Boolean).map((call) => h("li", {}, h("span", { class: "kind" }, `Call for the client: ${call.name}`), h("code", {}, call.arguments))),
    ...others.map(({ type, data }) => h("li", {}, h("span", { class: "kind" }, type === "notification" ? `Notification (${data.type ?? "info"})` : type),
      visible(typeof data.content === "string" ? data.content : plain(data)))),
  ].filter(Boolean);
}

function source(data) {
  const url = data.source?.url ?? data.metadata?.[0]?.source;
  const title = visible(data.source?.name ?? url ?? "source");
  return h("li", {}, h("span", { class: "kind" }, "Source"), /^https?:\/\//.test(url ?? "") ? h("a", { href: url, rel: "noreferrer noopener", target: "_blank" }, title) : title,
    data.document?.[0] && h("span", {}, ` ${visible(String(data.document[0])).slice(0, 160)}`));
}

// The facts of an ended answer in short.
function factsOf({ status, trace }) {
  if (!trace) return [status && `status ${status}`].filter(Boolean);
  return [`status ${trace.status ?? status}`, trace.first_ms !== null && `first token ${time(trace.first_ms * 1000)}`, time(trace.took_ms * 1000),
    trace.prompt_tokens + trace.completion_tokens > 0 && `${trace.prompt_tokens} + ${trace.completion_tokens} tokens`, trace.cost > 0 && `cost ${Number(trace.cost.toPrecision(3))}`].filter(Boolean);
}

// The fix of an error, as far as the page knows it.
function helpFor({ error, status, trace }) {
  const ended = trace?.ended_by;
  const code = error.code ?? error.type;
  const help = [
    ended && plugin(ended) ? ["The plugin ", h("a", { href: address("plugins", ended) }, ended), " ended the request."]
      : code === "model_not_found" ? "Choose one of the models that the field proposes."
        : code === "upstream_auth" ? "The service refused the key of this host: set `api_key` of its [[providers]]."
          : status === 0 ? "Look at the log of the host. The page tries again by itself to reach it."
            : status >= 500 || error.type === "upstream_error" || error.type === "server_error" ? "The service failed: the step of the model shows how. A fallback or a retry is set in [[models]]."
              : status === 429 || code === "rate_limit_exceeded" ? "A limit is reached: wait, or raise it." : null,
    code && code !== ended && h("span", { class: "dim" }, ` Code: ${code}.`)].filter(Boolean);
  return help.length > 0 && h("p", {}, help);
}

function textOf(content) {
  if (Array.isArray(content)) return content.map((part) => part.text ?? `[${part.type}]`).join("\n");
  return content ?? "";
}
