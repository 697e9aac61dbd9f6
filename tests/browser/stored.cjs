// Stored requests are listed in pages, selected at the host and opened.

const { assert, open, run, shot, until } = require("./page.cjs");

run({
  "stored requests are listed in pages, selected and opened": async (browser) => {
    const page = await open(browser, "#/requests");
    const rows = page.locator("table.requests tbody tr");
    await until("the latest are listed", async () => await rows.count() === 100);
    const more = page.getByRole("button", { name: "Show more" });
    for (let count = 200; count <= 1200; count += 100) {
      await more.click();
      await until(`${count} are listed`, async () => await rows.count() >= count);
    }
    await shot(page, "stored");
    await page.getByLabel("Slower than (ms)").fill("90000");
    await page.getByLabel("Slower than (ms)").press("Enter");
    await until("one is selected", async () => await rows.count() === 1);
    assert.match(await rows.first().innerText(), /oldest/);
    await rows.first().getByRole("link").click();
    await page.getByRole("heading", { name: /^Request / }).waitFor();
    await page.locator(".step", { hasText: "inlet" }).first().waitFor();
    page.hasBehaved();
  },

  "the earliest request is found by its time": async (browser) => {
    const page = await open(browser, "#/requests");
    const rows = page.locator("table.requests tbody tr");
    await until("the latest are listed", async () => await rows.count() === 100);
    await page.getByLabel("To", { exact: true }).fill("2001-01-01T00:00");
    await page.getByLabel("To", { exact: true }).press("Enter");
    await until("one is selected", async () => await rows.count() === 1);
    assert.match(await rows.first().innerText(), /oldest/);
    page.hasBehaved();
  },
});
