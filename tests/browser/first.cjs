// An empty project shows the next three steps until there are plugins and requests.

const { assert, chat, open, run, shot, until } = require("./page.cjs");

run({
  "an empty project shows the next three steps": async (browser) => {
    const page = await open(browser, "#/");
    const steps = page.getByRole("region", { name: "First steps" });
    await steps.getByRole("heading", { name: "The next three steps" }).waitFor();
    assert.equal(await steps.getByRole("listitem").count(), 3);
    await steps.getByRole("heading", { name: "Connect a service (done)" }).waitFor();
    await shot(page, "first-steps");
    await steps.getByRole("link", { name: "Write one here" }).click();
    await page.getByLabel("Id", { exact: true }).fill("fresh");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "My filter" }).waitFor();
    await page.getByRole("link", { name: "Overview" }).click();
    await steps.getByRole("heading", { name: "Add a plugin (done)" }).waitFor();
    await chat("hello");
    await until("the steps are gone", async () => !(await steps.isVisible()));
    page.hasBehaved();
  },
});
