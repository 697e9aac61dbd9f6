// An operator whom a proxy in front of the host has signed in is asked for nothing.

const { assert, open, run } = require("./page.cjs");

const at = (user) => ({ extraHTTPHeaders: { "x-forwarded-email": user, "x-forwarded-for": "203.0.113.5" } });

run({
  "the page shows the operator's name, changes settings, and leaves signing out to the proxy": async (browser) => {
    const page = await open(browser, "#/plugins/marks", at("ann@example.org"));
    await page.getByRole("heading", { name: "marks" }).waitFor();
    await page.getByText("proxy (ann@example.org)", { exact: true }).waitFor();
    await page.getByText("Live", { exact: true }).waitFor();
    assert.ok(await page.getByLabel("Admin key").count() === 0, "it asks for no key");
    await page.getByRole("switch", { name: "On", exact: true }).uncheck();
    await page.locator(".detail .badge", { hasText: "off" }).first().waitFor();
    await page.setViewportSize({ width: 390, height: 800 });
    const width = await page.evaluate(() => document.documentElement.scrollWidth);
    assert.ok(width <= 390, `the page is ${width} wide`);
    // The page of the proxy has no icon.
    page.hasBehaved();
    await page.getByRole("button", { name: "Sign out" }).click();
    await page.waitForURL("**/livez");
  },
  "somebody without a role reads why, and can sign in with a key": async (browser) => {
    const page = await open(browser, "#/", at("dan@example.org"));
    await page.getByText("signed in at the proxy and has no role at this host").waitFor();
    await page.getByLabel("Admin key").waitFor();
    page.hasBehaved();
  },
});
