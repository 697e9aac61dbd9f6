// What waits for an operator: a change that weakens a guard, and values of a plugin that was removed.

const { assert, chat, file, fs, open, run, until, url } = require("./page.cjs");

const GUARD = fs.readFileSync(file("filters/guard.rhai"), "utf8");
const KEEPS = fs.readFileSync(file("filters/keeps.rhai"), "utf8");

async function api(method, path, body) {
  const response = await fetch(`${url}/api/v1/functions/id/${path}`, {
    method, headers: { "content-type": "application/json" }, body: body && JSON.stringify(body),
  });
  assert.equal(response.status, 200, `${path}: ${await response.text()}`);
}

run({
  "a change that weakens a guard waits until it is accepted on the page": async (browser) => {
    const page = await open(browser, "#/");
    await page.getByText("Live", { exact: true }).waitFor();
    fs.writeFileSync(file("filters/guard.rhai"), GUARD.replace("fn inlet", "fn looks"));
    const problem = page.locator(".problem", { hasText: "guard" });
    await problem.filter({ hasText: "needs confirmation" }).waitFor();
    assert.match(await problem.innerText(), /would lose the hook `inlet`[^]*valvehouse confirm guard/);
    assert.equal((await chat("bad")).status, 403, "the last good version runs on");
    await problem.getByRole("button", { name: "Accept the change" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assert.equal((await chat("bad")).status, 403, "nothing was accepted");
    await problem.getByRole("button", { name: "Accept the change" }).click();
    await dialog.getByRole("button", { name: "Accept the change" }).click();
    await problem.filter({ hasText: "needs confirmation" }).waitFor({ state: "detached" });
    await until("the change is live", async () => (await chat("bad")).status === 200);
    page.hasBehaved();
  },

  "values of a removed plugin are adopted on the page": async (browser) => {
    await api("POST", "keeps/valves/update", { word: "mine" });
    assert.match((await chat("hi")).text, / mine [0-9]+$/);
    await api("DELETE", "keeps/delete");
    const page = await open(browser, "#/");
    await page.getByText("Live", { exact: true }).waitFor();
    fs.writeFileSync(file("filters/keeps.rhai"), KEEPS.replace('kv::incr("count");', ""));
    const problem = page.locator(".problem", { hasText: "keeps" });
    await problem.waitFor();
    assert.match(await problem.innerText(), /set aside[^]*valvehouse adopt keeps/);
    assert.match((await chat("hi")).text, / none 0$/);
    await problem.getByRole("button", { name: "Adopt" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Adopt" }).click();
    await problem.waitFor({ state: "detached" });
    await until("it has the count", async () => / none [1-9][0-9]*$/.test((await chat("hi")).text));
    page.hasBehaved();
  },
});
