// Models and providers: what is configured, how it is, and its use; a provider that is down, keys at rest and a refused model.

const { assert, chat, file, fs, open, run, shot, until, url } = require("./page.cjs");

const card = (page, name) => page.getByRole("region", { name, exact: true });
const row = (page, name) => page.getByRole("row", { name: new RegExp(`^${name} `) });

async function views(page, name) {
  for (const width of [1280, 390]) {
    await page.setViewportSize({ width, height: 900 });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForTimeout(100);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth) <= width, `${name} overflows at ${width}`);
      await shot(page, `${name}-${width}-${colorScheme}`);
    }
  }
  await page.setViewportSize({ width: 1280, height: 900 });
}

run({
  "providers are listed with the models that they serve": async (browser) => {
    for (const text of ["one", "two", "three"]) await chat(text, { model: "fast" });
    const page = await open(browser, "#/models");
    await page.getByText("4 providers · 43 models").waitFor();
    const fast = row(page, "fast");
    await until("the use is shown", async () => /\b3\s+0\s+[\d.]+ m?s/.test(await fast.innerText()));
    assert.match(await fast.innerText(), /as mock-1, falls back to demo\/demo[^]*house, trial[^]*audit mode[^]*0\.5 \/ 1\.5[^]*9,000/);
    assert.match(await card(page, "mock").innerText(), /used[^]*openai · 127\.0\.0\.1:\d+/);
    assert.match(await card(page, "demo").innerText(), /in this process[^]*Fallback of fast/);
    assert.match(await card(page, "open").innerText(), /clients pay with their own keys[^]*any model of the service as open\/NAME/);
    await views(page, "models-list");
    await page.getByLabel("Find").fill("many_7");
    await until("one is left", async () => await page.locator(".served tbody tr:visible").count() === 1);
    page.hasBehaved();
  },

  "the keyboard opens a model: its facts, times, errors, chain and requests": async (browser) => {
    const page = await open(browser, "#/models");
    const link = row(page, "fast").getByRole("link", { name: "fast" });
    await link.focus();
    const polled = () => page.waitForResponse((response) => response.url().includes("/api/v1/usage"));
    await chat("again", { model: "fast" });
    await Promise.all([polled(), page.getByLabel("Last 24 hours").evaluate((box) => box.click())]);
    await until("its use has changed", async () => /\b4\s+0\s/.test(await row(page, "fast").innerText()));
    assert.ok(await link.evaluate((link) => link === document.activeElement), "the focus stays");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "fast", level: 1 }).waitFor();
    await page.getByLabel("Last hour").check();
    await until("two curves are drawn", async () => await page.locator(".curve canvas").count() === 2);
    const slider = page.getByLabel("Moment");
    await until("the moment has its times", async () => /requests \d+, errors 0, refusals 0, p50 .+, p95 .+, first token/.test(await slider.getAttribute("aria-valuetext")));
    assert.match(await page.locator(".figures.small").innerText(), /mock-1[^]*demo\/demo[^]*0\.5 \/ 1\.5/);
    await page.locator(".chain .stage").first().waitFor();
    await views(page, "model");
    await page.getByRole("button", { name: "Show its requests" }).click();
    await page.getByText("Requests that began within 1 min").waitFor();
    assert.equal(await page.getByLabel("Model", { exact: true }).inputValue(), "fast");
    page.hasBehaved();
  },

  "a provider that is down says why and when it is tried again, and comes back": async (browser) => {
    assert.equal((await chat("fail", { model: "many_1" })).status, 500);
    const page = await open(browser, "#/models");
    const mock = card(page, "mock");
    await mock.getByText("A circuit breaker is open.").waitFor();
    assert.match(await mock.innerText(), /The next one is tried (in \d+ s|at once)[^]*Opened by: model mock-1: [^]*Last failure \d[^]*out of order/);
    await page.getByText("1 open breaker").waitFor();
    await views(page, "provider-down");
    await page.getByRole("link", { name: "Overview" }).click();
    await page.getByRole("link", { name: "mock: breaker open" }).click();
    await until("the service answers again", async () => (await chat("hi", { model: "many_1" })).status === 200);
    await mock.getByText("used", { exact: true }).waitFor();
    await mock.getByText("Last failure").waitFor();
    await mock.getByRole("link", { name: "mock", exact: true }).click();
    await page.getByRole("heading", { name: "mock", level: 1 }).waitFor();
    await until("its errors are drawn", async () => /Errors\s+[1-9]/.test(await page.locator(".figures").first().innerText()));
    await views(page, "provider");
    page.hasBehaved();
  },

  "a key at rest is named with the end of its rest": async (browser) => {
    await until("both keys were used", async () => { await chat("hi", { model: "fleet-1" }); return (await chat("hi", { model: "fleet-1" })).status === 200; });
    const page = await open(browser, "#/models/fleet");
    const keys = page.getByRole("list", { name: "Keys and deployments" }).getByRole("listitem");
    await until("it rests", async () => /^key 2\s+at rest\s+for 4\d min( \d+ s)?, until \d\d:\d\d:\d\d; 1 request$/.test(await keys.nth(1).innerText()));
    assert.match(await keys.nth(0).innerText(), /^key 1\s+ready/);
    await views(page, "keys-at-rest");
    page.hasBehaved();
  },

  "a model that is refused for everybody has the sentence of /readyz": async (browser) => {
    const page = await open(browser, "#/models");
    const late = fs.readFileSync(file("filters/late.rhai"), "utf8");
    fs.unlinkSync(file("filters/late.rhai"));
    const reason = await until("it is refused", async () => (await (await fetch(`${url}/readyz`)).json()).reason);
    await row(page, "guarded").getByText(reason.replaceAll("`", "")).waitFor();
    await page.getByText("1 model refused for everybody").waitFor();
    await shot(page, "models-refused");
    fs.writeFileSync(file("filters/late.rhai"), late);
    await until("it is answered", async () => !(await row(page, "guarded").innerText()).includes("are refused"));
    page.hasBehaved();
  },

  "a project without a service shows the next step": async (browser) => {
    const page = await open(browser, "#/");
    await page.route("**/api/v1/overview", async (route) => {
      const overview = await (await route.fetch()).json();
      const isDemo = ({ provider, name }) => (provider ?? name) === "demo";
      await route.fulfill({ json: { ...overview, models: overview.models.filter(isDemo), providers: overview.providers.filter(isDemo) } });
    });
    await page.goto(`${url}/#/models`);
    await page.getByRole("heading", { name: "The next step" }).waitFor();
    await page.getByText("[[providers]]").waitFor();
    await views(page, "models-empty");
    page.hasBehaved();
  },
});
