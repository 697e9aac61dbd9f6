// The facts of a request: its outcome in words, its sums, and the request as a command.

import { h } from "/page/dom.js";
import { computer, day, number, time } from "/page/words.js";

// The recorded body of a request before the first filter, or null.
export function recorded(trace) {
  const step = trace.steps?.find((step) => ["inlet", "model"].includes(step.hook) && step.values?.length > 0);
  const body = step?.values[0].before;
  return Array.isArray(body?.messages) ? body : null;
}

// The request as a command. Without recorded contents, its message is a placeholder.
export function curl(trace) {
  const body = recorded(trace) ?? { messages: [{ role: "user", content: "hello" }] };
  const sent = { ...body, model: trace.model, stream: trace.stream, ...(trace.user ? { user: trace.user } : {}) };
  const quoted = JSON.stringify(sent).replaceAll("'", "'\\''");
  return `curl ${location.origin}/v1/chat/completions \\\n  -H 'content-type: application/json' \\\n  -H "authorization: Bearer $VALVEHOUSE_KEY" \\\n  -d '${quoted}'`;
}

export function facts(trace) {
  const rows = [["Model", trace.model], ["User", trace.user], ["Key", trace.key], ["Chat", trace.chat_id], ["Endpoint", trace.stream ? `${trace.endpoint}, streamed` : trace.endpoint],
    ["Provider", trace.provider], ["Status", stateOf(trace)], ["Ended by", trace.ended_by], ["Tokens in + out", tokens(trace)], ["Cost", trace.cost > 0 && cost(trace)],
    ["First token", trace.first_ms !== null && time(trace.first_ms * 1000)], ["Duration", trace.running ? "" : time(trace.took_ms * 1000)], ["Started", day(trace.begun)], ["Generation", String(trace.generation)], ["Host", computer(trace.host)]];
  return h("dl", { class: "figures small" }, rows.filter(([, value]) => value).map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value))));
}

export function tokens(request) {
  return request.prompt_tokens + request.completion_tokens > 0 ? `${number(request.prompt_tokens)} + ${number(request.completion_tokens)}` : "";
}

export function cost(request) {
  return request.cost > 0 ? String(Number(request.cost.toPrecision(3))) : "–";
}

export function isFailed(request) {
  return !request.running && (request.status >= 400 || Boolean(request.error) || !request.whole);
}

export function stateOf(request) {
  if (request.running) return "running";
  if (!request.whole && !request.error && request.status < 400) return "client disconnected";
  return request.error && request.status < 400 ? `${request.status}, interrupted` : String(request.status || "no answer");
}
