// The page is usable by keyboard alone and by who does not see it, at every width, light and dark.

const { assert, chat, file, fs, open, run, shot, until } = require("./page.cjs");
const axe = require.resolve("axe-core/axe.min.js");

const PLACES = {
  overview: "#/", plugins: "#/plugins", plugin: "#/plugins/greets", users: "#/plugins/greets/users/ann", source: "#/plugins/greets/source",
  access: "#/plugins/reads/access", tests: "#/plugins/signs/source",
  history: "#/plugins/greets/history/1", requests: "#/requests", try: "#/try", new: "#/new", mcp: "#/mcp",
  models: "#/models", provider: "#/models/mock", model: "#/models/demo/assistant", usage: "#/usage/1h/user", keys: "#/keys", coverage: "#/coverage", runs: "#/runs", settings: "#/settings",
};

async function settled(page) {
  await page.getByText("Live", { exact: true }).waitFor();
  await until("nothing is loading", async () => !(await page.locator("main").innerText()).includes("Loading."));
  await page.waitForTimeout(200);
}

async function goTo(page, place) {
  await page.evaluate((place) => { location.hash = place; }, place);
  await settled(page);
}

async function tryOnce(page) {
  await page.getByLabel("Message").fill("good morning");
  await page.getByRole("button", { name: "Send" }).click();
  await page.getByRole("heading", { name: "Answer" }).waitFor();
}

// Runs tests of which one fails.
async function test(page) {
  fs.writeFileSync(file("filters/signs.test.rhai"), "fn test_answers_are_signed() { assert_eq(outlet(\"hi\").messages[-1].text, \"hi\"); }\nfn test_nothing() { }\n");
  await page.getByRole("button", { name: "Run tests" }).click();
  await page.getByText("1 passed, 1 failed").waitFor();
  await page.locator(".tests summary", { hasText: "signs.test.rhai" }).click();
}

run({
  "the accessibility checker reports nothing in light and dark mode": async (browser) => {
    // What the checker does to the page, the page's own policy would not let it do.
    const page = await open(browser, "#/", { bypassCSP: true });
    await page.addScriptTag({ path: axe });
    for (const [name, place] of Object.entries(PLACES)) {
      await goTo(page, place);
      if (name === "try") await tryOnce(page);
      if (name === "tests") await test(page);
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const { violations } = await page.evaluate(() => axe.run(document));
        const told = violations.map(({ id, help, nodes }) => `${id}: ${help}: ${nodes.map((node) => node.html).slice(0, 3).join(" | ")}`);
        assert.deepStrictEqual(told, [], `${name}, ${colorScheme}`);
      }
    }
    page.hasBehaved();
  },

  "the page works with the keyboard alone": async (browser) => {
    const page = await open(browser, "#/");
    await settled(page);
    const focused = () => page.evaluate(() => (document.activeElement.getAttribute("aria-label") ?? document.activeElement.labels?.[0]?.textContent ?? document.activeElement.textContent).trim());
    const tabTo = (text) => until(`the Tab key leads to ${text}`, async () => {
      await page.keyboard.press("Tab");
      const outline = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle !== "none" || getComputedStyle(document.activeElement.closest(".editor") ?? document.activeElement).outlineStyle !== "none");
      assert.ok(outline, `${await focused()} shows that it has the focus`);
      return (await focused()).startsWith(text);
    });
    await page.keyboard.press("Tab");
    assert.equal(await focused(), "Skip to main content");
    await page.keyboard.press("Enter");
    assert.equal(await page.evaluate(() => document.activeElement.id), "main");
    await page.goto(new URL("#/plugins", page.url()).href);
    await settled(page);
    await tabTo("Greets");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "Greets" }).waitFor();
    await until("the focus is at the plugin", async () => (await focused()) === "Greets");
    await tabTo("Loud");
    await page.keyboard.press("Space");
    await page.locator("[data-valve=loud] .outcome", { hasText: "Saved" }).waitFor();
    assert.equal(await focused(), "Loud", "saving leaves the focus where it is");
    await tabTo("Undo");
    await page.keyboard.press("Enter");
    await until("it is undone", async () => !(await page.getByRole("switch", { name: "Loud" }).isChecked()));
    page.hasBehaved();
  },

  "nothing overflows at any width": async (browser) => {
    for (let turn = 0; turn < 12; turn += 1) await chat("hello", { user: "ann", model: turn % 3 ? "demo" : "assistant" });
    const page = await open(browser, "#/");
    await until("the use is counted", async () => (await page.getByRole("region", { name: "Use" }).innerText()).includes("Requests\n12"));
    for (const [name, place] of Object.entries(PLACES)) {
      await goTo(page, place);
      if (name === "try") await tryOnce(page);
      if (name === "tests") await test(page);
      for (const width of [360, 390, 900, 1280, 1600]) {
        await page.setViewportSize({ width, height: 900 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        assert.ok(wide <= width, `${name} is ${wide} wide at ${width}`);
        for (const colorScheme of ["light", "dark"]) {
          await page.emulateMedia({ colorScheme });
          await shot(page, `${name}-${width}-${colorScheme}`);
        }
      }
    }
    page.hasBehaved();
  },

  "the color theme is stored": async (browser) => {
    const page = await open(browser, "#/", { colorScheme: "light" });
    const ground = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await ground();
    await page.getByLabel("Color theme").selectOption("dark");
    assert.notEqual(await ground(), light);
    await page.reload();
    assert.notEqual(await ground(), light);
    assert.equal(await page.getByLabel("Color theme").inputValue(), "dark");
    page.hasBehaved();
  },
});
