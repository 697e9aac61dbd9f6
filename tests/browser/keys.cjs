// An operator hands out a key, sees what it used as curves and sums, and revokes it.

const { assert, chat, open, run, shot, signIn, until } = require("./page.cjs");

const KEY = process.env.VALVEHOUSE_TEST_KEY;

run({
  "a key is created, limited, seen in the usage, rotated and revoked": async (browser) => {
    const page = await open(browser, "#/keys");
    await signIn(page, KEY);
    await page.getByText("No keys are stored").waitFor();
    const form = page.locator("form.card");
    await form.getByLabel("Name", { exact: true }).fill("ci");
    await form.getByLabel("User", { exact: true }).fill("ann");
    await form.getByLabel("Models").fill("demo, fast");
    await form.getByLabel("Requests per minute").fill("3");
    await form.getByRole("button", { name: "Create key" }).click();
    const shown = page.getByLabel("The key of ci, which is shown only now");
    const first = await shown.inputValue();
    assert.ok(first.startsWith("vh-"), first);
    for (const status of [200, 200, 200, 429]) {
      assert.equal((await chat("hello", { key: first })).status, status);
    }
    await page.getByRole("button", { name: "Done" }).click();
    assert.ok(!(await page.content()).includes(first), "the key is shown once");
    const row = page.getByRole("row", { name: /ci/ });
    await page.reload();
    await until("its use is shown", async () => /[1-9]\d* tokens/.test(await row.innerText()));
    await shot(page, "keys");

    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByLabel("Time", { exact: true }).selectOption("1h");
    await page.getByLabel("Group", { exact: true }).selectOption("key");
    // With the refused one.
    await until("the usage of the key is shown", async () => /^ci\s+4\b/m.test(await page.locator("table.usage").innerText()));
    await until("five curves are drawn", async () => (await page.locator(".curve canvas").count()) === 5);
    const plot = page.locator(".curve .u-over").first();
    let x = 100;
    await until("all curves show the same moment", async () => {
      // New numbers or another width end what the cursor shows.
      await plot.hover({ position: { x: x++, y: 20 } });
      const times = await page.locator(".curve .u-legend .u-series:first-child .u-value").allInnerTexts();
      return times.length === 5 && times[0] !== "" && new Set(times).size === 1;
    });
    await shot(page, "usage");

    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("button", { name: "Rotate ci" }).click();
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    await until("there is a new key", async () => (await shown.inputValue()) !== first);
    assert.equal((await chat("hello", { key: first })).status, 401);
    await page.getByRole("button", { name: "Revoke ci" }).click();
    await page.getByRole("button", { name: "Revoke", exact: true }).click();
    await until("it is revoked", async () => (await row.innerText()).includes("revoked"));
    page.hasBehaved();
  },

  "what cannot be created says why": async (browser) => {
    const page = await open(browser, "#/keys", { forgives: (line) => line.includes("/api/v1/keys") || line.includes("/api/v1/session") });
    await signIn(page, KEY);
    const form = page.locator("form.card");
    await form.getByLabel("Name", { exact: true }).fill("ci2");
    await form.getByLabel("Models").fill("a*b");
    await form.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("alert").filter({ hasText: "invalid model" }).waitFor();
    page.hasBehaved();
  },
});
