// An operator's day: a key for one model with a limit, its use, a request by its id, a new secret, a guard on trial, and a
// team that shares a budget.

const { assert, chat, open, run, shot, signIn, until } = require("./page.cjs");

const KEY = process.env.VALVEHOUSE_TEST_KEY;

run({
  "a key is limited, seen in the usage and replaced, its request found, and a guard tried": async (browser) => {
    const page = await open(browser, "#/keys");
    await signIn(page, KEY);
    const form = page.locator("form.card");
    await form.getByLabel("Name", { exact: true }).fill("@research");
    await form.getByLabel("Tokens per month").fill("1000000");
    await form.getByRole("button", { name: "Create key" }).click();
    await page.getByRole("row", { name: /@research/ }).waitFor();
    await form.getByLabel("Name", { exact: true }).fill("ci");
    await form.getByLabel("Group", { exact: true }).fill("research");
    await form.getByLabel("Models").fill("fast");
    await form.getByRole("button", { name: "Create key" }).click();
    const shown = page.getByLabel("The key of ci, which is shown only now");
    const first = await shown.inputValue();
    const smart = await chat("hi", { key: first, model: "smart" });
    assert.equal(smart.status, 404, smart.error);
    const answer = await chat("hi", { key: first, model: "fast" });
    assert.equal(answer.status, 200, answer.error);
    assert.equal((await chat("bad", { key: first, model: "fast" })).status, 403);

    // A lower limit for the same secret.
    await page.getByRole("button", { name: "Change ci" }).click();
    await form.getByLabel("Requests per minute").fill("1");
    await form.getByRole("button", { name: "Save" }).click();
    await page.getByRole("row", { name: /ci .*1 requests\/min/ }).waitFor();
    await until("it is limited", async () => (await chat("hi", { key: first, model: "fast" })).status === 429);

    await page.getByRole("link", { name: "Usage" }).click();
    await page.getByLabel("Time", { exact: true }).selectOption("1h");
    await page.getByLabel("Group", { exact: true }).selectOption("key");
    await until("its usage is shown", async () => /^ci\s+\d/m.test(await page.locator("table.usage").innerText()));
    await shot(page, "day-usage");

    await page.goto(new URL(`#/requests/${answer.id}`, page.url()).href);
    await page.getByRole("heading", { name: `Request ${answer.id}` }).waitFor();
    await until("it names the key", async () => /^ci$/m.test(await page.locator("main").innerText()));
    await shot(page, "day-request");

    await page.getByRole("link", { name: "Keys" }).click();
    await page.getByRole("button", { name: "Rotate ci" }).click();
    await page.getByRole("button", { name: "Rotate", exact: true }).click();
    await until("there is a new secret", async () => ![first, ""].includes(await shown.inputValue()));
    assert.equal((await chat("hi", { key: first, model: "fast" })).status, 401);
    assert.notEqual((await chat("hi", { key: await shown.inputValue(), model: "fast" })).status, 401);
    await shot(page, "day-keys");

    // A guard on trial refuses nobody, and says so.
    assert.equal((await chat("bad", { key: KEY, model: "fast" })).status, 403);
    await page.goto(new URL("#/plugins/guard", page.url()).href);
    const audit = page.getByRole("switch", { name: "Audit mode" });
    await audit.check();
    await until("it refuses nobody", async () => (await chat("bad", { key: KEY, model: "fast" })).status === 200);
    await page.getByText("audit mode").first().waitFor();
    await shot(page, "day-audit");
    await audit.uncheck();
    await until("it guards again", async () => (await chat("bad", { key: KEY, model: "fast" })).status === 403);
    page.hasBehaved();
  },
});
