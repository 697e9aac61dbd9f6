// A page of a host in the system's browser, and what every look at it has to keep to: nothing goes wrong
// in its console, and it asks nobody but its own host.

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { chromium } = require("playwright-core");

// Nothing that is waited for may take longer. Generous: machines are slow at times.
const TIMEOUT = 60_000;
const [, , url, folder] = process.argv;
const SHOTS = process.env.VALVEHOUSE_SCREENSHOTS ?? path.join(__dirname, "../../target/screenshots");

// Opens a browser, does what is to be done, and closes it, however that ends.
async function withBrowser(act) {
  // Whoever is root has no other way than without the browser's own sandbox.
  const args = process.getuid?.() === 0 ? ["--no-sandbox"] : [];
  const browser = await chromium.launch({ executablePath: process.env.VALVEHOUSE_BROWSER ?? "/usr/bin/chromium", args, timeout: TIMEOUT });
  try {
    await act(browser);
  } finally {
    await browser.close();
  }
}

// A page at a place, with whoever watches it. `forgives` says which lines of the console are no harm.
async function open(browser, place = "#/", { forgives = () => false, ...options } = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(TIMEOUT);
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (line) => {
    const text = `${line.text()} ${line.location().url}`;
    if (["error", "warning"].includes(line.type()) && !forgives(text)) wrong.push(text);
  });
  page.on("pageerror", (error) => wrong.push(`${error.stack}`));
  page.on("request", (request) => {
    const { origin, protocol } = new URL(request.url());
    if (origin !== new URL(url).origin && protocol !== "data:") wrong.push(`asks somebody else: ${request.url()}`);
  });
  page.hasBehaved = () => assert.deepStrictEqual(wrong, []);
  await page.goto(`${url}/${place}`);
  return page;
}

// Signs in with an operator's key.
async function signIn(page, key) {
  await page.getByLabel("Admin key").fill(key);
  await page.keyboard.press("Enter");
}

// Looks again and again until something is so.
async function until(what, isSo) {
  const end = Date.now() + TIMEOUT;
  let last;
  while (Date.now() < end) {
    try {
      const is = await isSo();
      if (is) return is;
      last = is;
    } catch (error) {
      last = error;
    }
    await new Promise((next) => setTimeout(next, 50));
  }
  throw new Error(`waited in vain: ${what}; last: ${last?.stack ?? JSON.stringify(last)}`);
}

// What a model answers, past the page.
async function chat(text, more = {}) {
  const body = { model: "demo", messages: [{ role: "user", content: text }], ...more };
  const headers = { "content-type": "application/json", ...(more.key ? { authorization: `Bearer ${more.key}` } : {}) };
  delete body.key;
  const response = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify(body) });
  const answer = await response.json();
  return { status: response.status, id: response.headers.get("x-valvehouse-trace"), text: answer.choices?.[0]?.message.content, error: answer.error?.message };
}

// A plugin's file, as an editor on the machine sees it.
const file = (name) => path.join(folder, name);

async function shot(page, name) {
  fs.mkdirSync(SHOTS, { recursive: true });
  // What sticks to the top of the window stands at the top of the picture.
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: path.join(SHOTS, `${name}.png`), fullPage: true });
}

// Runs one story after the other and says which one failed.
async function stories(all) {
  await withBrowser(async (browser) => {
    for (const [name, story] of Object.entries(all)) {
      try {
        await story(browser);
      } catch (error) {
        for (const context of browser.contexts()) {
          for (const page of context.pages()) await shot(page, "failed").catch(() => {});
        }
        throw new Error(`${name}: ${error.stack}`);
      }
      for (const context of browser.contexts()) await context.close();
    }
    console.log(`${Object.keys(all).length} stories, all well`);
  });
}

function run(all) {
  stories(all).catch((error) => {
    console.error(error.message);
    process.exit(1);
  });
}

module.exports = { TIMEOUT, assert, chat, file, fs, open, run, shot, signIn, until, url };
