// OpenAI's and Anthropic's own JavaScript clients put streams together that were cut on their way.
//
// Usage: node raw.cjs BASE_URL FILE. Each line of the file has the `endpoint` (`chat`, `messages` or `responses`), the
// `model` and the `text` that is said. For each a line goes to stdout: what was asked, with the parts of the answer as the client
// has them.
"use strict";

const { readFileSync } = require("node:fs");
const { OpenAI } = require("openai");

let Anthropic = null;
try {
    Anthropic = require("@anthropic-ai/sdk").Anthropic;
} catch {
    console.error("skipped: @anthropic-ai/sdk is not there; tests/run fetches it");
}

const options = { apiKey: "sk-test", maxRetries: 0, timeout: 60_000 };
const chat = new OpenAI({ ...options, baseURL: `${process.argv[2]}/v1` });
const messages = Anthropic && new Anthropic({ ...options, baseURL: process.argv[2] });

async function choicesOf(asked) {
    const said = [{ role: "user", content: asked.text }];
    const completion = await chat.chat.completions.stream({ model: asked.model, messages: said }).finalChatCompletion();
    return completion.choices.map(({ message }) => {
        const { content, refusal, tool_calls, function_call } = message;
        return { content, refusal, tool_calls, function_call };
    });
}

async function blocksOf(asked) {
    const said = [{ role: "user", content: asked.text }];
    const stream = messages.messages.stream({ model: asked.model, max_tokens: 100, messages: said });
    return (await stream.finalMessage()).content;
}

async function saidOf(asked) {
    const stream = chat.responses.stream({ model: asked.model, input: asked.text, store: false });
    const said = { text: [], refusal: [], thought: [], calls: [] };
    for (const item of (await stream.finalResponse()).output) {
        for (const part of item.content ?? []) {
            if (part.type === "output_text") said.text.push(part.text);
            if (part.type === "refusal") said.refusal.push(part.refusal);
            if (part.type === "reasoning_text") said.thought.push(part.text);
        }
        if (item.type === "function_call" || item.type === "custom_tool_call") {
            said.calls.push([item.name, item.arguments ?? item.input]);
        }
    }
    return [said];
}

const readers = { chat: choicesOf, messages: blocksOf, responses: saidOf };

async function main() {
    for (const line of readFileSync(process.argv[3], "utf8").split("\n").filter(Boolean)) {
        const asked = JSON.parse(line);
        if (asked.endpoint === "messages" && !messages) continue;
        const seen = { ...asked, error: null, parts: [] };
        try {
            seen.parts = await readers[asked.endpoint](asked);
        } catch (error) {
            seen.error = `${error.name}: ${error.message}`;
        }
        console.log(JSON.stringify(seen));
    }
}

main();
