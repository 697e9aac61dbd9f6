// Models and providers: the health of each provider, the models that it serves, and the use, times and filters of one of them.

import { get } from "/page/api.js";
import { chain } from "/page/chain.js";
import { errorsOf, figuresOf, TIMES, timeChoice, usageCurves } from "/page/curves.js";
import { badge, failed, fill, h, keyed, name, setText } from "/page/dom.js";
import { connectService } from "/page/first.js";
import { address, go } from "/page/route.js";
import { plugin, reload, standing, state } from "/page/state.js";
import { clock, count, moment, ms, number, span, visible } from "/page/words.js";

// The intervals of polls in milliseconds: of the health, and of the use.
const HEALTH = 5_000;
const USE = 15_000;
// The provider of all scripts that serve models.
const SCRIPTS = { name: "pipes", kind: "models of scripts", state: "used", addresses: [], passes: [], targets: [] };
const COLUMNS = ["Model", "Guards", "Price in / out", "Context", "Requests", "Errors", "p50", "p95"];

let time = "1h";

// The list, or one provider or one of its models.
export function models(place, [provider, model], scope) {
  const wrong = h("div");
  const show = (model ? oneModel : provider ? oneProvider : list)(place, scope, wrong, provider, model);
  let sums = { ofModels: new Map(), passed: [] };
  const draw = () => state.overview && show.draw(parts(sums));
  scope.on("overview", draw);
  scope.every(HEALTH, reload);
  scope.every(USE, load);
  show.times.addEventListener("change", load);
  draw();
  load();

  async function load() {
    const shown = time;
    const of = model ? { model } : provider ? { provider } : null;
    const asked = of && String(new URLSearchParams(of));
    try {
      const [byModel, byBoth, over, all] = await Promise.all([
        get(`/api/v1/usage?from=${shown}&by=model`), get(`/api/v1/usage?from=${shown}&by=model,provider`),
        of && get(`/api/v1/usage?from=${shown}&step=${TIMES[shown][2] / 60}m&${asked}`), of && get(`/api/v1/usage?from=${shown}&${asked}`),
      ]);
      if (scope.closed || shown !== time) return;
      fill(wrong);
      sums = { ofModels: new Map(byModel.data.map((one) => [one.by.model, one])), passed: byBoth.data.filter(({ by }) => by.provider) };
      if (of) show.use(over.data, all.data[0], shown);
      draw();
    } catch (error) {
      if (!scope.closed) fill(wrong, failed("The use could not be loaded", error));
    }
  }
}

// Each provider with its models, and those that clients requested by the name of the service.
function parts({ ofModels, passed }) {
  const { models, providers } = state.overview;
  const known = new Set(models.map(({ id }) => id));
  const names = new Set(providers.map(({ name }) => name));
  const all = models.some(({ provider }) => !names.has(provider)) ? [...providers, SCRIPTS] : providers;
  return all.map((provider) => {
    const own = models.filter((model) => provider === SCRIPTS ? !names.has(model.provider) : model.provider === provider.name);
    const others = passed.filter(({ by }) => by.provider === provider.name && !known.has(by.model));
    const rows = [...own.map((model) => ({ model, sum: ofModels.get(model.id) })),
      ...others.map((sum) => ({ model: { id: sum.by.model, provider: provider.name, answered_by: [], guards: null }, sum }))];
    const replaces = models.filter((model) => model.answered_by.slice(1).some((one) => one.provider === provider.name)).map(({ id }) => id);
    return { provider, rows, replaces };
  });
}

