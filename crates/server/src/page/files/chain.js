// The chain of a model: its filters in running order, stage by stage, and why the others do not run.

import { get } from "/page/api.js";
import { badge, button, failed, fill, h, keyed, rowsOf, setText } from "/page/dom.js";
import { address } from "/page/route.js";
import { plugin } from "/page/state.js";
import { count, plain } from "/page/words.js";

const STAGES = {
  inlet: "once, before the first model call", pre_chat: "before each model call", stream: "each event of the answer",
  stream_end: "when the stream of the answer ends", post_chat: "after each model call", pre_invocation: "before each tool call",
  post_invocation: "after each tool call", outlet: "once, after the last model call",
};
const DECISIONS = {
  runs: "runs", refuses: "rejects", off: "off", not_listed: "not listed", not_asked_for: "not requested",
  broken: "does not load", no_hooks: "no hooks", tools: "for specific tools", elsewhere: "at other endpoints", breaker_open: "breaker open",
};
// The number of filters shown at first, and added per animation frame on request.
const MOST = 40;

export function chain(model) {
  const place = h("div", { class: "chain" }, h("p", { class: "empty" }, "Loading."));
  let latest = 0;
  place.load = async (user) => {
    const own = ++latest;
    const path = `/api/v1/models/${encodeURIComponent(model)}/chain${user ? `?user=${encodeURIComponent(user)}` : ""}`;
    try {
      const answer = await get(path);
      if (own === latest) draw(place, answer);
    } catch (error) {
      if (own === latest) fill(place, failed("The chain could not be loaded", error));
    }
  };
  return place;
}

function draw(place, { stages, filters, host_filters: own }) {
  const hosts = own.map((filter) => ({ ...filter, state: "live", is_host: true }));
  const byId = new Map([...hosts, ...filters].map((filter) => [filter.id, filter]));
  const others = filters.filter((filter) => filter.decision !== "runs");
  if (!place.parts) {
    place.parts = {
      stages: h("ol", { class: "stages" }),
      nothing: h("p", { class: "empty" }, "No filters: requests pass to the model unchanged."),
      others: h("details", { class: "others" }, h("summary", {}), h("ul", {})),
    };
    fill(place, place.parts.stages, place.parts.nothing, place.parts.others);
  }
  const { parts } = place;
  parts.nothing.hidden = stages.length > 0;
  keyed(parts.stages, stages, (stage) => stage.hook, (stage) => stageRow(stage.hook, byId));
  for (const [hook, row] of rowsOf(parts.stages)) row.show(stages.find((stage) => stage.hook === hook).filters, byId);
  parts.others.hidden = others.length === 0;
  setText(parts.others.firstChild, `${count(others.length, "filter")} not running, with reasons`);
  keyed(parts.others.lastChild, others, (filter) => filter.id, otherRow);
}

function stageRow(hook) {
  const list = h("ol", { class: "links" });
  const more = button("", grow, { class: "quiet", hidden: true });
  const row = h("li", { class: "stage" },
    h("p", { class: "stage-name" }, h("strong", {}, hook), h("span", { class: "dim" }, STAGES[hook] ?? "")), list, more);
  let most = MOST;
  row.show = (ids, byId) => {
    Object.assign(row, { ids, byId });
    const shown = ids.slice(0, most);
    keyed(list, shown.map((id) => byId.get(id) ?? { id, state: "live", reason: "" }), (filter) => filter.id, link);
    more.hidden = shown.length === ids.length;
    setText(more, `Show all ${ids.length}`);
  };
  return row;

  function grow() {
    most += MOST;
    row.show(row.ids, row.byId);
    if (most < row.ids.length) requestAnimationFrame(grow);
  }
}

function link(filter) {
  const state = badge(filter.state);
  const anchor = filter.is_host ? h("span", {}, filter.id) : h("a", { href: address("plugins", filter.id) }, filter.id);
  const priority = h("span", { class: "dim" });
  const own = h("span", { class: "dim" });
  const cache = h("span", { class: "cache" });
  const item = h("li", { class: "link" }, anchor, priority, state, cache, own);
  item.update = (filter) => {
    anchor.title = [plugin(filter.id)?.description, filter.reason].filter(Boolean).join("\n");
    setText(priority, filter.priority == null ? "" : String(filter.priority));
    priority.title = "Priority: lower runs first";
    const word = filter.decision === "refuses" ? "missing" : filter.state;
    state.update(word);
    state.hidden = word === "live";
    item.dataset.state = word;
    const measured = filter.prompt_cache;
    cache.hidden = !measured;
    if (measured) {
      setText(cache, `keeps prompt cache: ${measured.keeps ? "yes" : "no"}`);
      cache.dataset.state = measured.keeps ? "kept" : "lost";
      cache.title = measured.keeps ? `Measured in ${count(measured.requests, "request")}`
        : `Lost in ${measured.lost} of ${count(measured.requests, "request")}: the text it writes before the last message differs between requests`;
    }
    setText(own, filter.user_valves ? plain(filter.user_valves) : "");
    own.hidden = !filter.user_valves;
  };
  return item;
}

function otherRow(filter) {
  const word = h("span", { class: "badge" });
  const reason = h("span", {});
  const row = h("li", {}, h("a", { href: address("plugins", filter.id) }, filter.id), " ", word, " ", reason);
  row.update = (filter) => {
    setText(word, DECISIONS[filter.decision] ?? filter.decision);
    word.dataset.state = { refuses: "missing", breaker_open: "breaker_open", broken: "broken" }[filter.decision] ?? "off";
    setText(reason, filter.reason);
  };
  return row;
}
