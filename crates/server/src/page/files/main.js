// The page: checks the session, then shows the view of the address and follows the feed of events.

import { get, remove, signed, whenSignedOut } from "/page/api.js";
import { fill, h, setText, notify } from "/page/dom.js";
import { icon } from "/page/icons.js";
import * as feed from "/page/feed.js";
import { address, close, route, show } from "/page/route.js";
import { signIn } from "/page/session.js";
import { changed, on, reload, state } from "/page/state.js";
import { home } from "/page/home.js";
import { plugins } from "/page/plugins.js";
import { coverage } from "/page/coverage.js";
import { create } from "/page/create.js";
import { keys } from "/page/keys.js";
import { mcp } from "/page/mcp.js";
import { models } from "/page/models.js";
import { runs } from "/page/runs.js";
import { settings } from "/page/settings.js";
import { requests } from "/page/requests.js";
import { chat } from "/page/chat.js";
import { usage } from "/page/usage.js";

// The sections of the menu: the name in the address, the title and the picture.
const PARTS = [["", "Overview", "overview"], ["try", "Test chat", "chat"], ["requests", "Requests", "requests"], ["plugins", "Plugins", "plugins"], ["models", "Models", "models"], ["runs", "Runs", "runs"], ["usage", "Usage", "usage"],
  ["keys", "Keys", "keys"], ["coverage", "Coverage", "coverage"], ["mcp", "MCP servers", "mcp"], ["settings", "Settings", "settings"]];

route("", "Overview", home);
route("plugins", "Plugins", plugins);
route("requests", "Requests", requests);
route("runs", "Runs and approvals", runs);
route("usage", "Usage", usage);
route("keys", "Keys", keys);
route("coverage", "Coverage", coverage);
route("mcp", "MCP servers", mcp);
route("models", "Models and providers", models);
route("settings", "Settings", settings);
route("try", "Test chat", chat);
route("new", "New plugin", create);

const main = document.getElementById("main");
const leave = document.getElementById("leave");
const who = document.getElementById("who");
let isIn = false;
// The session of an operator whom a proxy signed in; the page cannot ask for a key then.
let atProxy = null;

async function start() {
  let session;
  try {
    session = await get("/api/v1/session");
  } catch (error) {
    fill(main, h("p", { class: "failed", role: "alert" }, `Cannot load the session: ${error.message}.`),
      h("p", {}, h("a", { href: "/", onclick: () => location.reload() }, "Reload the page")));
    connected("lost");
    return;
  }
  signed(session.csrf);
  if (session.operator) enter(session);
  else ask(session);
}

async function enter(session) {
  isIn = true;
  atProxy = session.at_proxy ? session : null;
  setText(who, atProxy ? session.by : "");
  leave.hidden = !session.needs_key && !session.sign_out;
  leave.title = session.by ? `Signed in as ${session.by}` : "";
  fill(document.getElementById("nav"), PARTS.map(([name, title, picture]) =>
    h("li", {}, h("a", { href: name ? address(name) : "#/" }, icon(picture), title))));
  await reload();
  if (!isIn) return;
  show({ focus: false });
  feed.follow();
}

function ask(session) {
  isIn = false;
  feed.leave();
  close();
  fill(document.getElementById("nav"));
  leave.hidden = true;
  setText(who, "");
  state.overview = null;
  state.requests.clear();
  connected("out");
  signIn(main, session, (session) => {
    signed(session.csrf);
    enter(session);
  });
}

function connected(word) {
  state.connection = word;
  changed("connection");
}

whenSignedOut(() => {
  if (!isIn) return;
  if (atProxy) location.reload();
  else ask({ needs_key: true });
});

leave.addEventListener("click", async () => {
  if (atProxy) return location.assign(atProxy.sign_out);
  try {
    await remove("/api/v1/session");
  } catch (error) {
    notify(`Cannot sign out: ${error.message}`);
    return;
  }
  ask({ needs_key: true });
});

const CONNECTION = { live: "Live", lost: "Connection lost, reconnecting", out: "Signed out" };

on("connection", () => {
  const element = document.getElementById("connection");
  element.dataset.state = state.connection;
  setText(element, CONNECTION[state.connection] ?? "Connecting");
});

// The new colors apply from the next frame.
const themed = () => requestAnimationFrame(() => changed("theme"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
document.getElementById("theme").addEventListener("change", themed);

addEventListener("hashchange", () => {
  // The hash of the skip link is not an address.
  if (isIn && location.hash !== "#main") show();
});

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});

start();
