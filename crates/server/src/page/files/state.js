// What the page knows of the host. Views listen for `overview`, `figures`, `requests` and `connection`.

import { get } from "/page/api.js";

// Requests that are kept for the list; older ones are dropped.
const MOST_REQUESTS = 300;

export const state = {
  overview: null,
  // Why there is no overview, where there is none.
  problem: null,
  // By id, in the order in which they began.
  requests: new Map(),
  running: 0,
  // `live`, `lost`, or null before the first word.
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

// The word that the page shows of a plugin: what is switched off is off, however well it loads.
export function standing(plugin) {
  return plugin.enabled || plugin.state !== "live" ? plugin.state : "off";
}

let loading = null;
let again = false;

// Asks for the overview; several wishes at once are one, and one more afterwards.
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

// Requests that began or ended, in their order.
export function requested(summaries) {
  for (const summary of summaries) {
    // A begin that comes late is no news.
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
