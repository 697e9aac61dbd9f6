// A server with the official TypeScript SDK, over stdin and stdout.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.NODE_PATH + "/");
const sdk = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Server } = await sdk("server/index.js");
const { StdioServerTransport } = await sdk("server/stdio.js");
const { CallToolRequestSchema, ListToolsRequestSchema } = await sdk("types.js");

const server = new Server({ name: "typed", version: "1" }, { capabilities: { tools: { listChanged: true } } });
const schema = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
// One tool a page: whoever asks follows the cursor.
const tools = ["upper", "lower", "dotted.name"].map((name) => ({ name, description: `Returns it ${name}`, inputSchema: schema }));
server.setRequestHandler(ListToolsRequestSchema, async ({ params }) => {
  const at = Number(params?.cursor ?? 0);
  return { tools: [tools[at]], ...(at + 1 < tools.length ? { nextCursor: String(at + 1) } : {}) };
});
server.setRequestHandler(CallToolRequestSchema, async ({ params }) => {
  const text = params.arguments.text;
  const made = { upper: text.toUpperCase(), lower: text.toLowerCase(), "dotted.name": text }[params.name];
  return { content: [{ type: "text", text: made }] };
});
await server.connect(new StdioServerTransport());
