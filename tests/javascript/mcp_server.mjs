// A server with the official TypeScript SDK, over stdin and stdout.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(process.env.NODE_PATH + "/");
const sdk = (name) => import(pathToFileURL(require.resolve("@modelcontextprotocol/sdk/" + name)));
const { Server } = await sdk("server/index.js");
const { StdioServerTransport } = await sdk("server/stdio.js");
const {
  CallToolRequestSchema,
  CompleteRequestSchema,
  GetPromptRequestSchema,
  ListPromptsRequestSchema,
  ListResourcesRequestSchema,
  ListResourceTemplatesRequestSchema,
  ListToolsRequestSchema,
  ReadResourceRequestSchema,
} = await sdk("types.js");

const server = new Server(
  { name: "typed", version: "1" },
  { capabilities: { tools: { listChanged: true }, prompts: {}, resources: {}, completions: {} } },
);
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
const language = { name: "language", description: "Its language", required: true };
server.setRequestHandler(ListPromptsRequestSchema, async () => ({
  prompts: [{ name: "re.view", description: "Reviews a change", arguments: [language] }],
}));
server.setRequestHandler(GetPromptRequestSchema, async ({ params }) => ({
  messages: [{ role: "user", content: { type: "text", text: `Review this ${params.arguments.language}` } }],
}));
server.setRequestHandler(ListResourcesRequestSchema, async () => ({
  resources: [{ uri: "notes://all", name: "All notes", mimeType: "text/plain" }],
}));
server.setRequestHandler(ListResourceTemplatesRequestSchema, async () => ({
  resourceTemplates: [{ uriTemplate: "notes://{id}", name: "A note" }],
}));
server.setRequestHandler(ReadResourceRequestSchema, async ({ params }) => ({
  contents: [{ uri: params.uri, mimeType: "text/plain", text: `content of ${params.uri}` }],
}));
server.setRequestHandler(CompleteRequestSchema, async ({ params }) => ({
  completion: { values: ["rust", "ruby", "go"].filter((word) => word.startsWith(params.argument.value)) },
}));
await server.connect(new StdioServerTransport());
