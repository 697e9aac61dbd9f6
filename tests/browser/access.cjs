// What a plugin asks for is approved and revoked at the page, and its tests run beside the editor.

const { assert, chat, file, fs, open, run, shot, until } = require("./page.cjs");

const READS = "/*\ntitle: Reads\nrequirements: files, env, kv\n*/\nfn outlet(body) {\n    env::get(\"LANG\");\n    body.messages[-1].text = files::read(\"note.txt\");\n    body\n}\n";
const SIGNS = "/*\ntitle: Signs\n*/\nfn outlet(body) {\n    body.messages[-1].text += \" -- signed\";\n    body\n}\n";
const TESTS = "fn test_answers_are_signed() {\n    print(\"looking\");\n    assert_eq(outlet(\"hi\").messages[-1].text, \"hi -- signed\");\n}\n\nfn test_the_answer_is_kept() {\n    assert_contains(outlet(\"hi\").messages[-1].text, \"hi\");\n}\n";
const LONG = Array.from({ length: 400 }, (_, number) => `fn test_${number}() { let n = 0; while n < 10_000_000 { n += 1; } }\n`).join("");

const lineOf = (area) => area.evaluate((area) => area.value.slice(0, area.selectionStart).split("\n").length);

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

  "the tests of a plugin run on the draft and on the saved script": async (browser) => {
    const page = await open(browser, "#/plugins/signs/source");
    const text = page.getByLabel("Source", { exact: true });
    const tests = page.getByRole("region", { name: "Tests", exact: true });
    await until("the source is shown", async () => (await text.inputValue()) === SIGNS);
    await page.getByRole("button", { name: "Run tests" }).click();
    await tests.getByText("signs has no tests.").waitFor();
    assert.match(await tests.innerText(), /filters\/signs\.test\.rhai/);
    assert.match(await tests.getByRole("link", { name: "How to write tests" }).getAttribute("href"), /docs\/guide\/testing\.md#its-tests$/);
    fs.writeFileSync(file("filters/signs.test.rhai"), TESTS);
    await text.press("Control+Enter");
    await tests.getByText(/^2 tests of the file: 2 passed, in /).waitFor();
    await text.fill(SIGNS.replace("-- signed", "-- resigned"));
    await text.press("Control+Enter");
    await tests.getByText(/^2 tests of the unsaved text: 1 passed, 1 failed, in /).waitFor();
    assert.match(await tests.innerText(), /failed[^]*answers are signed[^]*Line 3 of the tests[^]*- hi -- signed[^]*\+ hi -- resigned[^]*passed[^]*the answer is kept/);
    const own = tests.getByLabel("Tests of signs");
    assert.ok(!await own.isVisible());
    await tests.getByRole("button", { name: "Line 3 of the tests" }).press("Enter");
    await until("the line of the tests is chosen", async () => await own.isVisible() && await lineOf(own) === 3);
    await page.keyboard.press("Control+Space");
    await page.keyboard.type("x");
    assert.equal(await own.inputValue(), TESTS, "the tests are only shown");
    assert.ok(await page.evaluate(() => [...CSS.highlights.get("code-keyword")].some(({ startContainer: text }) => text.data.includes("resigned"))), "the script keeps its colors");
    await shot(page, "tests-failed");
    await page.getByRole("button", { name: "Run tests of the file" }).click();
    await tests.getByText(/^2 tests of the file: 2 passed, in /).waitFor();
    assert.equal(fs.readFileSync(file("filters/signs.rhai"), "utf8"), SIGNS);
    page.hasBehaved();
  },

  "a failure of the script leads to its line, and a run can be stopped": async (browser) => {
    const page = await open(browser, "#/plugins/signs/source");
    const text = page.getByLabel("Source", { exact: true });
    const tests = page.getByRole("region", { name: "Tests", exact: true });
    await until("the source is shown", async () => (await text.inputValue()) === SIGNS);
    await text.fill(SIGNS.replace("    body\n", "    let wrong = body.messages[7].text;\n    body\n"));
    await page.getByRole("button", { name: "Run tests", exact: true }).click();
    await tests.getByText(/2 failed/).waitFor();
    await tests.getByRole("button", { name: "Line 6 of the script" }).first().click();
    assert.equal(await lineOf(text), 6);
    assert.ok(await text.evaluate((area) => area === document.activeElement));
    fs.writeFileSync(file("filters/signs.test.rhai"), LONG);
    await text.fill(SIGNS);
    await page.getByRole("button", { name: "Run tests", exact: true }).click();
    await page.getByRole("button", { name: "Stop", exact: true }).click();
    await tests.getByText("The tests were stopped.").waitFor();
    fs.writeFileSync(file("filters/signs.test.rhai"), TESTS);
    await until("the run has ended at the host, too", async () => {
      await page.getByRole("button", { name: "Run tests", exact: true }).click();
      await page.waitForTimeout(100);
      return (await tests.innerText()).includes("2 passed");
    });
  },
});
