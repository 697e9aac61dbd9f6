// The official TypeScript SDK as a client of the host: mcp_client.mjs URL, or mcp_client.mjs BINARY PROJECT.
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.NODE_PATH + "/");
const sdk = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Client } = await sdk("client/index.js");
const { StreamableHTTPClientTransport } = await sdk("client/streamableHttp.js");
const { StdioClientTransport } = await sdk("client/stdio.js");
const { ElicitRequestSchema, ToolListChangedNotificationSchema } = await sdk("types.js");

const [first, project] = process.argv.slice(2);
const transport = project
  ? new StdioClientTransport({ command: first, args: ["--quiet", "--project", project, "mcp"] })
  : new StreamableHTTPClientTransport(new URL(first));
const client = new Client({ name: "test", version: "1" }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async () => ({ action: "accept", content: { name: "Ann" } }));
const changed = new Promise((resolve) => client.setNotificationHandler(ToolListChangedNotificationSchema, resolve));
await client.connect(transport);

const names = (await client.listTools()).tools.map((tool) => tool.name);
assert.deepEqual(names, [...names].sort());
assert(names.includes("test_simple_text"));
const text = async (name, args) => (await client.callTool({ name, arguments: args ?? {} })).content[0].text;
assert.equal(await text("test_simple_text"), "This is a simple text response for testing.");
assert.equal(await text("test_input_required_result_elicitation"), "Hello, Ann!");
assert.match(await text("test_simple_txt"), /did you mean `test_simple_text`/);
const prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
assert(prompts.includes("test_simple_prompt"));
const read = await client.readResource({ uri: "test://static-text" });
assert.equal(read.contents[0].text, "This is the content of the static text resource.");

// Whoever started this saves a tool now, and the client hears of it without connecting again.
console.log("ready");
await changed;
assert.equal(await text("fresh"), "fresh");
await client.close();
console.log("ok");
process.exit(0);
