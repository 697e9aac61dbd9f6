// What the clients of JavaScript see of the scenes of upstream.py, one line of JSON for each.
//
// Usage: javascript_clients.mjs BASE_URL [CLIENT…], where the clients' packages are found. A line is
// {client, shape, saw}, as python_clients.py writes it.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Warnings of the AI SDK would stand between the lines.
globalThis.AI_SDK_LOG_WARNINGS = false;
const base = process.argv[2];
const v1 = `${base}/v1`;
const key = "client-key-0001";
const [openaiModel, responsesModel, claudeModel] = ["scripted", "scripted-responses", "claude-scripted"];
const require = createRequire(pathToFileURL(`${process.cwd()}/`));
const load = async (name) => {
  // The modules of a package, as an application would import them.
  const found = await import(pathToFileURL(require.resolve(name)).href);
  return found.default && Object.keys(found).length <= 2 ? { ...found.default, ...found } : found;
};

const weatherOf = (city) => `3 degrees in ${city}`;
const cityForm = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};

async function openaiChat() {
  const OpenAI = (await load("openai")).default;
  const ours = new OpenAI({ baseURL: v1, apiKey: key, maxRetries: 0 });
  const scene = async (name, stream) => {
    const body = { model: openaiModel, messages: [{ role: "user", content: `[[${name}]]` }] };
    const answer = stream
      ? await ours.chat.completions.stream({ ...body, stream_options: { include_usage: true } }).finalChatCompletion()
      : await ours.chat.completions.create(body);
    const [choice] = answer.choices;
    return { text: choice.message.content, thought: choice.message.reasoning_content, end: choice.finish_reason, usage: answer.usage };
  };
  const talk = async (name, stream) => {
    const tool = {
      type: "function",
      function: {
        name: "weather",
        description: "The weather.",
        parameters: cityForm,
        parse: JSON.parse,
        function: ({ city }) => weatherOf(city),
      },
    };
    const body = { model: openaiModel, messages: [{ role: "user", content: `[[${name}]]` }], tools: [tool], stream };
    const runner = ours.chat.completions.runTools(body);
    await runner.done();
    return runner.messages.map(({ role, content, tool_calls }) => ({ role, content, calls: tool_calls?.map((call) => call.function) }));
  };
  const shapes = [];
  for (const stream of [false, true]) {
    const way = stream ? "streamed" : "whole";
    shapes.push([`text, ${way}`, () => scene("text", stream)]);
    shapes.push([`reasoning, ${way}`, () => scene("think", stream)]);
    shapes.push([`tools, ${way}`, () => talk("tools", stream)]);
  }
  for (const name of ["limited", "long", "poor"]) shapes.push([`error ${name}`, () => scene(name, false)]);
  return shapes;
}

async function openaiResponses() {
  const OpenAI = (await load("openai")).default;
  const ours = new OpenAI({ baseURL: v1, apiKey: key, maxRetries: 0 });
  const tools = [{ type: "function", name: "weather", parameters: cityForm, strict: true }];
  const ask = async (body, stream) => {
    const whole = { model: responsesModel, tools, ...body };
    return stream ? ours.responses.stream(whole).finalResponse() : ours.responses.create(whole);
  };
  const items = (response) =>
    response.output.map((item) => [item.type, item.name, item.arguments, (item.content ?? []).map((part) => part.text).join("")]);
  const talk = async (name, stream) => {
    const seen = [];
    let [input, before] = [`[[${name}]] weather?`, undefined];
    for (let round = 0; round < 3; round++) {
      const response = await ask({ input, previous_response_id: before }, stream);
      seen.push([items(response), response.status, response.usage.total_tokens]);
      const calls = response.output.filter((item) => item.type === "function_call");
      if (calls.length === 0) break;
      before = response.id;
      input = calls.map((call) => ({
        type: "function_call_output",
        call_id: call.call_id,
        output: weatherOf(JSON.parse(call.arguments).city),
      }));
    }
    return seen;
  };
  const shapes = [];
  for (const stream of [false, true]) {
    const way = stream ? "streamed" : "whole";
    for (const [name, scene] of [["text", "text"], ["reasoning", "think"], ["tools", "tools"], ["reasoning and tools", "thinktools"]]) {
      shapes.push([`${name}, ${way}`, () => talk(scene, stream)]);
    }
  }
  for (const name of ["limited", "long", "poor"]) shapes.push([`error ${name}`, () => talk(name, false)]);
  return shapes;
}

