// Scripts are written in the editor: colors, problems with their fixes, names, indentation and undo, with the keyboard alone.

const { assert, chat, open, run, shot, until } = require("./page.cjs");

const WRONG = "fn outlet(body) {\n    let word = text::truncat(\"signed\", 9);\n    body.messages[-1].text += ` -- ${word}`;\n    body\n}\n";

// The texts of a kind of highlight.
const texts = (page, kind) => page.evaluate((kind) => [...CSS.highlights.get(`code-${kind}`)].map(({ startContainer: text, startOffset: from, endOffset: to }) => text.data.slice(from, to)), kind);

async function source(page) {
  const text = page.getByLabel("Source", { exact: true });
  await until("the source is shown", async () => (await text.inputValue()) !== "");
  return text;
}

run({
  "a problem is underlined at its place with its fix, which can be undone": async (browser) => {
    const page = await open(browser, "#/plugins/signs/source");
    const text = await source(page);
    const verdict = page.locator(".verdict");
    await verdict.filter({ hasText: "No problems" }).waitFor();
    await text.fill(WRONG);
    assert.deepStrictEqual(await texts(page, "keyword"), ["fn", "let"]);
    assert.ok((await texts(page, "text")).includes("\"signed\""));
    assert.ok((await texts(page, "call")).includes("outlet"));
    await verdict.filter({ hasText: "1 problem" }).waitFor();
    assert.deepStrictEqual(await texts(page, "error"), ["truncat"]);
    const finding = page.getByRole("list", { name: "Problems of the script" }).getByRole("listitem");
    assert.match(await finding.innerText(), /Line 2.*text::truncat`[^]*did you mean/);
    await shot(page, "editor-problem");
    // The pointer over the underlined word shows the same.
    const word = await page.evaluate(() => {
      const [{ startContainer: text, startOffset: from, endOffset: to }] = CSS.highlights.get("code-error");
      const range = document.createRange();
      range.setStart(text, from);
      range.setEnd(text, to);
      const { x, y, width, height } = range.getBoundingClientRect();
      return { x: x + width / 2, y: y + height / 2 };
    });
    await page.mouse.move(word.x, word.y);
    await page.locator(".tip").getByRole("button", { name: "Replace with `truncate`" }).waitFor();
    await finding.getByRole("button", { name: "Line 2", exact: true }).click();
    assert.equal(await text.evaluate((area) => area.value.slice(0, area.selectionStart).split("\n").length), 2);
    await finding.getByRole("button", { name: /^Replace with/ }).click();
    assert.equal(await text.inputValue(), WRONG.replace("truncat", "truncate"));
    await verdict.filter({ hasText: "No problems" }).waitFor();
    await page.keyboard.press("Control+z");
    assert.equal(await text.inputValue(), WRONG);
    await page.keyboard.press("Control+Shift+z");
    await page.keyboard.press("Control+s");
    await page.getByText("Saved and live").first().waitFor();
    assert.match((await chat("hi")).text, /signed$/);
    page.hasBehaved();
  },

  "names are completed with their signature": async (browser) => {
    const page = await open(browser, "#/new");
    const text = await source(page);
    await text.fill("fn inlet(body) {\n    ");
    await text.press("Control+End");
    await page.keyboard.type("text::trun");
    const list = page.getByRole("listbox", { name: "Suggestions" });
    const first = list.getByRole("option").first();
    await first.filter({ hasText: "truncate" }).waitFor();
    assert.equal(await text.getAttribute("aria-activedescendant"), await first.getAttribute("id"));
    await page.locator(".completion .about code", { hasText: "truncate(" }).waitFor();
    await shot(page, "editor-completion");
    await page.keyboard.press("Enter");
    assert.equal(await text.inputValue(), "fn inlet(body) {\n    text::truncate()");
    await page.keyboard.type("body.");
    await until("what a body has is listed", async () => (await list.innerText()).includes("messages"));
    await page.keyboard.press("Escape");
    assert.ok(!(await list.isVisible()));
    await page.keyboard.press("Control+Space");
    await list.getByRole("option", { name: /^messages/ }).click();
    assert.equal(await text.inputValue(), "fn inlet(body) {\n    text::truncate(body.messages)");
    page.hasBehaved();
  },

  "lines are indented, brackets are matched, and the keyboard leaves the editor": async (browser) => {
    const page = await open(browser, "#/new");
    const text = await source(page);
    await text.fill("");
    await text.focus();
    await page.keyboard.type("fn inlet(body) {");
    await page.keyboard.press("Enter");
    await page.keyboard.type("if true {");
    await page.keyboard.press("Enter");
    await page.keyboard.type("body = body;");
    await page.keyboard.press("Enter");
    await page.keyboard.type("}");
    await page.keyboard.press("Enter");
    await page.keyboard.type("}");
    assert.equal(await text.inputValue(), "fn inlet(body) {\n    if true {\n        body = body;\n    }\n}");
    assert.deepStrictEqual(await texts(page, "pair"), ["}", "{"]);
    await page.keyboard.press("Control+a");
    await page.keyboard.press("Tab");
    assert.match(await text.inputValue(), /^ {4}fn.*\n {8}if/);
    await page.keyboard.press("Shift+Tab");
    assert.match(await text.inputValue(), /^fn.*\n {4}if/);
    await page.keyboard.press("Escape");
    await page.keyboard.press("Tab");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Create");
    page.hasBehaved();
  },
});