function list(place, scope, wrong) {
  const search = h("input", { type: "search", id: name("find"), autocomplete: "off", oninput: () => drawn && draw(drawn) });
  const summary = h("p", { class: "dim", role: "status" });
  const empty = h("div");
  const cards = h("div", { class: "models" });
  const times = timeChoice(time, (chosen) => { time = chosen; });
  let drawn = null;
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "Models and providers"), summary, wrong, empty,
    h("div", { class: "row" }, h("p", { class: "field inline" }, h("label", { for: search.id }, "Find"), search), times), cards);
  return { draw, times };

  function draw(all) {
    drawn = all;
    const word = search.value.trim().toLowerCase();
    const fits = (text) => text.toLowerCase().includes(word);
    const shown = all.map((one) => fits(`${one.provider.name} ${one.provider.kind}`) ? one : { ...one, rows: one.rows.filter(({ model }) => fits(namesOf(model))) })
      .filter((one) => one.rows.length > 0 || fits(`${one.provider.name} ${one.provider.kind}`));
    const { models, providers } = state.overview;
    const down = providers.reduce((sum, { breakers }) => sum + breakers.length, 0);
    const resting = providers.flatMap(({ targets }) => targets).filter(({ rests_s: rest }) => rest !== null).length;
    const refused = models.filter(({ refused }) => refused).length;
    setText(summary, [count(providers.length, "provider"), count(models.length, "model"), down && `${count(down, "open breaker")}`,
      resting && `${count(resting, "key or deployment")} at rest`, refused && `${count(refused, "model")} refused for everybody`].filter(Boolean).join(" · "));
    if (providers.every(({ kind }) => kind === "demo")) empty.firstChild || fill(empty, connectService());
    else fill(empty);
    keyed(cards, shown, ({ provider }) => provider.name, () => card());
  }
}

function oneProvider(place, scope, wrong, own) {
  const use = useOf(scope, (at, step) => go("requests", "at", String(at), String(step)));
  const shown = card(use.element);
  const title = h("h1", { tabindex: "-1", "data-focus": true }, own);
  fill(place, back(["models", "All providers"]), h("div", { class: "row" }, title, use.times), wrong, shown);
  return { ...use, draw: (all) => {
    const found = all.find(({ provider }) => provider.name === own);
    shown.hidden = !found;
    if (found) shown.update(found);
    else fill(wrong, h("p", { class: "failed" }, `There is no provider ${own}.`));
  } };
}

function oneModel(place, scope, wrong, own, id) {
  const use = useOf(scope, (at, step) => go("requests", "at", String(at), String(step), id));
  const refused = h("p", { class: "failed", role: "alert", hidden: true });
  const facts = h("dl", { class: "figures small" });
  const held = chain(id);
  const user = h("input", { id: name("user"), autocomplete: "off", placeholder: "any user", onchange: () => held.load(user.value.trim()) });
  let [shown, generation] = ["", null];
  fill(place, back(["models", "All providers"], [["models", own], own]),
    h("div", { class: "row" }, h("h1", { tabindex: "-1", "data-focus": true }, id),
      h("div", { class: "row start" }, h("a", { href: address("requests", "model", id) }, "Its requests"), use.times)), wrong, refused, facts, use.element,
    h("section", { class: "card", "aria-label": "Chain" },
      h("div", { class: "row" }, h("h2", {}, "Filter chain"), h("p", { class: "field inline" }, h("label", { for: user.id }, "For user"), user)), held));
  return { ...use, draw: (all) => {
    const found = all.flatMap(({ rows }) => rows).find(({ model }) => model.id === id)?.model ?? { id, answered_by: [], guards: null };
    refused.hidden = !found.refused;
    setText(refused, (found.refused ?? "").replaceAll("`", ""));
    const provider = state.overview.providers.find(({ name }) => name === own);
    const rows = factsOf(found, h("span", {}, h("a", { href: address("models", own) }, own), provider?.breakers.length > 0 && [" ", badge(provider.state)]));
    const text = JSON.stringify([found, found.guards?.map(stateOf), provider?.state]);
    if (text !== shown) fill(facts, rows.filter(([, value]) => value).map(([label, value, isWide]) => h("div", { class: isWide && "wide" }, h("dt", {}, label), h("dd", {}, value))));
    shown = text;
    if (state.overview.generation !== generation) held.load(user.value.trim());
    ({ generation } = state.overview);
  } };
}