async function anthropicMessages() {
  const Anthropic = (await load("@anthropic-ai/sdk")).default;
  const ours = new Anthropic({ baseURL: base, apiKey: key, maxRetries: 0 });
  const tools = [{ name: "weather", description: "The weather.", input_schema: cityForm }];
  const talk = async (name, stream) => {
    const messages = [{ role: "user", content: `[[${name}]] weather?` }];
    const seen = [];
    for (let round = 0; round < 3; round++) {
      const body = { model: claudeModel, max_tokens: 4000, tools, messages };
      const message = stream ? await ours.messages.stream(body).finalMessage() : await ours.messages.create(body);
      seen.push([message.content.map(({ id, ...block }) => block), message.stop_reason, message.usage]);
      const calls = message.content.filter((block) => block.type === "tool_use");
      if (calls.length === 0) break;
      const results = calls.map((call) => ({ type: "tool_result", tool_use_id: call.id, content: weatherOf(call.input.city) }));
      messages.push({ role: "assistant", content: message.content }, { role: "user", content: results });
    }
    return seen;
  };
  const shapes = [];
  for (const stream of [false, true]) {
    const way = stream ? "streamed" : "whole";
    for (const [name, scene] of [["text", "text"], ["reasoning", "think"], ["tools", "tools"], ["reasoning and tools", "thinktools"]]) {
      shapes.push([`${name}, ${way}`, () => talk(scene, stream)]);
    }
  }
  for (const name of ["limited", "long"]) shapes.push([`error ${name}`, () => talk(name, false)]);
  return shapes;
}

// The AI SDK with one of its models.
async function aiShapes(model) {
  const { generateText, streamText, generateObject, tool, stepCountIs, jsonSchema } = await load("ai");
  const tools = {
    weather: tool({ description: "The weather.", inputSchema: jsonSchema(cityForm), execute: ({ city }) => weatherOf(city) }),
  };
  const usage = ({ inputTokens, outputTokens, totalTokens }) => [inputTokens, outputTokens, totalTokens];
  const steps = (all) =>
    all.map((step) => ({
      text: step.text,
      thought: step.reasoningText,
      calls: step.toolCalls.map((call) => [call.toolName, call.input]),
      results: step.toolResults.map((result) => result.output),
      end: step.finishReason,
      usage: usage(step.usage),
    }));
  const fixed = { model, tools, stopWhen: stepCountIs(4), maxRetries: 0 };
  const whole = async (name) => steps((await generateText({ ...fixed, prompt: `[[${name}]] weather?` })).steps);
  const streamed = async (name) => {
    let failure;
    const answer = streamText({ ...fixed, prompt: `[[${name}]] weather?`, onError: ({ error }) => (failure = error) });
    const kinds = [];
    for await (const part of answer.fullStream) if (kinds.at(-1) !== part.type) kinds.push(part.type);
    if (failure) throw failure;
    return { steps: steps(await answer.steps), kinds };
  };
  const resumed = async () => {
    const messages = [{ role: "user", content: "[[tools]] weather?" }];
    const first = await generateText({ ...fixed, messages });
    messages.push(...first.response.messages, { role: "user", content: "[[count]] again" });
    return (await generateText({ ...fixed, messages })).text;
  };
  const place = {
    type: "object",
    properties: { city: { type: "string" }, degrees: { type: "integer" } },
    required: ["city", "degrees"],
    additionalProperties: false,
  };
  const object = async () => (await generateObject({ model, schema: jsonSchema(place), prompt: "[[object]]", maxRetries: 0 })).object;
  const shapes = [];
  for (const [name, scene] of [["text", "text"], ["reasoning", "think"], ["tools", "tools"], ["reasoning and tools", "thinktools"]]) {
    shapes.push([`${name}, whole`, () => whole(scene)], [`${name}, streamed`, () => streamed(scene)]);
  }
  shapes.push(["resumed", resumed], ["object", object]);
  for (const name of ["limited", "long"]) shapes.push([`error ${name}`, () => whole(name)]);
  return shapes;
}

async function aiOpenai() {
  const { createOpenAI } = await load("@ai-sdk/openai");
  return createOpenAI({ baseURL: v1, apiKey: key });
}

async function aiAnthropic() {
  const { createAnthropic } = await load("@ai-sdk/anthropic");
  return createAnthropic({ baseURL: v1, apiKey: key })(claudeModel);
}

const clients = {
  "openai-node chat": openaiChat,
  "openai-node responses": openaiResponses,
  "anthropic-node": anthropicMessages,
  "ai openai()": async () => aiShapes((await aiOpenai())(responsesModel)),
  "ai openai.chat()": async () => aiShapes((await aiOpenai()).chat(openaiModel)),
  "ai anthropic()": async () => aiShapes(await aiAnthropic()),
};

const errorOf = (error) => ({ error: error.name, status: error.status ?? error.statusCode, code: error.code ?? error.data?.error?.code });
for (const [client, make] of Object.entries(clients)) {
  if (process.argv.length > 3 && !process.argv.slice(3).includes(client)) continue;
  let shapes = [];
  try {
    shapes = await make();
  } catch (error) {
    console.log(JSON.stringify({ client, shape: "starts", saw: { error: String(error).slice(0, 300) } }));
  }
  for (const [shape, look] of shapes) {
    let saw;
    try {
      saw = await look();
    } catch (error) {
      saw = errorOf(error);
      if (process.env.MATRIX_ERRORS) console.error(client, shape, error);
    }
    console.log(JSON.stringify({ client, shape, saw }));
  }
}
