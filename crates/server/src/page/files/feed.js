// The live feed of the host: one stream of events, which the browser reopens automatically.

import { changed, figures, reload, requested, state } from "/page/state.js";
import { get } from "/page/api.js";

let source = null;
let batch = [];

export function follow() {
  source?.close();
  source = new EventSource("/api/v1/events");
  source.addEventListener("open", () => {
    connection("live");
    // Events during the interruption are lost.
    reload();
    caughtUp();
  });
  source.addEventListener("error", () => {
    connection("lost");
    // The browser does not reconnect after a rejection, such as after a sign-out.
    if (source.readyState === EventSource.CLOSED) setTimeout(retry, 3000, source);
  });
  listen("snapshot", () => reload());
  listen("begun", queue);
  listen("ended", queue);
  listen("metrics", figures);
  listen("lost", () => { reload(); caughtUp(); });
}

export function leave() {
  source?.close();
  source = null;
}

async function retry(closed) {
  // `reload` shows the sign-in form if the session has ended.
  await reload();
  if (source === closed) follow();
}

function connection(word) {
  if (state.connection === word) return;
  state.connection = word;
  changed("connection");
}

function listen(kind, act) {
  source.addEventListener(kind, (event) => {
    let data;
    try {
      data = event.data ? JSON.parse(event.data) : {};
    } catch {
      // An incomplete event of an interrupted connection.
      return;
    }
    act(data);
  });
}

// Collects events, so that the page is updated at most five times a second.
function queue(summary) {
  if (batch.push(summary) > 1) return;
  setTimeout(() => requestAnimationFrame(() => {
    const news = batch;
    batch = [];
    requested(news);
  }), 200);
}

// Loads requests that started or ended before the feed was open.
async function caughtUp() {
  try {
    const { live, past, stored, next } = await get("/api/v1/traces?limit=1000");
    Object.assign(state, { stored, next });
    const known = [...past].reverse().concat(live);
    const sorted = known.sort((a, b) => a.begun < b.begun ? -1 : 1);
    // A running request that is no longer listed has ended unnoticed.
    const listed = new Set(sorted.map((summary) => summary.id));
    for (const [id, summary] of state.requests) {
      if (summary.running && !listed.has(id)) state.requests.delete(id);
    }
    requested(sorted);
  } catch (error) {
    state.requestsProblem = error;
    changed("requests");
  }
}
