// Requests are seen while they run and afterwards; a chat is tried, and every difference is shown.

const { assert, chat, open, run, until, url } = require("./page.cjs");

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

  "requests are filtered by their model, user, plugin and status": async (browser) => {
    await chat("one", { user: "ann" });
    await chat("forbidden", { user: "bob" });
    const page = await open(browser, "#/requests");
    const rows = page.locator("table.requests tbody tr");
    await page.getByText("Live", { exact: true }).waitFor();
    const titles = await page.locator("table.requests thead th").allInnerTexts();
    for (const title of ["Endpoint", "Provider", "Tokens", "Cost", "First token", "Duration", "Status"]) assert.ok(titles.includes(title), title);
    await until("both are listed", async () => await rows.count() >= 2);
    const all = await rows.count();
    const only = async (label, value, word) => {
      await page.getByLabel(label, { exact: true }).selectOption(value);
      await until(`${label} ${value}`, async () => (await rows.count()) > 0 && (await rows.allInnerTexts()).every((text) => text.includes(word)));
      await page.getByLabel(label, { exact: true }).selectOption("");
      await until("all are back", async () => await rows.count() >= all);
    };
    await only("User", "bob", "bob");
    await only("Status", "failed", "400");
    await only("Model", "demo", "demo");
    await only("Plugin", "marks", "demo");
    page.hasBehaved();
  },

  "a request is copied as a command and opened in the test chat": async (browser) => {
    const page = await open(browser, "#/requests");
    await page.context().grantPermissions(["clipboard-read", "clipboard-write"]);
    await page.getByText("Live", { exact: true }).waitFor();
    const headers = { "content-type": "application/json", "x-valvehouse-trace": "content" };
    await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body: JSON.stringify({ model: "demo", stream: true, user: "carol", messages: [{ role: "user", content: "it's late" }] }) }).then((answer) => answer.text());
    await page.locator("table.requests tbody tr", { hasText: "carol" }).getByRole("link").first().click();
    await page.getByRole("heading", { name: /^Request / }).waitFor();
    const end = page.locator(".step", { hasText: "stream_end" });
    assert.ok(await end.count() > 0 && !(await end.first().innerText()).includes("changed"), "the end of a stream without events is not a change");
    await page.locator(".step .bar .waits").first().waitFor({ state: "attached" });
    await page.getByRole("button", { name: "Copy as curl" }).click();
    await page.getByText("Copied.").waitFor();
    const command = await page.evaluate(() => navigator.clipboard.readText());
    assert.ok(command.startsWith(`curl ${url}/v1/chat/completions`) && command.includes("it'\\''s late"), command);
    await page.getByRole("button", { name: "Open in test chat" }).click();
    await until("its message waits", async () => (await page.getByLabel("Message").inputValue()) === "it's late");
    assert.equal(await page.getByLabel("User id").inputValue(), "carol");
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
