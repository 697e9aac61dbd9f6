// Files are written, broken, mended, rolled back, made and deleted, on the disk and at the page.

const crypto = require("node:crypto");
const { assert, chat, file, fs, open, run, until } = require("./page.cjs");

const GOOD = "/*\ntitle: Signs\n*/\nfn outlet(body) {\n    body.messages[-1].text += \" -- signed\";\n    body\n}\n";

run({
  "a broken file is shown as stale with its position, and a rollback fixes it": async (browser) => {
    const page = await open(browser, "#/");
    await page.getByText("No problems. Every plugin runs its current file.").waitFor();
    fs.writeFileSync(file("filters/signs.rhai"), GOOD.replace("body.messages[-1]", "body.messages[-1"));
    const problem = page.locator(".problem", { hasText: "signs" });
    await problem.waitFor();
    assert.match(await problem.innerText(), /stale/);
    assert.match(await problem.locator(".excerpt").innerText(), /5 \| .*body\.messages\[-1\.text[^]*\^/);
    assert.match((await chat("hi")).text, /signed$/);
    await problem.getByRole("link", { name: "signs" }).click();
    await page.getByRole("link", { name: "History" }).click();
    await page.locator(".history a").first().click();
    await page.getByRole("heading", { name: /^Version/ }).waitFor();
    await page.locator(".version .difference .removed", { hasText: "[-1.text" }).waitFor();
    await page.getByRole("button", { name: "Roll back to this version" }).click();
    await page.locator(".detail .badge", { hasText: "live" }).first().waitFor();
    assert.equal(fs.readFileSync(file("filters/signs.rhai"), "utf8"), GOOD);
    assert.match((await chat("hi")).text, /signed$/);
    page.hasBehaved();
  },

  "a text that does not load is rejected with its line, and the typed text is kept": async (browser) => {
    const page = await open(browser, "#/plugins/signs/source", { forgives: (line) => line.includes("422") });
    const text = page.getByLabel("Source", { exact: true });
    await until("the source is shown", async () => (await text.inputValue()) === GOOD);
    const bad = GOOD.replace("signed\";", "resigned\"");
    await text.fill(bad);
    await page.getByRole("button", { name: "Save" }).click();
    const refusal = page.locator(".content .problem");
    await refusal.waitFor();
    assert.match(await refusal.innerText(), /Your text is still in the editor/);
    assert.equal(await text.inputValue(), bad);
    assert.equal(fs.readFileSync(file("filters/signs.rhai"), "utf8"), GOOD);
    await refusal.getByRole("button", { name: /^Go to line/ }).click();
    assert.ok(await text.evaluate((area) => area === document.activeElement && area.selectionStart > 0));
    await page.getByRole("link", { name: "History" }).click();
    await page.getByRole("link", { name: "Source" }).click();
    await until("the draft is still there", async () => (await text.inputValue()) === bad);
    await text.fill(GOOD.replace("signed\";", "resigned\";"));
    await page.keyboard.press("Control+s");
    await page.getByText("Saved and live").first().waitFor();
    assert.match((await chat("hi")).text, /resigned$/);
    page.hasBehaved();
  },

  "a concurrent change is overwritten only on confirmation": async (browser) => {
    const page = await open(browser, "#/plugins/signs/source", { forgives: (line) => line.includes("409") });
    const text = page.getByLabel("Source", { exact: true });
    await until("the source is shown", async () => (await text.inputValue()).includes("resigned"));
    await text.fill(GOOD.replace("signed\"", "mine\""));
    fs.writeFileSync(file("filters/signs.rhai"), GOOD.replace("signed\"", "theirs\""));
    await page.getByText("The file has changed since you started editing").waitFor();
    await page.getByRole("button", { name: "Save", exact: true }).click();
    await page.getByRole("button", { name: "Overwrite the file" }).waitFor();
    assert.match(fs.readFileSync(file("filters/signs.rhai"), "utf8"), /theirs/);
    await page.getByRole("button", { name: "Overwrite the file" }).click();
    await page.getByText("Saved and live").first().waitFor();
    assert.match((await chat("hi")).text, /mine$/);
    page.hasBehaved();
  },

  "a plugin is created, deleted and restored on the page": async (browser) => {
    const page = await open(browser, "#/plugins");
    await page.getByRole("button", { name: "New plugin" }).click();
    await page.getByLabel("Id", { exact: true }).fill("fresh");
    await page.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name: "My filter" }).waitFor();
    assert.ok(!(await chat("hi")).text.startsWith("Hello "), "it is tried first");
    await page.getByRole("switch", { name: "Audit mode" }).uncheck();
    await until("it runs", async () => (await chat("hi")).text.startsWith("Hello "));
    await page.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("fresh is deleted.").waitFor();
    assert.ok(!fs.existsSync(file("filters/fresh.rhai")));
    await page.getByRole("button", { name: "Undo" }).click();
    await until("its file is back", () => fs.existsSync(file("filters/fresh.rhai")));
    await until("it runs", async () => (await chat("hi")).text.startsWith("Hello "));
    page.hasBehaved();
  },

  "a plugin whose file was deleted is listed and restored": async (browser) => {
    const page = await open(browser, "#/plugins");
    fs.unlinkSync(file("filters/fresh.rhai"));
    await page.locator("summary", { hasText: "1 deleted plugin" }).click();
    await page.getByRole("button", { name: "Restore fresh" }).click();
    await until("its file is back", () => fs.existsSync(file("filters/fresh.rhai")));
    await page.getByRole("heading", { name: "My filter" }).waitFor();
    await until("nothing is deleted", async () => !(await page.locator("summary", { hasText: "deleted plugin" }).isVisible()));
    page.hasBehaved();
  },

  "a guard without its file is missing until its removal is confirmed": async (browser) => {
    const page = await open(browser, "#/");
    await page.getByText("Live", { exact: true }).waitFor();
    fs.unlinkSync(file("filters/guard.rhai"));
    // Another problem says that all requests are refused.
    const problem = page.locator(".problem", { hasText: "guard", has: page.getByRole("button", { name: "Confirm removal" }) });
    await problem.filter({ hasText: "missing" }).waitFor();
    assert.equal((await chat("hi")).status, 503);
    await problem.getByRole("button", { name: "Confirm removal" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Confirm removal" }).click();
    await problem.waitFor({ state: "detached" });
    assert.equal((await chat("hi")).status, 200);
    page.hasBehaved();
  },

  "a plugin without its grant shows the grant command": async (browser) => {
    const page = await open(browser, "#/");
    fs.writeFileSync(file("filters/reads.rhai"), "/*\nrequirements: files\n*/\nfn inlet(body) { files::read(\"x\"); }\n");
    const problem = page.locator(".problem", { hasText: "reads" });
    await problem.waitFor();
    assert.match(await problem.innerText(), /held[^]*valvehouse grant reads files=FOLDER/);
    fs.unlinkSync(file("filters/reads.rhai"));
    await problem.waitFor({ state: "detached" });
    page.hasBehaved();
  },

  "a version that crashed a host is released on the page": async (browser) => {
    const page = await open(browser, "#/");
    fs.writeFileSync(file("filters/signs.rhai"), GOOD);
    await until("it runs", async () => (await chat("hi")).text.endsWith("signed"));
    const hash = crypto.createHash("sha256").update(GOOD).digest("hex");
    const why = "the process crashed with SIGABRT while the plugin ran";
    fs.mkdirSync(file(".valvehouse"), { recursive: true });
    fs.writeFileSync(file(".valvehouse/quarantine.json"), JSON.stringify({ quarantined: [{ id: "signs", hash, at: 0, why }] }));
    const problem = page.locator(".problem", { hasText: "signs" });
    await problem.filter({ hasText: "quarantined" }).waitFor();
    assert.match(await problem.innerText(), /SIGABRT[^]*valvehouse release signs/);
    assert.doesNotMatch((await chat("hi")).text, /signed$/);
    await problem.getByRole("button", { name: "Release" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Release" }).click();
    await problem.waitFor({ state: "detached" });
    assert.match((await chat("hi")).text, /signed$/);
    page.hasBehaved();
  },
});
