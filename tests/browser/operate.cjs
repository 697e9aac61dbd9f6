// A host with 60 plugins is operated: their order, the settings of the host, and the runs of its agents.

const { assert, file, fs, open, run, shot, until, url } = require("./page.cjs");

const titles = (page) => page.locator(".list .title").allInnerTexts();

async function ordered(browser) {
  const page = await open(browser, "#/plugins");
  await page.getByLabel("Sort by").selectOption("priority");
  return page;
}

run({
  "the running order of 60 plugins is changed by number, by key and by dragging": async (browser) => {
    const page = await ordered(browser);
    await page.getByText("62 plugins").waitFor();
    await until("numbers sort as numbers", async () => (await titles(page)).slice(0, 4).join() === "filter_0,filter_1,filter_2,filter_3");
    await page.getByLabel("Order of filter_0", { exact: true }).fill("-950");
    await page.keyboard.press("Enter");
    await until("it is behind the second", async () => (await titles(page)).slice(0, 3).join() === "filter_1,filter_2,filter_0");
    await page.getByRole("button", { name: "Undo" }).click();
    await until("it is the first again", async () => (await titles(page))[0] === "filter_0");
    // The keyboard moves it, and the focus moves along.
    const later = page.getByRole("button", { name: "Run filter_0 later" });
    await later.focus();
    await page.keyboard.press("Enter");
    await until("it is the second", async () => (await titles(page)).slice(0, 3).join() === "filter_1,filter_0,filter_2");
    assert.ok(await later.evaluate((button) => button === document.activeElement));
    await page.locator(".list li", { hasText: "filter_3" }).first().dragTo(page.locator(".list li", { hasText: "filter_1" }).first());
    await until("it is the first", async () => (await titles(page)).slice(0, 3).join() === "filter_3,filter_1,filter_0");
    await shot(page, "order");
    await page.goto(new URL("#/plugins/filter_3/history", page.url()).href);
    await page.getByText("settings changed: priority").first().waitFor();
    page.hasBehaved();
  },

  "the order of a filter without a valve is written into its file": async (browser) => {
    const page = await ordered(browser);
    await page.getByLabel("Find").fill("plain");
    await page.getByLabel("Order of plain", { exact: true }).fill("-5000");
    await page.keyboard.press("Enter");
    await until("the file has it", () => fs.readFileSync(file("filters/plain.rhai"), "utf8").startsWith("/*\npriority: -5000\n"));
    await page.getByLabel("Find").fill("");
    await until("it is the first", async () => (await titles(page))[0] === "plain");
    page.hasBehaved();
  },

  "the settings are found with their origin": async (browser) => {
    const page = await open(browser, "#/settings");
    await page.getByRole("row", { name: /^server\.max_body_mb/ }).waitFor();
    await shot(page, "settings");
    await page.getByLabel("Find").fill("max_body");
    const row = page.getByRole("row", { name: /^server\.max_body_mb/ });
    assert.match(await row.innerText(), /\b9\b[^]*file[^]*valvehouse\.toml:\d+:\d+[^]*at the next start/);
    assert.equal(await page.locator("table.settings tbody tr").count(), 1);
    await page.getByLabel("Find").fill("");
    await page.getByLabel("Show").selectOption("set");
    await until("those of the file are left", async () => !(await page.locator("table.settings").allInnerTexts()).join().includes("default\n"));
    assert.ok(!(await page.content()).includes("hidden-word"), "secrets are masked");
    page.hasBehaved();
  },

  "a run that waits is decided, and its conversation is shown": async (browser) => {
    const begun = await fetch(`${url}/api/v1/agents/clerk/runs`, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ input: "count please", chat_id: "c1", user: "ann" }) });
    const { run_id: id, status } = await begun.json();
    assert.equal(status, "paused");
    const page = await open(browser, "#/runs");
    const row = page.getByRole("row", { name: /clerk/ });
    await row.waitFor();
    assert.match(await row.innerText(), /paused\s+clerk\s+ann\s+c1\s+\d+[^]*May counter run with \{\}\?/);
    await shot(page, "runs");
    await row.getByRole("link").click();
    await page.getByRole("heading", { name: `Run ${id}` }).waitFor();
    await shot(page, "run");
    await page.getByRole("button", { name: "Approve" }).click();
    await page.locator(".turn", { hasText: "the count is 1" }).waitFor();
    await page.locator(".turn", { hasText: "counted" }).waitFor();
    await page.locator(".badge", { hasText: "done" }).waitFor();
    await page.getByRole("link", { name: "← All runs" }).click();
    await page.getByLabel("Status").selectOption("paused");
    await page.getByText("No runs.").waitFor();
    page.hasBehaved();
  },
});
