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
export const post = (path, body = {}) => call("POST", path, body);
export const put = (path, body = {}) => call("PUT", path, body);
export const remove = (path) => call("DELETE", path);

export async function call(method, path, body, again = true) {
  const headers = { accept: "application/json" };
  if (method !== "GET" && waiting.token) headers["x-valvehouse-csrf"] = waiting.token;
  if (body !== undefined) headers["content-type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(0, "the host cannot be reached");
  }
  const text = await response.text();
  const answer = parsed(text);
  if (response.ok) return answer;
  const isSession = path.startsWith("/api/v1/session");
  if (response.status === 403 && method !== "GET" && again && !isSession && await renewed()) {
    return call(method, path, body, false);
  }
  if (response.status === 401 && !isSession) waiting.signedOut();
  throw new Refused(response.status, reason(response, answer), answer);
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
