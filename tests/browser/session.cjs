// Where a key is needed, nothing is shown without it.

const { assert, open, run, signIn, until } = require("./page.cjs");

const KEY = process.env.VALVEHOUSE_TEST_KEY;

run({
  "a wrong key is rejected, the right one signs in, and signing out ends the session": async (browser) => {
    const page = await open(browser, "#/plugins/marks", { forgives: (line) => line.includes("/api/v1/session") });
    const asked = [];
    page.on("request", (request) => asked.push(request.url()));
    await page.getByLabel("Admin key").fill("no such key");
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").filter({ hasText: "Cannot sign in" }).waitFor();
    assert.ok(!(await page.content()).includes("marks.rhai"), "nothing is shown to strangers");
    await signIn(page, KEY);
    await page.getByRole("heading", { name: "marks" }).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    assert.ok(!(await page.content()).includes(KEY), "the key is not kept in the page");
    assert.ok(!asked.some((address) => address.includes(KEY)), "the key is in no address");
    await page.reload();
    await page.getByRole("heading", { name: "marks" }).waitFor();
    await page.getByRole("switch", { name: "On", exact: true }).uncheck();
    await page.locator(".detail .badge", { hasText: "off" }).first().waitFor();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.getByLabel("Admin key").waitFor();
    await page.reload();
    await page.getByLabel("Admin key").waitFor();
    await until("the stream of events is closed", async () => (await page.locator("#connection").innerText()).includes("Signed out"));
    page.hasBehaved();
  },
});
