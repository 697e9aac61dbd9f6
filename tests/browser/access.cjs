// What a plugin asks for is approved and revoked at the page.

const { assert, chat, file, fs, open, run, shot, until } = require("./page.cjs");

const READS = "/*\ntitle: Reads\nrequirements: files, env, kv\n*/\nfn outlet(body) {\n    env::get(\"LANG\");\n    body.messages[-1].text = files::read(\"note.txt\");\n    body\n}\n";

run({
  "what a script asks for is read and approved, and the plugin runs": async (browser) => {
    fs.mkdirSync(file("data"));
    fs.writeFileSync(file("data/note.txt"), "from the file");
    const page = await open(browser, "#/");
    const problem = page.locator(".problem", { hasText: "env=VARIABLE" });
    await problem.getByRole("link", { name: "Review and approve" }).click();
    const [files, env, kv] = ["files", "env", "kv"].map((name) => page.getByRole("region", { name, exact: true }));
    assert.match(await files.innerText(), /needs approval[^]*Asks to read and write the files in named folders\.[^]*Asks for it since a version that has not run yet, 20\d\d-/);
    assert.match(await kv.innerText(), /needs no approval[^]*May store values of its own\./);
    await shot(page, "access-asked");
    // All at once: nothing is sent before everything is named.
    await files.getByLabel("Folders, with commas between several").fill("data");
    await page.getByRole("button", { name: "Approve all 2" }).click();
    await page.getByRole("alert").filter({ hasText: "Name the variables that reads may use for env." }).waitFor();
    await until("the missing name is asked for", () => env.getByLabel("Variables, with commas between several").evaluate((input) => input === document.activeElement));
    await page.keyboard.type("LANG");
    await page.getByRole("button", { name: "Approve all 2" }).press("Enter");
    await page.getByText("Approved for reads: files=data, env=LANG.").waitFor();
    await page.locator(".detail .badge", { hasText: "live" }).first().waitFor();
    assert.match(await files.innerText(), /approved[^]*version 1[^]*files = data/);
    assert.match((await chat("hi")).text, /^from the file/);
    await shot(page, "access-approved");
    await page.getByRole("link", { name: "History" }).click();
    await page.getByText(/grants changed/).first().waitFor();
    assert.match(await page.locator(".history li").first().innerText(), /grants changed[^]*by local/);
    page.hasBehaved();
  },

  "a script that changed meanwhile is not covered by the approval": async (browser) => {
    const page = await open(browser, "#/plugins/reads/access", { forgives: (line) => line.includes("409") });
    const env = page.getByRole("region", { name: "env", exact: true });
    await env.getByText("Approve more variables").click();
    await env.getByLabel("Variables, with commas between several").fill("HOME");
    fs.writeFileSync(file("filters/reads.rhai"), READS.replace("env, kv", "env, shell"));
    await page.getByText("The script or its grants have changed.").waitFor();
    assert.equal(await env.getByLabel("Variables, with commas between several").inputValue(), "HOME", "nothing is replaced while somebody types");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").filter({ hasText: "its script has changed since it was shown" }).waitFor();
    const shell = page.getByRole("region", { name: "shell", exact: true });
    assert.match(await shell.innerText(), /needs approval[^]*run named programs, as the user of the host/);
    assert.doesNotMatch(await env.innerText(), /HOME/);
    assert.match((await chat("hi")).text, /^from the file/, "the version before runs");
    // A grant without limits is confirmed with its meaning.
    await shell.getByRole("button", { name: "Approve shell" }).click();
    const dialog = page.getByRole("dialog");
    assert.match(await dialog.innerText(), /reads may then run every program/);
    await dialog.getByRole("button", { name: "Cancel" }).click();
    assert.match(await shell.innerText(), /needs approval/);
    fs.writeFileSync(file("filters/reads.rhai"), READS);
    await page.getByRole("button", { name: "Show changes" }).click();
    await shell.waitFor({ state: "detached" });
    page.hasBehaved();
  },

  "an approval is revoked": async (browser) => {
    const page = await open(browser, "#/plugins/reads/access");
    await page.getByRole("button", { name: "Revoke files=data" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await page.getByText("Revoked for reads: files = data.").waitFor();
    await page.locator(".detail .badge", { hasText: "held" }).first().waitFor();
    assert.match(await page.getByRole("region", { name: "files", exact: true }).innerText(), /needs approval/);
    assert.doesNotMatch((await chat("hi")).text, /^from the file/);
    page.hasBehaved();
  },
});