// The figures and curves of a provider or a model, with the choice of the time.
function useOf(scope, pick) {
  const totals = h("dl", { class: "figures" });
  const curves = usageCurves(scope, pick, 2);
  const times = timeChoice(time, (chosen) => { time = chosen; });
  const element = h("section", { class: "models", "aria-label": "Use" }, totals, curves.element);
  return { element, times, use: (over, all, shown) => { figuresOf(totals, all ?? NOTHING); curves.draw(over, shown); } };
}

const NOTHING = { requests: 0, client_errors: 0, server_errors: 0, refusals: 0, prompt_tokens: 0, completion_tokens: 0, cost: 0 };

// A provider: its health, its keys and deployments, its use if that is shown, and its models.
function card(use) {
  const title = !use && h("a");
  const word = badge("used");
  const about = h("p", { class: "dim" });
  const health = h("div");
  const targets = h("ul", { class: "targets", "aria-label": "Keys and deployments" });
  const body = h("tbody");
  const table = h("div", { class: "scroll", tabindex: "0", role: "region" }, h("table", { class: "served" },
    h("thead", {}, h("tr", {}, COLUMNS.map((title, place) => h("th", { scope: "col", class: place > 1 ? "number" : null }, title)))), body));
  const note = h("p", { class: "dim" });
  const top = [h("div", { class: "row start" }, title && h("h2", {}, title), word, about), health, targets];
  const served = [table, note];
  const element = use ? h("div", { class: "models" }, h("section", { class: "card provider", "aria-label": "Health" }, top), use, h("section", { class: "card", "aria-label": "Models" }, h("h2", {}, "Models"), served))
    : h("section", { class: "card provider" }, top, served);
  let shown = "";
  element.update = ({ provider, rows, replaces }) => {
    if (!use) element.setAttribute("aria-label", provider.name);
    table.setAttribute("aria-label", `Models of ${provider.name}`);
    if (title) {
      title.href = address("models", provider.name);
      setText(title, provider.name);
    }
    word.update(provider.state);
    setText(about, [provider.kind || "added by the program", provider.addresses.join(", ") || "in this process", provider.clients_pay && "clients pay with their own keys"].filter(Boolean).join(" · "));
    const text = JSON.stringify([provider.breakers, provider.last_failure]);
    if (text !== shown) fill(health, healthOf(provider));
    shown = text;
    targets.hidden = provider.targets.length === 0;
    keyed(targets, provider.targets, ({ name }) => name, target);
    table.hidden = rows.length === 0;
    keyed(body, rows, ({ model }) => model.id, () => row(provider.name));
    setText(note, [rows.length === 0 && replaces.length === 0 && "No configured model.", provider.passes?.includes("*") && `Clients can request any model of the service as ${provider.name}/NAME.`,
      replaces.length > 0 && `Fallback of ${replaces.join(", ")}.`].filter(Boolean).join(" "));
    note.hidden = !note.textContent;
  };
  return element;
}

function healthOf({ breakers, last_failure: last }) {
  if (breakers.length > 0) {
    return h("div", { class: "failed" }, breakers.map((breaker) => [h("p", {}, h("strong", {}, "A circuit breaker is open. "),
      `For ${span(Math.max(1, breaker.since_s))}, the model's requests have used fallbacks or returned 503. The next one is tried ${breaker.next_try_s > 0 ? `in ${span(breaker.next_try_s)}` : "at once"}.`),
    h("p", {}, "Opened by: ", h("code", {}, visible(breaker.cause)))]), failure(last));
  }
  return last ? h("div", { class: "dim" }, failure(last)) : [];
}

function failure(last) {
  return last && h("p", {}, `Last failure ${moment(last.at)}: `, h("code", {}, visible(last.message)));
}

