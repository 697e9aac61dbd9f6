// Requests are seen while they run and afterwards; a chat is tried, and every difference is shown.

const { assert, chat, open, run, until } = require("./page.cjs");

run({
  "requests appear live": async (browser) => {
    const page = await open(browser, "#/requests");
    await page.getByText("Live", { exact: true }).waitFor();
    const rows = page.locator("table.requests tbody tr");
    const before = await rows.count();
    for (const word of ["one", "two", "three"]) await chat(word, { user: `user-${word}` });
    await until("they are listed", async () => await rows.count() >= before + 3);
    const newest = /demo[^]*user-three[^]*200/;
    await until("the newest is first and has ended", async () => newest.test(await rows.first().innerText()));
    await page.getByLabel("Find").fill("user-two");
    await until("the list is searched", async () => await rows.count() === 1);
    await rows.first().getByRole("link").click();
    await page.getByRole("heading", { name: /^Request / }).waitFor();
    await page.locator(".step", { hasText: "inlet" }).first().waitFor();
    assert.ok(!(await page.locator(".detail").innerText()).includes("two,"), "contents are not kept unasked");
    page.hasBehaved();
  },

  "a running request is shown until it ends": async (browser) => {
    const page = await open(browser, "#/requests");
    await page.getByText("Live", { exact: true }).waitFor();
    const slow = chat("wait", { model: "mock-1", user: "slow" });
    const row = page.locator("table.requests tbody tr", { hasText: "slow" });
    await row.filter({ hasText: "running" }).waitFor();
    await row.filter({ hasText: "200" }).waitFor();
    assert.equal((await slow).status, 200);
    page.hasBehaved();
  },

  "a test chat shows the changes of each hook": async (browser) => {
    const page = await open(browser, "#/try");
    await page.getByLabel("Model").fill("demo");
    await page.getByLabel("Message").fill("good morning");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("heading", { name: "Answer" }).waitFor();
    assert.match(await page.locator(".answer").innerText(), /good morning \(seen\)/);
    const inlet = page.locator(".step", { hasText: "inlet" }).first();
    assert.match(await inlet.innerText(), /operations/);
    const added = inlet.locator("pre.added");
    assert.match(await added.first().innerText(), /good morning \(seen\)/);
    assert.equal(await added.first().locator("mark").innerText(), " (seen)");
    page.hasBehaved();
  },

  "a rejected chat shows the reason and the steps so far": async (browser) => {
    const page = await open(browser, "#/try", { forgives: (line) => line.includes("400") && line.includes("/api/v1/try") });
    await page.getByLabel("Message").fill("forbidden");
    await page.getByRole("button", { name: "Send" }).click();
    await page.getByRole("heading", { name: "Rejected with status 400" }).waitFor();
    assert.match(await page.locator(".view-try .wrong").first().innerText(), /not in this house/);
    await page.locator(".step", { hasText: "rejected" }).first().waitFor();
    page.hasBehaved();
  },

  "contents are recorded after they are enabled, and can be replayed": async (browser) => {
    const page = await open(browser, "#/plugins/marks");
    await page.getByRole("switch", { name: "Record contents in traces" }).check();
    await page.getByText("New traces record the contents").waitFor();
    await chat("keep this", { user: "keeper" });
    await page.getByRole("link", { name: "Requests", exact: true }).click();
    await page.locator("table.requests tbody tr", { hasText: "keeper" }).getByRole("link").first().click();
    await page.locator(".step pre.added", { hasText: "keep this (seen)" }).first().waitFor();
    await page.getByRole("button", { name: "Replay" }).click();
    await page.locator(".detail .badge", { hasText: "same" }).first().waitFor();
    page.hasBehaved();
  },
});
