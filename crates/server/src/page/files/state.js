// The state of the host. Views subscribe to `overview`, `figures`, `requests`, `connection` and `theme`.

import { get } from "/page/api.js";

// The maximum number of requests in the list; older ones are dropped.
const MOST_REQUESTS = 1000;

export const state = {
  overview: null,
  // The error of the last load of the overview, or null.
  problem: null,
  // By id, in starting order.
  requests: new Map(),
  // `true` if the host lists the requests in its store.
  stored: false,
  // The cursor of the requests that follow those in the list; undefined before it is known, null at the end.
  next: undefined,
  running: 0,
  // The start of the host in seconds since 1970.
  begun: 0,
  // `live`, `lost`, or null before the first event.
  connection: null,
};

const listeners = new Map();

export function on(what, act) {
  const all = listeners.get(what) ?? new Set();
  listeners.set(what, all.add(act));
  return () => all.delete(act);
}

export function changed(what) {
  for (const act of listeners.get(what) ?? []) act();
}

export function plugin(id) {
  return state.overview?.plugins.find((plugin) => plugin.id === id);
}

// The status that the page shows for a plugin: `off` for a disabled plugin that loads, `audit` for one that only observes.
export function standing(plugin) {
  if (plugin.state !== "live") return plugin.state;
  if (!plugin.enabled) return "off";
  return plugin.mode === "audit" ? "audit" : "live";
}

let loading = null;
let again = false;

// Loads the overview. Calls during a load cause one further load.
export function reload() {
  if (loading) {
    again = true;
    return loading;
  }
  loading = load().finally(() => {
    loading = null;
    if (again) {
      again = false;
      reload();
    }
  });
  return loading;
}

async function load() {
  try {
    state.overview = await get("/api/v1/overview");
    const begun = Math.round(Date.now() / 1000 - state.overview.uptime_s);
    // The uptime has whole seconds.
    if (Math.abs(begun - state.begun) > 2) state.begun = begun;
    state.problem = null;
  } catch (error) {
    state.problem = error;
  }
  changed("overview");
}

export function figures(news) {
  state.running = news.running ?? state.running;
  for (const plugin of state.overview?.plugins ?? []) {
    const stats = news.plugins?.[plugin.id];
    if (stats) plugin.stats = stats;
  }
  changed("figures");
}

// Adds requests that started or ended, in order.
export function requested(summaries) {
  for (const summary of summaries) {
    // A late start event of a request that has ended is ignored.
    if (summary.running && state.requests.get(summary.id)?.running === false) continue;
    state.requests.set(summary.id, summary);
  }
  let surplus = state.requests.size - MOST_REQUESTS;
  for (const [id, summary] of state.requests) {
    if (surplus <= 0) break;
    if (!summary.running) {
      state.requests.delete(id);
      surplus -= 1;
    }
  }
  changed("requests");
}