// A key or deployment.
function target() {
  const label = h("strong");
  const word = badge("ready");
  const more = h("span", { class: "dim" });
  const element = h("li", {}, label, word, more);
  element.update = ({ name, calls, rests_s: left }) => {
    setText(label, name);
    word.update(left === null ? "ready" : "resting");
    setText(more, `${left === null ? "" : `for ${span(left)}, until ${clock(Date.now() / 1000 + left)}; `}${count(calls, "request")}`);
  };
  return element;
}

function row(provider) {
  const link = h("a");
  const names = h("span", { class: "hint" });
  const refused = h("p", { class: "wrong" });
  const guards = h("td", { "data-label": "Guards" });
  const cells = COLUMNS.slice(2).map((title) => h("td", { class: "number", "data-label": title.replace(" in / out", "") }));
  const element = h("tr", {}, h("th", { scope: "row" }, link, " ", names, refused), guards, cells);
  let shown = "";
  element.update = ({ model, sum }) => {
    link.href = address("models", provider, model.id);
    setText(link, visible(model.id));
    setText(names, model.guards ? servedAs(model) : "requested by its name at the service");
    setText(refused, (model.refused ?? "").replaceAll("`", ""));
    const text = JSON.stringify(model.guards?.map((id) => [id, stateOf(id)]));
    if (text !== shown) fill(guards, guardsOf(model));
    shown = text;
    guards.dataset.state = model.guards ? "" : "none";
    [priceOf(model) || "–", model.context_length ? number(model.context_length) : "–", number(sum?.requests ?? 0), number(sum ? errorsOf(sum) : 0), ms(sum?.p50_ms), ms(sum?.p95_ms)]
      .forEach((text, place) => {
        setText(cells[place], text);
        cells[place].dataset.state = text === "–" ? "none" : "";
      });
    if (sum?.server_errors > 0) cells[3].dataset.state = "bad";
  };
  return element;
}

function factsOf(model, provider) {
  const { answered_by: by, context_length: context, max_tool_iterations: calls } = model;
  return [["Provider", provider], ["At the service", by[0]?.model], ["Fallbacks", by.slice(1).map(pathOf).join(", ")], ["Price in / out of a million tokens", priceOf(model)],
    ["Cached input", model.price?.cached !== undefined && String(model.price.cached)], ["Context", context && `${number(context)} tokens`], ["Model calls per turn", calls && `at most ${calls}`],
    ["Conversations", model.memory && "stored"], ["Guards", model.guards && h("span", {}, guardsOf(model)), true],
    ["Tools", model.tools?.join(", "), true], ["Action buttons", model.actions?.map(({ name }) => name).join(", "), true]];
}

function guardsOf({ guards }) {
  if (!guards) return "–";
  if (guards.length === 0) return h("span", { class: "dim" }, "none");
  return guards.map((id, place) => [h("span", { class: "together" }, h("a", { href: address("plugins", id) }, id), stateOf(id) !== "live" && [" ", badge(stateOf(id))], place < guards.length - 1 && ","), " "]);
}

function stateOf(id) {
  const known = plugin(id);
  return known ? standing(known) : "missing";
}

const pathOf = ({ provider, model }) => `${provider}/${model}`;

function namesOf({ id, answered_by: by }) {
  return [id, ...by.map(pathOf)].join(" ");
}

// The name at the service if it is another one, and the fallbacks.
function servedAs({ id, answered_by: by }) {
  const own = by.length > 0 && by[0].model !== id && `as ${by[0].model}`;
  const rest = by.length > 1 && `falls back to ${by.slice(1).map(pathOf).join(", then ")}`;
  return [own, rest].filter(Boolean).join(", ");
}

function priceOf({ price }) {
  return price ? `${price.input ?? 0} / ${price.output ?? 0}` : "";
}

function back(...steps) {
  return h("nav", { class: "crumbs", "aria-label": "Up" }, steps.map(([to, title], place) => [place > 0 && " / ", h("a", { href: address(...[to].flat()) }, place === 0 ? `← ${title}` : title)]));
}
