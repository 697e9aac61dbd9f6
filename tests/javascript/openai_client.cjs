// OpenAI's own JavaScript client against a running host.
//
// Usage: node openai_client.cjs BASE_URL. The host refuses messages that say `refuse`, `slow` or `break`.
"use strict";

const assert = require("node:assert/strict");
const { OpenAI, ...openai } = require("openai");
const { VERSION } = require("openai/version");

const client = new OpenAI({ baseURL: process.argv[2], apiKey: "sk-test", maxRetries: 0, timeout: 20_000 });

function ask(text, { model = "mock-1", ...more } = {}) {
    return client.chat.completions.create({ model, messages: [{ role: "user", content: text }], ...more });
}

async function collect(stream) {
    const chunks = [];
    for await (const chunk of stream) chunks.push(chunk);
    return chunks;
}

function textOf(chunks) {
    return chunks.map((chunk) => chunk.choices[0]?.delta.content ?? "").join("");
}

async function fails(expected, status, words, text, more = {}) {
    try {
        const answer = await ask(text, more);
        if (more.stream) await collect(answer);
    } catch (error) {
        assert.equal(error.constructor, expected, `${text}: ${error}`);
        assert.equal(error.status, status, `${text}: ${error}`);
        assert.ok(error.message.includes(words), `${text}: ${words} is not in ${error.message}`);
        return error;
    }
    assert.fail(`${text}: no error`);
}

async function chats() {
    const answer = await ask("hi", { temperature: 0.5, own_field: { b: 1, a: 2 } });
    assert.equal(answer.choices[0].message.content, "hello from upstream (seen)");
    assert.equal(answer.choices[0].finish_reason, "stop");
    assert.equal(answer.usage.total_tokens, 2);
}

async function streams() {
    const chunks = await collect(await ask("hi", { stream: true, stream_options: { include_usage: true } }));
    assert.equal(textOf(chunks), "hello from upstream (seen)");
    const said = chunks.flatMap((chunk) => chunk.choices);
    assert.deepEqual(said.map((choice) => choice.finish_reason).filter(Boolean), ["stop"]);
    const demo = textOf(await collect(await ask("good day", { model: "demo", stream: true })));
    assert.ok(demo.startsWith("You said: good day"), demo);
}

async function puts_a_stream_together_by_itself() {
    const messages = [{ role: "user", content: "hi" }];
    const whole = await client.chat.completions.stream({ model: "mock-1", messages }).finalChatCompletion();
    assert.equal(whole.choices[0].message.content, "hello from upstream (seen)");
    assert.equal(whole.choices[0].message.role, "assistant");
    assert.equal(whole.choices[0].finish_reason, "stop");
}

async function reads_raw_headers() {
    const { response } = await ask("hi").withResponse();
    assert.ok(Number(response.headers.get("x-valvehouse-generation")) >= 1);
}

const DOOR = {
    type: "function",
    function: { name: "open_door", parameters: { type: "object", properties: {} } },
};

async function sees_tools_run_at_the_host_and_gets_its_own_to_run() {
    for (const stream of [false, true]) {
        const counted = await ask("/count_apples\n/count_pears\n\n/count_plums", { model: "helper", stream });
        const text = stream ? textOf(await collect(counted)) : counted.choices[0].message.content;
        for (const fruit of ["apples 1", "pears 2", "plums 3"]) assert.ok(text.includes(fruit), text);
        const answer = await ask("/open_door", { model: "helper", tools: [DOOR], stream });
        if (stream) {
            const chunks = await collect(answer);
            const calls = chunks.flatMap((chunk) => chunk.choices[0].delta.tool_calls ?? []);
            assert.deepEqual(calls.map((call) => call.function.name).filter(Boolean), ["open_door"]);
        } else {
            const [choice] = answer.choices;
            assert.deepEqual(choice.message.tool_calls.map((call) => call.function.name), ["open_door"]);
            assert.equal(choice.finish_reason, "tool_calls");
        }
    }
}

async function lists_models() {
    const names = [];
    // Filters stand there as well, for Open WebUI.
    for await (const model of client.models.list()) if (model.pipeline?.type !== "filter") names.push(model.id);
    assert.deepEqual(names, ["demo", "mock-1", "helper"]);
    assert.equal((await client.models.retrieve("demo")).owned_by, "demo");
}

async function sees_errors_as_what_they_are() {
    for (const stream of [false, true]) {
        let error = await fails(openai.BadRequestError, 400, "refused by the house", "refuse", { stream });
        assert.equal(error.code, "rules");
        error = await fails(openai.RateLimitError, 429, "come back later", "slow", { stream });
        assert.equal(error.headers.get("retry-after"), "3");
        await fails(openai.PermissionDeniedError, 403, "not for you", "deny", { stream });
        await fails(openai.InternalServerError, 500, "the plugin `rules` failed", "break", { stream });
        await fails(openai.NotFoundError, 404, "did you mean `demo`", "hi", { model: "demmo", stream });
        await fails(openai.RateLimitError, 429, "the service is busy", "busy", { stream });
    }
    // Half an answer is not taken for a whole one.
    await fails(openai.APIError, undefined, "ended early", "cut", { stream: true });
}

async function main() {
    for (const check of [
        chats,
        streams,
        puts_a_stream_together_by_itself,
        reads_raw_headers,
        sees_tools_run_at_the_host_and_gets_its_own_to_run,
        lists_models,
        sees_errors_as_what_they_are,
    ]) {
        await check();
        console.log(`${check.name}: ok`);
    }
    console.log(`openai ${VERSION}: all well`);
}

main().catch((error) => {
    console.error(error);
    process.exit(1);
});
