// OpenAI's own JavaScript client reads many streams, and says what it saw of each.
//
// Usage: node many_streams.cjs BASE_URL FILE. Each line of the file is a request: `number`, `body`,
// `headers`, and `helper`: whether the client shall put the stream together itself. For each a line goes to
// stdout.
"use strict";

const { readFileSync } = require("node:fs");
const { OpenAI, APIError } = require("openai");

const AT_ONCE = 32;
const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-test", maxRetries: 0, timeout: 120_000 });

function nothing() {
    return { text: "", thought: "", calls: [], finishes: [], roles: 0, after: 0 };
}

function noteDelta(own, delta) {
    if (own.finishes.length && (delta.content || delta.tool_calls)) own.after += 1;
    if (delta.role) own.roles += 1;
    own.text += delta.content ?? "";
    own.thought += delta.reasoning_content ?? "";
    for (const piece of delta.tool_calls ?? []) {
        const call = (own.calls[piece.index] ??= ["", "", ""]);
        call[0] = piece.id || call[0];
        call[1] = piece.function.name || call[1];
        call[2] += piece.function.arguments ?? "";
    }
}

async function read({ body, headers }, seen) {
    const ids = new Set();
    const stream = await client.chat.completions.create(body, { headers });
    try {
        for await (const chunk of stream) {
            if (chunk.event) {
                seen.emitted += 1;
                continue;
            }
            ids.add(chunk.id);
            if (chunk.usage) seen.usage += 1;
            for (const choice of chunk.choices) {
                const own = (seen.choices[choice.index] ??= nothing());
                noteDelta(own, choice.delta);
                if (choice.finish_reason) own.finishes.push(choice.finish_reason);
            }
        }
    } finally {
        seen.ids = ids.size;
    }
}

async function readWithHelper({ body }, seen) {
    const answer = await client.chat.completions.stream(body).finalChatCompletion();
    if (answer.usage) seen.usage = 1;
    for (const choice of answer.choices) {
        const own = (seen.choices[choice.index] ??= nothing());
        own.text = choice.message.content ?? "";
        for (const call of choice.message.tool_calls ?? []) {
            JSON.parse(call.function.arguments);
            own.calls.push([call.id, call.function.name, call.function.arguments]);
        }
        own.finishes.push(choice.finish_reason);
    }
}

async function run(request) {
    const seen = { number: request.number, choices: {}, usage: 0, emitted: 0, ids: 0, error: null };
    try {
        await (request.helper ? readWithHelper : read)(request, seen);
    } catch (error) {
        const message = error instanceof APIError ? error.message : `the client broke: ${error.stack}`;
        seen.error = { status: error.status ?? null, message };
    }
    // Where a filter took a whole call away there is a gap.
    for (const own of Object.values(seen.choices)) own.calls = own.calls.filter(Boolean);
    process.stdout.write(`${JSON.stringify(seen)}\n`);
}

async function main() {
    const requests = readFileSync(process.argv[3], "utf8").split("\n").filter(Boolean).map((line) => JSON.parse(line));
    const worker = async () => {
        while (requests.length) await run(requests.shift());
    };
    await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
