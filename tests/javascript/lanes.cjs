// OpenAI's own JavaScript client puts streams together, with strict tools that may be called in parallel.
//
// Usage: node lanes.cjs BASE_URL FILE. Each line of the file has the `model` and the `number` of a stream. For
// each a line goes to stdout: the message as the client has it in the end, and the arguments of each call when
// it was done.
"use strict";

const { readFileSync } = require("node:fs");
const { OpenAI } = require("openai");

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-test", maxRetries: 0, timeout: 60_000 });

function tool(name) {
    const parameters = {
        type: "object",
        properties: { location: { type: "string" } },
        required: ["location"],
        additionalProperties: false,
    };
    return { type: "function", function: { name, strict: true, parameters } };
}

async function main() {
    for (const line of readFileSync(process.argv[3], "utf8").split("\n").filter(Boolean)) {
        const asked = JSON.parse(line);
        const seen = { ...asked, error: null, done: [] };
        try {
            const stream = client.chat.completions.stream({
                model: asked.model,
                messages: [{ role: "user", content: String(asked.number) }],
                tools: [tool("f0"), tool("f1")],
            });
            stream.on("tool_calls.function.arguments.done", (call) => seen.done.push(call.arguments));
            seen.message = (await stream.finalChatCompletion()).choices[0].message;
        } catch (error) {
            seen.error = `${error.name}: ${error.message}`;
        }
        console.log(JSON.stringify(seen));
    }
}

main();
