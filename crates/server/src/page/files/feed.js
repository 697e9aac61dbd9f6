// What happens at the host, as it happens: one stream of events, which the browser opens again by itself.

import { changed, figures, reload, requested, state } from "/page/state.js";
import { get } from "/page/api.js";

let source = null;
let batch = [];

export function follow() {
  source?.close();
  source = new EventSource("/api/v1/events");
  source.addEventListener("open", () => {
    connection("live");
    // Whatever happened meanwhile was not heard.
    reload();
    caughtUp();
  });
  source.addEventListener("error", () => {
    connection("lost");
    // Refused for good, such as after signing out: the browser would not try again.
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
  // Who is signed out meanwhile is asked for the key, and follows nothing.
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
      // Half an event of a connection that broke.
      return;
    }
    act(data);
  });
}

// Many come at once: they are taken in together, and never more often than anybody could see.
function queue(summary) {
  if (batch.push(summary) > 1) return;
  setTimeout(() => requestAnimationFrame(() => {
    const news = batch;
    batch = [];
    requested(news);
  }), 200);
}

// The requests that were under way or over before the page listened.
async function caughtUp() {
  try {
    const { live, past } = await get("/api/v1/traces?limit=100");
    const known = [...past].reverse().concat(live);
    const sorted = known.sort((a, b) => a.begun < b.begun ? -1 : 1);
    // What is known to run and is not told of any more has ended unheard.
    const told = new Set(sorted.map((summary) => summary.id));
    for (const [id, summary] of state.requests) {
      if (summary.running && !told.has(id)) state.requests.delete(id);
    }
    requested(sorted);
  } catch (error) {
    state.requestsProblem = error;
    changed("requests");
  }
}
