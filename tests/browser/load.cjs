// How quick the page is with 500 plugins and 1 000 requests a minute: from each press to the next paint, as the
// browser itself measures it, and until what was asked for is there.
//
//     NODE_PATH=target/javascript/node_modules node tests/browser/load.cjs target/release/valvehouse

const { spawn } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const PLUGINS = 500;
const EVERY = 60_000 / 1_000;
const ROUNDS = Number(process.env.VALVEHOUSE_ROUNDS ?? 10);
// The browser measures in steps of eight milliseconds and leaves out what is quicker.
const SHORTEST = 16;

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "valvehouse-load-"));

function project() {
  fs.mkdirSync(path.join(folder, "filters"));
  const names = [];
  for (let number = 0; number < PLUGINS; number += 1) {
    const name = `filter_${String(number).padStart(3, "0")}`;
    names.push(name);
    const isGlobal = number < 20;
    fs.writeFileSync(path.join(folder, `filters/${name}.rhai`),
      `/*\ntitle: Filter number ${number}\ndescription: One of many.\nglobal: ${isGlobal}\n*/\n`
      + `const Valves = #{ on: true, most: #{ value: 4, minimum: 1, maximum: 9 }, word: "x" };\nfn inlet(body, valves) { body }\nfn outlet(body) { body }\n`);
  }
  fs.writeFileSync(path.join(folder, "valvehouse.toml"),
    `[[providers]]\nname = "demo"\nkind = "demo"\n[[models]]\nname = "demo"\nprovider = "demo"\n[[models]]\nname = "all"\nprovider = "demo"\nfilters = ${JSON.stringify(names)}\n`);
}

async function serve(binary) {
  const host = spawn(path.resolve(binary), ["serve", "--port", "0"], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  const url = await new Promise((found, gone) => {
    host.stderr.on("data", (data) => {
      said += data;
      const address = /http:\/\/[\d.]+:\d+/.exec(said);
      if (address) found(address[0]);
    });
    host.on("exit", () => gone(new Error(said)));
  });
  return { host, url };
}

async function traffic(url, until) {
  let number = 0;
  const headers = { "content-type": "application/json" };
  while (!until.over) {
    const body = JSON.stringify({ model: "demo", user: `user-${number % 50}`, messages: [{ role: "user", content: `hello ${number}` }] });
    fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body }).then((answer) => answer.text()).catch(() => {});
    number += 1;
    await new Promise((next) => setTimeout(next, EVERY));
  }
  return number;
}

async function measure(url) {
  // The page is opened at the address that stands there.
  process.argv[2] = url;
  const { open, until, TIMEOUT } = require("./page.cjs");
  const { chromium } = require("playwright-core");
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: process.env.VALVEHOUSE_BROWSER ?? "/usr/bin/chromium", args });
  const page = await open(browser, "#/");
  page.setDefaultTimeout(TIMEOUT);
  await page.getByText("Live", { exact: true }).waitFor();
  await page.evaluate(() => {
    window.measured = [];
    new PerformanceObserver((list) => window.measured.push(...list.getEntries().filter((entry) => entry.interactionId).map(({ duration }) => duration)))
      .observe({ type: "event", durationThreshold: 16, buffered: false });
  });
  const rows = new Map();
  async function interaction(name, act, isThere) {
    await page.evaluate(() => { window.measured.length = 0; });
    const began = performance.now();
    await act();
    await isThere?.();
    const shown = performance.now() - began;
    await page.waitForTimeout(150);
    const painted = await page.evaluate(() => Math.max(0, ...window.measured));
    const row = rows.get(name) ?? { painted: [], shown: [] };
    row.painted.push(painted);
    row.shown.push(shown);
    rows.set(name, row);
  }
  const link = (name) => page.getByRole("link", { name, exact: true });
  for (let round = 0; round < ROUNDS; round += 1) {
    const id = `filter_${String(100 + round).padStart(3, "0")}`;
    await interaction("open the list of plugins", () => link("Plugins").click(), () => page.locator(".list li").first().waitFor());
    for (const letter of id.slice(-3)) await interaction("type a letter into the search", () => page.locator("#plugin-search").press(letter));
    await interaction("choose a plugin", () => page.locator(`.list a[href$="${id}"]`).click(), () => page.locator("[data-valve=on]").waitFor());
    await interaction("flip a setting", () => page.locator("[data-valve=on] input").click(), () => page.locator("[data-valve=on] .outcome", { hasText: "Saved" }).waitFor());
    await interaction("open the source", () => link("Source").click(), () => page.locator(".editor textarea").waitFor());
    await interaction("open the requests", () => link("Requests").click(), () => page.locator(".requests tbody tr").first().waitFor());
    await page.getByLabel("Pause updates").check();
    await interaction("choose a request", () => page.locator(".requests tbody tr a").nth(3).click(), () => page.locator(".step").first().waitFor());
    await link("← All requests").click();
    await page.getByLabel("Pause updates").uncheck();
    await interaction("type a letter into the search of requests", () => page.locator(".view-requests input[type=search]").press("u"));
    await interaction("open the overview", () => link("Overview").click(), () => page.locator(".figures").first().waitFor());
    await interaction("open the models", () => link("Models").click(), () => page.locator(".served tbody tr").first().waitFor());
    await interaction("choose a model", () => page.locator(".served tbody a").first().click(), () => page.locator(".stage").first().waitFor());
    await until("the long chain is there", () => page.getByRole("button", { name: "Show all 500" }).first().isVisible());
    await interaction("show a chain of 500", () => page.getByRole("button", { name: "Show all 500" }).first().click());
  }
  await browser.close();
  return rows;
}

function report(rows, requests) {
  console.log(`${PLUGINS} plugins, ${requests} requests meanwhile; milliseconds from a press to the next paint, and until all is there`);
  for (const [name, { painted, shown }] of rows) {
    const paint = (at) => { const sorted = [...painted].sort((a, b) => a - b); return sorted[Math.floor((sorted.length - 1) * at)] || `<${SHORTEST}`; };
    const there = [...shown].sort((a, b) => a - b)[Math.floor((shown.length - 1) / 2)];
    console.log(`${name.padEnd(42)} paint: median ${paint(0.5)}, most ${paint(1)}; there: median ${there.toFixed(0)}`);
  }
}

(async () => {
  project();
  const { host, url } = await serve(process.argv[2] ?? "target/debug/valvehouse");
  const until = { over: false };
  const sent = traffic(url, until);
  try {
    const rows = await measure(url);
    until.over = true;
    report(rows, await sent);
  } finally {
    until.over = true;
    host.kill();
    fs.rmSync(folder, { recursive: true, force: true });
  }
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
