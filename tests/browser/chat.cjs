// A conversation in the test chat, as a client has it: streamed, with tools and events, and stopped or rejected.

const { assert, open, run, shot, until } = require("./page.cjs");

async function say(page, text) {
  await page.getByLabel("Message").fill(text);
  await page.keyboard.press("Enter");
}

const answers = (page) => page.locator(".turn[data-role=assistant]");
const ended = (page, number) => until(`answer ${number} has ended`, async () => {
  return await answers(page).count() === number && !(await page.getByRole("button", { name: "Stop" }).isVisible());
});

run({
  "a conversation is streamed, with tools and events": async (browser) => {
    const page = await open(browser, "#/try");
    await page.getByLabel("Model").fill("assistant");
    await page.getByLabel("User id").fill("ann");
    await say(page, "count please");
    const first = answers(page).first();
    await first.getByText("Looking it up → Found").waitFor();
    await first.getByText("Notification (info)").waitFor();
    assert.equal(await first.getByRole("link", { name: "Manual" }).getAttribute("href"), "https://example.org/manual");
    await first.getByText("counted, as asked by ann").waitFor();
    await first.locator("summary", { hasText: "Tool counter" }).click();
    await first.getByText("the count is 1").waitFor();
    await page.locator(".step", { hasText: "mock/mock-1" }).first().waitFor();
    await say(page, "how many messages?");
    await answers(page).nth(1).getByText("3 messages").waitFor();
    await ended(page, 2);
    await shot(page, "chat");
    await first.getByRole("button", { name: "Show its steps" }).click();
    await page.locator(".step", { hasText: "tool" }).first().waitFor();
    await page.getByRole("link", { name: "Requests", exact: true }).click();
    await page.getByRole("link", { name: "Test chat" }).click();
    await answers(page).nth(1).waitFor();
    assert.equal(await answers(page).count(), 2, "the conversation stays while another section is open");
    await page.getByRole("button", { name: "New conversation" }).click();
    assert.equal(await answers(page).count(), 0);
    page.hasBehaved();
  },

  "a tool call waits in the conversation for an approval": async (browser) => {
    const page = await open(browser, "#/try");
    await page.getByLabel("Model").fill("careful");
    await say(page, "count please");
    await page.getByRole("button", { name: "Reject counter" }).waitFor();
    await shot(page, "chat-approval");
    await page.getByRole("button", { name: "Approve counter" }).click();
    await answers(page).first().getByText("counted").waitFor();
    await answers(page).first().locator("summary", { hasText: "Tool counter" }).waitFor();
    await until("nothing waits", async () => !(await page.getByRole("button", { name: "Approve counter" }).isVisible()));
    page.hasBehaved();
  },

  "an answer that takes long is stopped": async (browser) => {
    const page = await open(browser, "#/try");
    await page.getByLabel("Model").fill("assistant");
    await say(page, "slow");
    await answers(page).first().getByText("begun").waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("heading", { name: "Stopped" }).waitFor();
    await page.getByLabel("Model").fill("assistant");
    await page.getByRole("link", { name: "Requests", exact: true }).click();
    await page.locator("table.requests tbody tr", { hasText: "client disconnected" }).first().waitFor();
    page.hasBehaved();
  },

  "an error says who is to blame and can be sent again": async (browser) => {
    const page = await open(browser, "#/try", { forgives: (line) => line.includes("/api/v1/try") });
    await page.getByLabel("Model").fill("assistant");
    await say(page, "forbidden");
    await page.getByRole("heading", { name: "Rejected with status 403" }).waitFor();
    const wrong = answers(page).first();
    await wrong.getByText("not in this house").waitFor();
    assert.equal(await wrong.getByRole("link", { name: "shows" }).getAttribute("href"), "#/plugins/shows");
    await wrong.getByRole("button", { name: "Send again" }).click();
    await until("it is sent again", async () => await answers(page).count() === 1 && await wrong.getByRole("button", { name: "Send again" }).isVisible());
    await say(page, "cut");
    await page.getByRole("heading", { name: "Interrupted" }).waitFor();
    await page.getByText("The service failed").waitFor();
    page.hasBehaved();
  },

  "an action button is pressed under its answer": async (browser) => {
    const page = await open(browser, "#/try");
    await page.getByLabel("Model").fill("assistant");
    await page.getByLabel("Stream").uncheck();
    await say(page, "hello");
    await answers(page).first().getByRole("button", { name: "Length" }).click();
    await page.getByRole("heading", { name: "Pressed: Length" }).waitFor();
    await answers(page).nth(1).getByText(/^\d+ letters$/).waitFor();
    page.hasBehaved();
  },
});
