// The overview says in its first line whether requests are answered, shows the use as curves, and leads to the requests.

const { assert, chat, file, fs, open, run, shot, until } = require("./page.cjs");

// The first line of a host that answers, whose earlier requests were refused.
const ANSWERS = /Everything is answered|in the last five minutes/;
const GUARD = fs.readFileSync(file("filters/guard.rhai"), "utf8");

run({
  "the first line says whether requests are answered, and the fix": async (browser) => {
    const page = await open(browser, "#/");
    const status = page.locator(".status");
    await status.getByText("Everything is answered").waitFor();
    await status.getByText("No problems.").waitFor();
    fs.unlinkSync(file("filters/guard.rhai"));
    await status.getByText("All requests to demo are refused: guard guard is missing").waitFor();
    await status.getByText("valvehouse confirm guard").waitFor();
    assert.equal((await chat("hi")).status, 503);
    await shot(page, "refused");
    await status.getByRole("link", { name: "guard" }).click();
    await page.getByRole("heading", { name: "House guard" }).waitFor();
    fs.writeFileSync(file("filters/guard.rhai"), GUARD);
    await page.getByRole("link", { name: "Overview" }).click();
    await status.getByText("1 of 1 request failed in the last five minutes").waitFor();
    await status.getByRole("link", { name: "Look at the failed requests" }).click();
    await page.locator("table.requests tbody tr", { hasText: "503" }).waitFor();
    page.hasBehaved();
  },

  "a point of a curve opens the requests of its minute": async (browser) => {
    for (const word of ["one", "two", "three"]) await chat(word, { user: "ann" });
    const page = await open(browser, "#/");
    await until("five curves are drawn", async () => (await page.locator(".curve canvas").count()) === 5);
    await until("the sums are shown", async () => /Requests\s+[3-9]/.test(await page.locator(".figures").first().innerText()));
    const plot = page.locator(".curve .u-over").first();
    const { width } = await plot.boundingBox();
    await plot.hover({ position: { x: width - 1, y: 30 } });
    const times = () => page.locator(".curve .u-legend .u-series:first-child .u-value").allTextContents();
    await until("all curves show one moment", async () => (await times())[0] !== "" && new Set(await times()).size === 1);
    await plot.click({ position: { x: width - 1, y: 30 } });
    await page.getByText("Requests that began within 1 min").waitFor();
    assert.match(page.url(), /#\/requests\/at\/\d+\/60$/);
    await page.getByRole("link", { name: "Show all requests" }).click();
    await until("all are shown", async () => await page.locator("table.requests tbody tr", { hasText: "ann" }).count() >= 3);
    page.hasBehaved();
  },

  "the keyboard moves the cursor, and a minute whose requests are gone says so": async (browser) => {
    const page = await open(browser, "#/");
    const slider = page.getByLabel("Moment");
    await until("curves are drawn", async () => (await slider.getAttribute("aria-valuetext"))?.includes("requests"));
    const before = await slider.getAttribute("aria-valuetext");
    await slider.focus();
    await page.keyboard.press("Home");
    assert.notEqual(await slider.getAttribute("aria-valuetext"), before);
    await page.getByRole("button", { name: "Show its requests" }).click();
    await page.getByText("They are no longer held").waitFor();
    page.hasBehaved();
  },

  "a change of a valve is a mark in the curves": async (browser) => {
    const page = await open(browser, "#/plugins/counts");
    await page.getByRole("switch", { name: "Loud" }).check();
    await page.locator("[data-valve=loud] .outcome", { hasText: "Saved" }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    const changes = page.getByRole("region", { name: "Changes" });
    await changes.getByText("counts settings changed: loud").waitFor();
    await changes.getByText("the host started").waitFor();
    await page.getByLabel("Last 30 days").check();
    await until("the longer time is drawn", async () => (await page.getByLabel("Moment").getAttribute("max")) === "119");
    page.hasBehaved();
  },

  "a host that is away is said to be away": async (browser) => {
    const page = await open(browser, "#/", { forgives: (line) => line.includes("ERR_INTERNET_DISCONNECTED") });
    await page.locator(".status", { hasText: ANSWERS }).waitFor();
    await page.context().setOffline(true);
    await page.locator(".status", { hasText: "The host does not answer" }).waitFor();
    await shot(page, "away");
    await page.context().setOffline(false);
    await page.locator(".status", { hasText: ANSWERS }).waitFor();
    page.hasBehaved();
  },
});
