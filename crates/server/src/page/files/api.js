// Calls of the host's routes. Every failure becomes an error with a message.

export class Refused extends Error {
  constructor(status, message, body) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

const waiting = { token: null, signedOut: () => {} };

// Stores the token of the session, which requests that change something carry.
export function signed(token) {
  waiting.token = token;
}

// Sets the function that is called when the session has ended.
export function whenSignedOut(act) {
  waiting.signedOut = act;
}

export const get = (path) => call("GET", path);
export const post = (path, body = {}, signal = undefined) => call("POST", path, body, signal);
export const put = (path, body = {}) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);

export async function call(method, path, body, signal) {
  return parsed(await (await send(method, path, body, { signal })).text());
}

// Sends a request whose answer is a stream of events, and passes the data of each to `act`. `begun` receives the response.
export async function stream(path, body, { act, begun, signal }) {
  const response = await send("POST", path, body, { accept: "text/event-stream", signal });
  begun(response);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let held = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (held + value).split("\n");
    held = lines.pop();
    for (const line of lines.filter((line) => line.startsWith("data:"))) {
      const data = line.slice(5).trim();
      if (data !== "[DONE]") act(parsed(data));
    }
  }
}

// Returns a successful response. The trace of a failed one is in the error.
async function send(method, path, body, { accept = "application/json", signal } = {}, again = true) {
  const headers = { accept };
  if (method !== "GET" && waiting.token) headers["x-valvehouse-csrf"] = waiting.token;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, "the host cannot be reached");
  }
  if (response.ok) return response;
  const answer = parsed(await response.text());
  const isSession = path.startsWith("/api/v1/session");
  // A request with a trace was admitted: the error is that of its model or of a plugin.
  const trace = response.headers.get("x-valvehouse-trace");
  if (response.status === 403 && method !== "GET" && again && !isSession && !trace && await renewed()) {
    return send(method, path, body, { accept, signal }, false);
  }
  if (response.status === 401 && !isSession && !trace) waiting.signedOut();
  throw Object.assign(new Refused(response.status, reason(response, answer), answer), { trace });
}

// Fetches a new token, because a restarted host has forgotten the old one.
async function renewed() {
  try {
    const session = await call("GET", "/api/v1/session");
    const isNew = session.csrf !== null && session.csrf !== waiting.token;
    waiting.token = session.csrf;
    return isNew;
  } catch {
    return false;
  }
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function reason(response, answer) {
  const reason = answer?.error?.message ?? answer?.detail ?? answer?.message;
  if (typeof reason === "string") return reason;
  if (reason !== undefined) return JSON.stringify(reason);
  return `the host answered ${response.status} ${response.statusText}`;
}

// A path of the Functions API.
export function plugin(id, rest = "") {
  return `/api/v1/functions/id/${encodeURIComponent(id)}${rest}`;
}
