// Settings are changed at the page, and the next turn obeys.

const { assert, chat, open, run, until } = require("./page.cjs");

const CANARY = "canary-7f3a-secret";

const saved = (page, valve) => page.locator(`[data-valve=${valve}] .outcome`, { hasText: "Saved" }).waitFor();
const wrong = (page, valve) => page.locator(`[data-valve=${valve}] .wrong`);
const source = (page, valve) => page.locator(`[data-valve=${valve}] .source`).textContent();

run({
  "a setting applies from the next turn, and can be undone and reset": async (browser) => {
    const page = await open(browser, "#/plugins/greets");
    const history = [{ role: "user", content: "one" }, { role: "assistant", content: "two" }, { role: "user", content: "three" }];
    const says = async () => (await chat("", { messages: history, chat_id: "c" })).text;
    assert.match(await says(), /^Hello /);
    await page.getByLabel("Greeting", { exact: true }).fill("Howdy");
    await page.keyboard.press("Tab");
    await saved(page, "greeting");
    assert.match(await says(), /^Howdy /);
    assert.equal(await source(page, "greeting"), "set here");
    await page.getByRole("button", { name: "Undo" }).click();
    await until("the greeting is undone", async () => (await page.getByLabel("Greeting", { exact: true }).inputValue()) === "Hello");
    assert.match(await says(), /^Hello /);
    await page.getByLabel("Greeting", { exact: true }).fill("Moin");
    await page.keyboard.press("Enter");
    await saved(page, "greeting");
    assert.match(await says(), /^Moin /);
    await page.getByRole("button", { name: "Reset Greeting" }).click();
    await until("the greeting is reset", async () => (await page.getByLabel("Greeting", { exact: true }).inputValue()) === "Hello");
    assert.match(await says(), /^Hello /);
    assert.equal(await source(page, "greeting"), "default");
    page.hasBehaved();
  },

  "every type of setting has a control that saves it": async (browser) => {
    const page = await open(browser, "#/plugins/greets");
    const answer = async () => (await chat("tell")).text;
    await page.getByRole("switch", { name: "Loud" }).check();
    await saved(page, "loud");
    await page.getByLabel("Times", { exact: true }).fill("3");
    await page.keyboard.press("Enter");
    await saved(page, "times");
    await page.getByLabel("Tone", { exact: true }).selectOption("dry");
    await saved(page, "tone");
    await page.getByLabel("Letter", { exact: true }).fill("one\ntwo");
    await page.keyboard.press("Tab");
    await saved(page, "letter");
    await page.getByLabel("Nickname", { exact: true }).fill("Bo");
    await page.keyboard.press("Enter");
    await saved(page, "nickname");
    const words = page.locator("[data-valve=words]");
    await words.getByRole("button", { name: "Add item" }).click();
    await page.keyboard.type("third");
    await page.keyboard.press("Enter");
    await saved(page, "words");
    await until("everything is obeyed", async () => (await answer()).includes('loud=true times=3 tone=dry letter=one|two nickname=Bo words=["a","b","third"]'));
    await words.getByRole("button", { name: "Remove item 1" }).click();
    await until("an item is removed", async () => (await answer()).includes('words=["b","third"]'));
    await page.getByLabel("Nickname", { exact: true }).fill("");
    await page.keyboard.press("Enter");
    await until("an empty one is none", async () => (await answer()).includes("nickname=none"));
    await page.getByRole("button", { name: "Reset all" }).click();
    await until("all are reset", async () => (await answer()).includes('loud=false times=1 tone=warm letter= nickname=none words=["a","b"]'));
    await until("the page shows it", async () => (await page.getByLabel("Times", { exact: true }).inputValue()) === "1");
    page.hasBehaved();
  },

  "switches share a row, and plugins are sorted by numbers": async (browser) => {
    const page = await open(browser, "#/plugins/greets");
    await page.getByRole("switch", { name: "Loud" }).waitFor();
    const top = async (valve) => (await page.locator(`[data-valve=${valve}]`).boundingBox()).y;
    assert.equal(await top("loud"), await top("brief"));
    assert.ok(await top("times") > await top("loud"));
    const control = await page.getByLabel("Times", { exact: true }).boundingBox();
    const label = await page.locator("[data-valve=times] .label").boundingBox();
    assert.ok(label.x + label.width < control.x && label.y < control.y + control.height, "a valve is one row");
    await page.getByLabel("Sort by").selectOption("priority");
    const titles = () => page.locator(".list .title").allInnerTexts();
    await until("they are in running order", async () => (await titles()).join() === "second,tenth,Greets");
    page.hasBehaved();
  },

  "an invalid value is rejected next to its field and changes nothing": async (browser) => {
    const page = await open(browser, "#/plugins/greets", { forgives: (line) => line.includes("400") && line.includes("/valves/update") });
    await page.getByLabel("Times", { exact: true }).fill("99");
    await page.keyboard.press("Enter");
    await wrong(page, "times").filter({ hasText: "5" }).waitFor();
    assert.equal(await page.getByLabel("Times", { exact: true }).getAttribute("aria-invalid"), "true");
    assert.equal(await page.getByLabel("Times", { exact: true }).inputValue(), "99");
    assert.match((await chat("tell")).text, /times=1 /);
    await page.getByLabel("Times", { exact: true }).fill("2");
    await page.keyboard.press("Enter");
    await saved(page, "times");
    assert.equal(await wrong(page, "times").textContent(), "");
    assert.match((await chat("tell")).text, /times=2 /);
    await page.getByRole("button", { name: "Reset Times" }).click();
    await until("the default is back", async () => (await chat("tell")).text.includes("times=1 "));
    page.hasBehaved();
  },

  "a secret is write-only": async (browser) => {
    const page = await open(browser, "#/plugins/greets");
    const secret = page.getByLabel("Password", { exact: true });
    assert.equal(await secret.getAttribute("placeholder"), "not set");
    const answers = [];
    page.on("response", async (response) => answers.push(await response.text().catch(() => "")));
    await secret.fill(CANARY);
    await page.keyboard.press("Enter");
    await saved(page, "password");
    await until("it is said to be set", async () => (await secret.getAttribute("placeholder")).startsWith("set"));
    assert.match((await chat("tell")).text, /password=18 letters/);
    await page.getByLabel("Times", { exact: true }).fill("4");
    await page.keyboard.press("Enter");
    await saved(page, "times");
    assert.match((await chat("tell")).text, /times=4 .*password=18 letters/);
    for (const part of ["#/plugins/greets", "#/plugins/greets/history", "#/plugins/greets/source", "#/", "#/requests"]) {
      await page.goto(page.url().replace(/#.*/, part));
      await page.waitForTimeout(500);
      assert.ok(!(await page.content()).includes(CANARY), `the secret stands in ${part}`);
    }
    assert.ok(!answers.join("").includes(CANARY), "the secret is in an answer");
    await page.goto(page.url().replace(/#.*/, "#/plugins/greets"));
    await page.getByRole("button", { name: "Clear Password" }).click();
    await until("it is cleared", async () => (await chat("tell")).text.includes("password=none"));
    await page.getByRole("button", { name: "Undo" }).click();
    await until("it is back, though nobody could read it", async () => (await chat("tell")).text.includes("password=18 letters"));
    page.hasBehaved();
  },

  "users have their own settings": async (browser) => {
    const page = await open(browser, "#/plugins/greets/users");
    await page.getByLabel("User id").fill("ann");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByLabel("Suffix", { exact: true }).fill("bye");
    await page.keyboard.press("Enter");
    await saved(page, "suffix");
    assert.match((await chat("tell", { user: "ann" })).text, /suffix=bye/);
    assert.match((await chat("tell", { user: "bob" })).text, /suffix=none/);
    page.hasBehaved();
  },

  "a plugin is disabled and enabled": async (browser) => {
    const page = await open(browser, "#/plugins/greets");
    await page.getByRole("switch", { name: "On", exact: true }).uncheck();
    await until("it does not run", async () => !(await chat("hi")).text.startsWith("Hello"));
    await page.locator(".detail .badge", { hasText: "off" }).first().waitFor();
    await page.getByRole("button", { name: "Undo" }).click();
    await until("it runs again", async () => (await chat("hi")).text.startsWith("Hello"));
    page.hasBehaved();
  },
});
