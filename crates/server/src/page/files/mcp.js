// Mounted MCP servers: their tools, the changes since their approval, and approvals of exactly the version that is shown.

import { get, post } from "/page/api.js";
import { badge, button, confirmed, failed, fill, h, notify } from "/page/dom.js";
import { textDifference } from "/page/diff.js";
import { count, plain, visible } from "/page/words.js";

// The interval of polls, in milliseconds.
const PERIOD = 5_000;
const WAITS = new Set(["new", "changed"]);

export function mcp(place, _parts, scope) {
  const news = h("div", { role: "status" });
  const wrong = h("div");
  const body = h("div", { class: "models" }, h("p", { class: "empty" }, "Loading."));
  fill(place, h("h1", { tabindex: "-1", "data-focus": true }, "MCP servers"),
    h("p", { class: "dim" }, "A tool is offered to models only in the version that was approved."), news, wrong, body);
  let drawn = null;
  scope.on("overview", () => load());
  scope.every(PERIOD, () => load());
  load(true);

  async function load(isWanted = false) {
    let servers;
    try {
      servers = (await get("/api/v1/mcp")).data;
    } catch (error) {
      if (scope.closed) return;
      if (!drawn) fill(body);
      fill(wrong, error.status === 404 ? h("p", { class: "empty" }, "This host was built without MCP support.") : failed("The servers could not be loaded", error));
      return;
    }
    if (scope.closed) return;
    fill(wrong);
    const now = JSON.stringify(servers);
    if (now === drawn?.text) {
      fill(news);
    } else if (isWanted || !drawn?.isRead) {
      draw(servers, now);
    } else if (!news.firstChild) {
      // A list that somebody may be reading or approving is not replaced without a click.
      fill(news, h("p", { class: "row" }, "The list has changed. ", button("Show changes", () => load(true), { class: "main" })));
    }
  }

  function draw(servers, text) {
    const open = new Set([...body.querySelectorAll("details[open]")].map((tool) => tool.dataset.tool));
    fill(news);
    fill(body, servers.length === 0 && h("p", { class: "empty" }, "No MCP server is mounted: add [[mcp]] to valvehouse.toml."),
      servers.map((server) => card(server, open)));
    drawn = { text, isRead: servers.some((server) => server.tools.some((tool) => tool.state !== "approved")) };
  }

  function card(server, open) {
    const waiting = server.tools.filter((tool) => WAITS.has(tool.state));
    const gone = server.tools.filter((tool) => tool.state === "gone");
    const away = server.state !== "connected";
    return h("section", { class: "card", "aria-label": server.name },
      h("div", { class: "row" }, h("h2", {}, server.name), badge(server.state)),
      h("p", { class: "dim" }, h("code", {}, visible(server.address)), ` · trust = ${server.trust} · ${count(server.tools.length, "tool")}`),
      server.error && h("p", { class: "failed" }, visible(server.error)),
      waiting.length > 1 && h("p", {}, button(`Approve all ${waiting.length} as shown`, () => approve(server, waiting), { class: "main", disabled: away })),
      gone.length > 1 && h("p", {}, button(`Revoke all ${gone.length} missing tools`, () => forget(server, gone), { class: "quiet" })),
      server.tools.map((tool) => entry(server, tool, open)));
  }

  function entry(server, tool, open) {
    const key = `${server.name} ${tool.tool}`;
    const waits = WAITS.has(tool.state);
    const text = visible(tool.description);
    const twin = tool.state === "approved" && !tool.offered;
    return h("details", { class: "tool", "data-tool": key, open: waits || open.has(key) },
      h("summary", {}, h("strong", {}, tool.name), " ", badge(tool.state), " ", h("span", { class: "dim" }, text.split("\n")[0].slice(0, 100))),
      twin && h("p", { class: "help" }, "Not offered: another tool has the same name."),
      tool.state === "gone" && h("p", { class: "help" }, "This tool was approved, but the server no longer offers it."),
      tool.differences.map((one) => [h("h3", {}, one.part === "server" ? "The address of the server changed" : `Its ${one.part} changed`), wrapped(textDifference(visible(one.diff)))]),
      tool.state === "changed" ? h("details", {}, h("summary", {}, "Current version"), whole(tool, text)) : whole(tool, text),
      h("p", { class: "actions" },
        waits && button("Approve as shown", () => approve(server, [tool]), { class: "main", disabled: server.state !== "connected", "aria-label": `Approve ${tool.name} as shown` }),
        tool.approved_hash !== null && button("Revoke approval", () => forget(server, [tool]), { class: "danger", "aria-label": `Revoke the approval of ${tool.name}` })));
  }

  async function approve(server, tools) {
    const shown = Object.fromEntries(tools.map((tool) => [tool.tool, tool.hash]));
    await change(server, "approve", shown, (names) => `Approved: ${names}.`);
  }

  async function forget(server, tools) {
    const names = tools.map((tool) => tool.name).join(", ");
    if (!await confirmed("Revoke the approval?", `${server.name} no longer offers ${names} to models.`, "Revoke")) return;
    const shown = Object.fromEntries(tools.map((tool) => [tool.tool, tool.approved_hash]));
    await change(server, "forget", shown, (names) => `Approval revoked: ${names}.`);
  }

  async function change(server, act, tools, describe) {
    try {
      const { changed } = await post(`/api/v1/mcp/${encodeURIComponent(server.name)}/${act}`, { tools });
      notify(describe(changed.join(", ") || "no changes"));
    } catch (error) {
      notify(`Cannot ${act === "forget" ? "revoke" : "approve"}: ${error.message}`);
    }
    await load(true);
    // The pressed button no longer exists.
    place.querySelector("h1").focus({ preventScroll: true });
  }
}

function whole(tool, text) {
  const part = (name, value) => value !== null && value !== undefined && [h("h3", {}, name), h("pre", { class: "text", tabindex: "0" }, visible(plain(value)))];
  return h("div", {},
    h("h3", {}, "Name at the server"), h("pre", { class: "text", tabindex: "0" }, visible(tool.tool)),
    part("Title", tool.title),
    h("h3", {}, "Description"), h("pre", { class: "text", tabindex: "0" }, text || "none"),
    part("Arguments", tool.input_schema), part("Results", tool.output_schema), part("Hints", tool.annotations));
}

function wrapped(difference) {
  difference.classList.add("wrapped");
  return difference;
}
