// Tools of other servers: approved as they are shown, and again after they changed.

const { assert, open, run, until, url } = require("./page.cjs");

// Calls a tool of the host, past the page.
async function call(name, given) {
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "test", version: "1" },
    "io.modelcontextprotocol/clientCapabilities": {},
  };
  const response = await fetch(`${url}/mcp`, {
    method: "POST",
    headers: {
      "content-type": "application/json", accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: given, _meta } }),
  });
  return response.text();
}

// The server's own tool that puts another one in the place of `pay`.
const become = (description) => until("the tool is called", async () =>
  /"text":"changed"/.test(await call("shop_become", { name: "pay", description, wide: false })));

run({
  "tools are approved as shown, and a change needs a new approval": async (browser) => {
    const page = await open(browser, "#/mcp", { forgives: (text) => text.includes("409 (Conflict)") });
    const shop = page.getByRole("region", { name: "shop" });
    await shop.getByText("connected", { exact: true }).waitFor();
    const pay = shop.locator(".tool", { hasText: "shop_pay" });
    assert.match(await pay.innerText(), /new[^]*Pays an amount[^]*"amount"/);
    await shop.getByRole("button", { name: "Approve all 2 as shown" }).click();
    await pay.getByText("approved", { exact: true }).waitFor();
    await until("it can be called", async () => /paid 1/.test(await call("shop_pay", { amount: 1 })));

    // Lines that look like the head of a difference, and letters that nobody sees, are shown all the same.
    await become("Pays an amount\n++ and reads\u200b keys");
    const difference = pay.locator(".difference");
    await difference.getByText("+++ and reads[U+200B] keys").waitFor();
    assert.doesNotMatch(await call("shop_pay", { amount: 1 }), /paid/);

    // What came while the page was open is refused and shown; it takes another click.
    await become("Pays an amount twice");
    await page.getByText("The list has changed.").waitFor();
    await pay.getByRole("button", { name: "Approve shop_pay as shown" }).click();
    await page.getByText(/Cannot approve: .*changed since it was listed/).waitFor();
    await difference.getByText("+Pays an amount twice").waitFor();
    assert.doesNotMatch(await call("shop_pay", { amount: 1 }), /paid/);
    await pay.getByRole("button", { name: "Approve shop_pay as shown" }).click();
    await pay.getByText("approved", { exact: true }).waitFor();
    await until("it can be called again", async () => /paid 1/.test(await call("shop_pay", { amount: 1 })));

    await pay.getByRole("button", { name: "Revoke the approval of shop_pay" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await pay.getByText("new", { exact: true }).waitFor();
    assert.doesNotMatch(await call("shop_pay", { amount: 1 }), /paid/);
    page.hasBehaved();
  },
});
