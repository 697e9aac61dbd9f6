// Pages of other sites and content of services in a real browser: neither may act with the rights of the host's
// own page. The service behind the host answers with a page that writes the filter `evil`.

const http = require("node:http");
const path = require("node:path");
const { assert, file, fs, run, signIn, until, url } = require("./page.cjs");

const KEY = process.env.VALVEHOUSE_TEST_KEY;
const ATTACK = fs.readFileSync(path.join(__dirname, "attack.js"), "utf8");
const EVIL = file("filters/evil.rhai");

// A page of another site. `localhost` and `127.0.0.1` are different sites at the same address.
async function site(body) {
  const server = http.createServer((_, response) => response.writeHead(200, { "content-type": "text/html" }).end(body));
  await new Promise((done) => server.listen(0, "127.0.0.1", done));
  return { address: `http://localhost:${server.address().port}/`, close: () => server.close() };
}

// Opens the page, signed in if a key is configured, so that the browser has a session.
async function signedIn(browser) {
  const context = await browser.newContext({ acceptDownloads: true });
  const page = await context.newPage();
  await page.goto(`${url}/#/plugins/marks`);
  if (KEY) {
    await signIn(page, KEY);
  }
  await page.getByText("Live", { exact: true }).waitFor();
  return { context, page };
}

// Gives a script time for its two requests. The page itself keeps a stream open, so its network is never idle.
const rest = (page) => page.waitForTimeout(500);

// Returns when the browser has opened, saved or refused what a page leads to.
async function settled(page, act) {
  const done = new Promise((end) => {
    page.on("download", end);
    page.on("load", () => page.url().startsWith(url) && end());
    page.on("requestfailed", (request) => request.isNavigationRequest() && end());
    page.on("response", (response) => response.request().isNavigationRequest() && response.status() >= 400 && end());
  });
  await act().catch((error) => assert.match(error.message, /ERR_ABORTED|Download is starting|interrupted/));
  await Promise.race([done, page.waitForTimeout(10_000)]);
  await rest(page);
}

function wroteNothing() {
  assert.ok(!fs.existsSync(EVIL), "the filter was written");
}

// A story in which a page of another site with this body is opened.
function elsewhere(body, isThere) {
  return async (browser) => {
    const { context } = await signedIn(browser);
    const other = await site(body);
    const page = await context.newPage();
    const requests = [];
    context.on("requestfinished", (request) => requests.push(request.url()));
    context.on("requestfailed", (request) => requests.push(request.url()));
    try {
      await page.goto(other.address).catch(() => {});
      await until("the host was asked", () => requests.some((one) => one.startsWith(isThere)));
      await rest(page);
    } finally {
      other.close();
    }
    wroteNothing();
  };
}

// A story in which a page of another site leads the browser to this path.
const leadsTo = (place) => async (browser) => {
  const { context } = await signedIn(browser);
  const other = await site(`<script>location = ${JSON.stringify(url + place)};</script>`);
  const page = await context.newPage();
  try {
    await settled(page, () => page.goto(other.address));
  } finally {
    other.close();
  }
  wroteNothing();
};

run({
  "the attack works with the rights of the page": async (browser) => {
    const { page } = await signedIn(browser);
    await page.evaluate(ATTACK);
    assert.ok(fs.existsSync(EVIL));
    fs.unlinkSync(EVIL);
  },
  "a link of another site opens the page": async (browser) => {
    const { context } = await signedIn(browser);
    const other = await site(`<script>location = ${JSON.stringify(`${url}/#/plugins/marks`)};</script>`);
    const page = await context.newPage();
    await page.goto(other.address);
    await page.getByRole("heading", { name: KEY ? "Sign in" : "marks" }).or(page.getByRole("heading", { name: "marks" })).first().waitFor();
    other.close();
  },
  "1: a page leads to a file of a service": leadsTo("/v1/files/html/content"),
  "2: a page leads to an SVG image of a service": leadsTo("/v1/files/svg/content"),
  "3: a page leads to XHTML of a service": leadsTo("/v1/files/xhtml/content"),
  "4: a page leads to the results of a batch": leadsTo("/v1/batches/html"),
  "5: a page leads to an error of a service": leadsTo("/v1/files/missing/content"),
  "6: a person opens the address of a file": async (browser) => {
    const { context } = await signedIn(browser);
    for (const kind of ["html", "svg", "xhtml", "named"]) {
      const page = await context.newPage();
      await settled(page, () => page.goto(`${url}/v1/files/${kind}/content`));
      await page.close();
    }
    wroteNothing();
  },
  "7: the page itself leads to a file of a service": async (browser) => {
    const { page } = await signedIn(browser);
    await settled(page, () => page.evaluate((to) => { location = to; }, `${url}/v1/files/html/content`));
    wroteNothing();
  },
  "8: the page frames a file of a service": async (browser) => {
    const { page } = await signedIn(browser);
    const asked = page.waitForEvent("requestfinished", (request) => request.url().includes("/v1/files/")).catch(() => {});
    await page.evaluate((to) => {
      const frame = document.createElement("iframe");
      frame.src = to;
      document.body.append(frame);
    }, `${url}/v1/files/html/content`).catch(() => {});
    await Promise.race([asked, page.waitForTimeout(2000)]);
    await rest(page);
    wroteNothing();
  },
  "9: another site frames, loads and posts": elsewhere(`
    <iframe src="${url}/v1/files/html/content"></iframe>
    <script src="${url}/v1/files/html/content"></script>
    <img src="${url}/v1/files/svg/content">
    <object data="${url}/v1/files/svg/content"></object>
    <iframe name="frame"></iframe>
    <form method="post" target="frame" enctype="text/plain" action="${url}/v1/images/html"><input name="{&quot;model&quot;:&quot;mock-1&quot;,&quot;x&quot;:&quot;" value="&quot;}"></form>
    <script>document.forms[0].submit();</script>`, `${url}/v1/images/html`),
  "10: another site calls the operators' API and opens a WebSocket": elsewhere(`
    <script>
      fetch("${url}/api/v1/session", { credentials: "include" }).then((answer) => answer.json()).then(({ csrf }) =>
        fetch("${url}/api/v1/functions/create", { method: "POST", mode: "no-cors", credentials: "include",
          headers: { "x-valvehouse-csrf": csrf }, body: '{"id":"evil","content":"fn inlet(body) { body }"}' }));
      fetch("${url}/api/v1/functions/create", { method: "POST", mode: "no-cors", credentials: "include",
        body: '{"id":"evil","content":"fn inlet(body) { body }"}' });
      new WebSocket("${url.replace("http", "ws")}/v1/responses");
    </script>`, `${url}/api/v1/functions/create`),
  "another site opens a window and keeps a hand on it": async (browser) => {
    const { context } = await signedIn(browser);
    const other = await site(`<button onclick="opened = window.open('${url}/v1/files/html/content')">x</button>`);
    const page = await context.newPage();
    await page.goto(other.address);
    const opened = context.waitForEvent("page");
    await page.getByRole("button").click();
    await opened;
    await rest(page);
    other.close();
    wroteNothing();
  },
});
