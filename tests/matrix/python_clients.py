"""What the clients of Python see of the scenes of upstream.py, one line of JSON for each.

Usage: python_clients.py BASE_URL [CLIENT…]. A line is {client, shape, saw}; `saw` holds what an application reads,
without ids and times. A client that raises saw the class of its error.
"""

import asyncio
import json
import logging
import os
import sys
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)
BASE = sys.argv[1]
V1 = BASE + "/v1"
OPENAI, RESPONSES, CLAUDE = "scripted", "scripted-responses", "claude-scripted"
KEY = "client-key-0001"
os.environ.update(OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY, OPENAI_BASE_URL=V1, NO_PROXY="127.0.0.1")
os.environ.update(LITELLM_LOCAL_MODEL_COST_MAP="True", OPENAI_AGENTS_DISABLE_TRACING="1")

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PLACE = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "degrees": {"type": "integer"}},
    "required": ["city", "degrees"],
    "additionalProperties": False,
}
clients = {}


# One loop for all: a connection that a client keeps belongs to the loop that opened it.
loop = asyncio.new_event_loop()
asyncio.set_event_loop(loop)
run = loop.run_until_complete


def weather_of(city):
    return f"3 degrees in {city}"


def client(name):
    """Marks a function that yields the shapes of a client: pairs of a name and what to do."""

    def add(shapes):
        clients[name] = shapes
        return shapes

    return add


def plain(value):
    """A value of a client as JSON."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    return json.loads(json.dumps(value, default=str))


# OpenAI


def chat_message(message):
    calls = [[call.function.name, call.function.arguments] for call in message.tool_calls or []]
    thought = (message.model_extra or {}).get("reasoning_content")
    return {"text": message.content, "thought": thought, "calls": calls}


@client("openai chat")
def openai_chat():
    import openai

    ours = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30)
    tools = [{"type": "function", "function": {"name": "weather", "parameters": CITY, "strict": True}}]

    def ask(messages, stream, **more):
        if not stream:
            answer = ours.chat.completions.create(model=OPENAI, messages=messages, **more)
        else:
            options = {"stream_options": {"include_usage": True}}
            with ours.chat.completions.stream(model=OPENAI, messages=messages, **options, **more) as events:
                for _ in events:
                    pass
                answer = events.get_final_completion()
        return answer

    def scene(name, stream):
        answer = ask([{"role": "user", "content": f"[[{name}]]"}], stream)
        choice = answer.choices[0]
        return {**chat_message(choice.message), "finish": choice.finish_reason, "usage": plain(answer.usage)}

    def talk(name, stream):
        messages, seen = [{"role": "user", "content": f"[[{name}]] weather?"}], []
        for _ in range(3):
            message = ask(messages, stream, tools=tools).choices[0].message
            seen.append(chat_message(message))
            if not message.tool_calls:
                break
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls:
                result = weather_of(json.loads(call.function.arguments)["city"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return seen

    def parsed():
        form = {"type": "json_schema", "json_schema": {"name": "place", "schema": PLACE, "strict": True}}
        return json.loads(ask([{"role": "user", "content": "[[object]]"}], False, response_format=form).choices[0].message.content)

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        yield f"text, {way}", lambda stream=stream: scene("text", stream)
        yield f"reasoning, {way}", lambda stream=stream: scene("think", stream)
        yield f"tools, {way}", lambda stream=stream: talk("tools", stream)
        yield f"reasoning and tools, {way}", lambda stream=stream: talk("thinktools", stream)
    yield "object", parsed
    for name in ("limited", "long", "poor"):
        yield f"error {name}", lambda name=name: scene(name, False)


def response_items(response):
    seen = []
    for item in response.output:
        if item.type == "message":
            seen.append(["text", "".join(part.text for part in item.content), item.status, item.role])
        elif item.type == "function_call":
            seen.append(["call", item.name, item.arguments, item.status])
        elif item.type == "reasoning":
            seen.append(["thought", "".join(part.text for part in item.content or [])])
        else:
            seen.append([item.type])
    return seen


@client("openai responses")
def openai_responses():
    import openai

    ours = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30)
    tools = [{"type": "function", "name": "weather", "parameters": CITY, "strict": True}]

    def ask(given, stream, **more):
        if not stream:
            return ours.responses.create(model=RESPONSES, input=given, **more), []
        with ours.responses.stream(model=RESPONSES, input=given, **more) as events:
            kinds = []
            for event in events:
                if not kinds or kinds[-1] != event.type:
                    kinds.append(event.type)
            return events.get_final_response(), kinds

    def scene(name, stream):
        response, kinds = ask(f"[[{name}]]", stream)
        usage = plain(response.usage)
        usage["input_tokens_details"].pop("cache_write_tokens", None)
        return {"items": response_items(response), "usage": usage, "status": response.status, "events": kinds}

    def talk(name, stream, keeps):
        given, seen, before = [{"role": "user", "content": f"[[{name}]] weather?"}], [], None
        for _ in range(3):
            more = {"previous_response_id": before} if keeps and before else {"store": keeps}
            response, kinds = ask(given, stream, tools=tools, **more)
            seen.append([response_items(response), kinds])
            calls = [item for item in response.output if item.type == "function_call"]
            if not calls:
                break
            results = [
                {"type": "function_call_output", "call_id": call.call_id, "output": weather_of(json.loads(call.arguments)["city"])}
                for call in calls
            ]
            before = response.id
            given = results if keeps else given + [item.model_dump(exclude_none=True) for item in response.output] + results
        return seen

    def parsed():
        form = {"format": {"type": "json_schema", "name": "place", "schema": PLACE, "strict": True}}
        return json.loads(ask("[[object]]", False, text=form)[0].output_text)

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        yield f"text, {way}", lambda stream=stream: scene("text", stream)
        yield f"reasoning, {way}", lambda stream=stream: scene("think", stream)
        yield f"tools, {way}", lambda stream=stream: talk("tools", stream, False)
        yield f"reasoning and tools, {way}", lambda stream=stream: talk("thinktools", stream, False)
        yield f"previous_response_id, {way}", lambda stream=stream: talk("tools", stream, True)
    yield "object", parsed
    for name in ("limited", "long", "poor"):
        yield f"error {name}", lambda name=name: scene(name, False)


# Anthropic


def blocks(message):
    seen = []
    for block in message.content:
        if block.type == "text":
            seen.append(["text", block.text])
        elif block.type == "tool_use":
            seen.append(["call", block.name, block.input])
        elif block.type == "thinking":
            seen.append(["thought", block.thinking, block.signature])
        else:
            seen.append([block.type])
    return seen


@client("anthropic")
def anthropic_messages():
    import anthropic

    ours = anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0, timeout=30)
    tools = [{"name": "weather", "description": "The weather.", "input_schema": CITY}]

    def ask(messages, stream, **more):
        fixed = {"model": CLAUDE, "max_tokens": 4000, "messages": messages, **more}
        if not stream:
            return ours.messages.create(**fixed)
        with ours.messages.stream(**fixed) as events:
            for _ in events:
                pass
            return events.get_final_message()

    def scene(name, stream, **more):
        message = ask([{"role": "user", "content": f"[[{name}]]"}], stream, **more)
        return {"blocks": blocks(message), "end": message.stop_reason, "usage": plain(message.usage)}

    def talk(name, stream):
        messages, seen = [{"role": "user", "content": f"[[{name}]] weather?"}], []
        for _ in range(3):
            message = ask(messages, stream, tools=tools)
            seen.append([blocks(message), message.stop_reason])
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                break
            results = [{"type": "tool_result", "tool_use_id": call.id, "content": weather_of(call.input["city"])} for call in calls]
            messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]
        return seen

    def count():
        messages = [{"role": "user", "content": "hello"}]
        return ours.messages.count_tokens(model=CLAUDE, messages=messages).input_tokens

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        yield f"text, {way}", lambda stream=stream: scene("text", stream)
        yield f"reasoning, {way}", lambda stream=stream: scene("think", stream)
        yield f"tools, {way}", lambda stream=stream: talk("tools", stream)
        yield f"reasoning and tools, {way}", lambda stream=stream: talk("thinktools", stream)
    yield "counted tokens", count
    for name in ("limited", "long"):
        yield f"error {name}", lambda name=name: scene(name, False)


# OpenAI's Agents SDK, with its default settings: the Responses API


def agents_shapes(model):
    import agents

    agents.set_tracing_disabled(True)

    @agents.function_tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return weather_of(city)

    agent = agents.Agent(name="matrix", instructions="Be brief.", model=model, tools=[weather])

    def items(result):
        seen = []
        for item in result.new_items:
            raw = plain(item.raw_item)
            fields = {key: raw.get(key) for key in ("type", "name", "arguments", "output", "status") if raw.get(key) is not None}
            if raw.get("content"):
                fields["text"] = "".join(part.get("text") or "" for part in raw["content"])
            seen.append([item.type, fields])
        usage = result.context_wrapper.usage
        return {"items": seen, "final": result.final_output, "usage": [usage.requests, usage.input_tokens, usage.output_tokens]}

    async def streamed(given, session=None):
        result, kinds = agents.Runner.run_streamed(agent, given, session=session), []
        async for event in result.stream_events():
            if event.type == "run_item_stream_event":
                kinds.append(event.name)
        return {**items(result), "events": kinds}

    def resumed():
        session = agents.SQLiteSession("matrix")

        async def both():
            first = await agents.Runner.run(agent, "[[tools]] weather?", session=session)
            second = await agents.Runner.run(agent, "[[count]] again", session=session)
            return [items(first), items(second)]

        return run(both())

    for name, scene in [("text", "text"), ("reasoning", "think"), ("tools", "tools"), ("reasoning and tools", "thinktools")]:
        yield f"{name}, whole", lambda scene=scene: items(agents.Runner.run_sync(agent, f"[[{scene}]] weather?"))
        yield f"{name}, streamed", lambda scene=scene: run(streamed(f"[[{scene}]] weather?"))
    yield "resumed", resumed


@client("openai-agents")
def openai_agents():
    yield from agents_shapes(RESPONSES)


@client("openai-agents chat")
def openai_agents_chat():
    import agents
    import openai

    ours = openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30)
    yield from agents_shapes(agents.OpenAIChatCompletionsModel(OPENAI, ours))


# LangChain


def langchain_shapes(model, places=None):
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    from pydantic import BaseModel

    @tool
    def weather(city: str) -> str:
        """The weather in a city."""
        return weather_of(city)

    class Place(BaseModel):
        """A place."""

        city: str
        degrees: int

    def message(answer):
        content = answer.content
        if isinstance(content, list):
            content = [{key: value for key, value in part.items() if key not in ("id", "index", "signature", "encrypted_content", "status", "call_id")} for part in content]
        calls = [[call["name"], call["args"]] for call in answer.tool_calls]
        return {"content": content, "calls": calls, "usage": plain(answer.usage_metadata)}

    def ask(bound, messages, stream):
        if not stream:
            return bound.invoke(messages)
        whole = None
        for piece in bound.stream(messages):
            whole = piece if whole is None else whole + piece
        return whole

    def talk(name, stream):
        bound, messages, seen = model.bind_tools([weather]), [HumanMessage(f"[[{name}]] weather?")], []
        for _ in range(3):
            answer = ask(bound, messages, stream)
            seen.append(message(answer))
            if not answer.tool_calls:
                break
            messages.append(answer)
            messages += [ToolMessage(weather.invoke(call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls]
        return seen

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        for name, scene in [("text", "text"), ("reasoning", "think")]:
            yield f"{name}, {way}", lambda scene=scene, stream=stream: message(ask(model, [HumanMessage(f"[[{scene}]]")], stream))
        for name, scene in [("tools", "tools"), ("reasoning and tools", "thinktools")]:
            yield f"{name}, {way}", lambda scene=scene, stream=stream: talk(scene, stream)
    yield "object", lambda: plain(model.with_structured_output(Place).invoke("[[object]]"))
    yield "error limited", lambda: message(model.invoke("[[limited]]"))
    yield "error long", lambda: message(model.invoke("[[long]]"))


@client("langchain-openai chat")
def langchain_openai():
    from langchain_openai import ChatOpenAI

    yield from langchain_shapes(ChatOpenAI(model=OPENAI, base_url=V1, api_key=KEY, max_retries=0, stream_usage=True, timeout=30))


@client("langchain-openai responses")
def langchain_responses():
    from langchain_openai import ChatOpenAI

    yield from langchain_shapes(ChatOpenAI(model=RESPONSES, base_url=V1, api_key=KEY, max_retries=0, use_responses_api=True, timeout=30))


@client("langchain-anthropic")
def langchain_anthropic():
    from langchain_anthropic import ChatAnthropic

    yield from langchain_shapes(ChatAnthropic(model=CLAUDE, base_url=BASE, api_key=KEY, max_retries=0, max_tokens=4000, timeout=30))


# LiteLLM


def litellm_shapes(model, **more):
    import litellm

    litellm.suppress_debug_info = True
    litellm.drop_params = True
    tools = [{"type": "function", "function": {"name": "weather", "description": "The weather.", "parameters": CITY}}]

    def ask(messages, stream, **own):
        fixed = {"model": model, "messages": messages, "api_key": KEY, "num_retries": 0, "max_retries": 0, **more, **own}
        if not stream:
            return litellm.completion(**fixed)
        pieces = list(litellm.completion(**fixed, stream=True, stream_options={"include_usage": True}))
        return litellm.stream_chunk_builder(pieces, messages=messages)

    def seen_of(answer):
        message = answer.choices[0].message
        calls = [[call.function.name, json.loads(call.function.arguments)] for call in message.tool_calls or []]
        usage = [answer.usage.prompt_tokens, answer.usage.completion_tokens, answer.usage.total_tokens]
        thought = getattr(message, "reasoning_content", None)
        return {"text": message.content, "thought": thought, "calls": calls, "end": answer.choices[0].finish_reason, "usage": usage}

    def talk(name, stream):
        messages, seen = [{"role": "user", "content": f"[[{name}]] weather?"}], []
        for _ in range(3):
            answer = ask(messages, stream, tools=tools)
            seen.append(seen_of(answer))
            message = answer.choices[0].message
            if not message.tool_calls:
                break
            messages.append(message)
            for call in message.tool_calls:
                result = weather_of(json.loads(call.function.arguments)["city"])
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
        return seen

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        for name, scene in [("text", "text"), ("reasoning", "think")]:
            yield f"{name}, {way}", lambda scene=scene, stream=stream: seen_of(ask([{"role": "user", "content": f"[[{scene}]]"}], stream))
        for name, scene in [("tools", "tools"), ("reasoning and tools", "thinktools")]:
            yield f"{name}, {way}", lambda scene=scene, stream=stream: talk(scene, stream)
    for name in ("limited", "long"):
        yield f"error {name}", lambda name=name: seen_of(ask([{"role": "user", "content": f"[[{name}]]"}], False))


@client("litellm openai")
def litellm_openai():
    yield from litellm_shapes(f"openai/{OPENAI}", api_base=V1)


@client("litellm anthropic")
def litellm_anthropic():
    yield from litellm_shapes(f"anthropic/{CLAUDE}", api_base=BASE)


@client("litellm responses")
def litellm_responses():
    import litellm

    tools = [{"type": "function", "name": "weather", "description": "The weather.", "parameters": CITY}]
    fixed = {"model": f"openai/{RESPONSES}", "api_base": V1, "api_key": KEY, "num_retries": 0}

    def scene(name, stream, **more):
        answer = litellm.responses(input=f"[[{name}]]", stream=stream, **fixed, **more)
        if stream:
            kinds, last = [], None
            for event in answer:
                kind = str(getattr(event.type, "value", event.type))
                if not kinds or kinds[-1] != kind:
                    kinds.append(kind)
                last = event
            return {"events": kinds, "items": response_items(last.response)}
        return {"items": response_items(answer), "status": answer.status}

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        yield f"text, {way}", lambda stream=stream: scene("text", stream)
        yield f"tools, {way}", lambda stream=stream: scene("tools", stream, tools=tools)
    yield "error limited", lambda: scene("limited", False)


# llm, the command of Simon Willison, as a library


@client("llm")
def llm_library():
    import llm
    from llm.default_plugins.openai_models import Chat

    model = Chat("matrix", model_name=OPENAI, api_base=V1, supports_tools=True, supports_schema=True)
    model.key = KEY

    def weather(city: str) -> str:
        """The weather in a city."""
        return weather_of(city)

    def ask(name, stream):
        response = model.prompt(f"[[{name}]]", stream=stream)
        text = response.text()
        usage = response.usage()
        return {"text": text, "usage": [usage.input, usage.output]}

    def chain(stream):
        return model.chain("[[tools]] weather?", tools=[weather], stream=stream).text()

    def resumed():
        conversation = model.conversation()
        return [conversation.prompt("[[count]] one").text(), conversation.prompt("[[count]] two").text()]

    for stream in (False, True):
        way = "streamed" if stream else "whole"
        yield f"text, {way}", lambda stream=stream: ask("text", stream)
        yield f"tools, {way}", lambda stream=stream: chain(stream)
    yield "resumed", resumed
    yield "object", lambda: json.loads(model.prompt("[[object]]", schema=PLACE, stream=False).text())
    yield "error limited", lambda: ask("limited", False)


# pydantic-ai


def pydantic_shapes(model):
    from pydantic import BaseModel
    from pydantic_ai import Agent, NativeOutput, ToolOutput

    class Place(BaseModel):
        """A place."""

        city: str
        degrees: int

    agent = Agent(model, instructions="Be brief.")

    @agent.tool_plain
    def weather(city: str) -> str:
        """The weather in a city."""
        return weather_of(city)

    def messages(result):
        seen = []
        for message in result.all_messages():
            for part in message.parts:
                fields = {"kind": part.part_kind}
                for key in ("content", "tool_name", "args", "signature"):
                    value = getattr(part, key, None)
                    # What a host without state of the service's puts there is its own affair.
                    if value is not None and key != "signature":
                        fields[key] = plain(value)
                seen.append(fields)
        usage = result.usage if not callable(result.usage) else result.usage()
        return {"parts": seen, "usage": [usage.requests, usage.input_tokens, usage.output_tokens, usage.cache_read_tokens]}

    async def streamed(given):
        async with agent.run_stream(given) as result:
            pieces = [piece async for piece in result.stream_text(delta=True, debounce_by=None)]
            return {"text": "".join(pieces), **messages(result)}

    async def looped(given):
        async with agent.iter(given) as turn:
            async for node in turn:
                if Agent.is_model_request_node(node):
                    async with node.stream(turn.ctx) as events:
                        async for _ in events:
                            pass
        return messages(turn.result)

    def resumed():
        first = agent.run_sync("[[tools]] weather?")
        second = agent.run_sync("[[count]] again", message_history=first.all_messages())
        return messages(second)

    for name, scene in [("text", "text"), ("reasoning", "think"), ("tools", "tools"), ("reasoning and tools", "thinktools")]:
        yield f"{name}, whole", lambda scene=scene: messages(agent.run_sync(f"[[{scene}]] weather?"))
        yield f"{name}, streamed", lambda scene=scene: run(looped(f"[[{scene}]] weather?"))
    yield "text, as pieces", lambda: run(streamed("[[text]]"))
    yield "resumed", resumed
    yield "object by a tool", lambda: plain(Agent(model, output_type=ToolOutput(Place)).run_sync("[[object]]").output)
    yield "object by its schema", lambda: plain(Agent(model, output_type=NativeOutput(Place)).run_sync("[[object]]").output)
    yield "error limited", lambda: messages(agent.run_sync("[[limited]]"))


def pydantic_openai():
    import openai
    from pydantic_ai.providers.openai import OpenAIProvider

    return OpenAIProvider(openai_client=openai.AsyncOpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30))


@client("pydantic-ai chat")
def pydantic_chat():
    from pydantic_ai.models.openai import OpenAIChatModel

    yield from pydantic_shapes(OpenAIChatModel(OPENAI, provider=pydantic_openai()))


@client("pydantic-ai responses")
def pydantic_responses():
    from pydantic_ai.models.openai import OpenAIResponsesModel

    yield from pydantic_shapes(OpenAIResponsesModel(RESPONSES, provider=pydantic_openai()))


@client("pydantic-ai anthropic")
def pydantic_anthropic():
    import anthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    ours = anthropic.AsyncAnthropic(base_url=BASE, api_key=KEY, max_retries=0, timeout=30)
    yield from pydantic_shapes(AnthropicModel(CLAUDE, provider=AnthropicProvider(anthropic_client=ours)))


# instructor


@client("instructor")
def instructor_client():
    import anthropic
    import instructor
    import openai
    from pydantic import BaseModel

    class Place(BaseModel):
        city: str
        degrees: int

    said = [{"role": "user", "content": "[[object]]"}]

    def by(mode):
        ours = instructor.from_openai(openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30), mode=mode)
        return plain(ours.chat.completions.create(model=OPENAI, messages=said, response_model=Place, max_retries=1))

    def partial():
        ours = instructor.from_openai(openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30))
        pieces = list(ours.chat.completions.create_partial(model=OPENAI, messages=said, response_model=Place, max_retries=1))
        return plain(pieces[-1])

    def responses():
        ours = openai.OpenAI(base_url=V1, api_key=KEY, max_retries=0, timeout=30)
        ours = instructor.from_openai(ours, mode=instructor.Mode.RESPONSES_TOOLS)
        return plain(ours.responses.create(model=RESPONSES, input="[[object]]", response_model=Place, max_retries=1))

    def claude():
        ours = instructor.from_anthropic(anthropic.Anthropic(base_url=BASE, api_key=KEY, max_retries=0, timeout=30))
        return plain(ours.messages.create(model=CLAUDE, max_tokens=999, messages=said, response_model=Place, max_retries=1))

    yield "tools", lambda: by(instructor.Mode.TOOLS)
    yield "JSON", lambda: by(instructor.Mode.JSON)
    yield "JSON schema", lambda: by(instructor.Mode.JSON_SCHEMA)
    yield "partial", partial
    yield "responses", responses
    yield "anthropic", claude


def error_of(error):
    """The classes of an error that an application can tell apart, with its status and code."""
    seen = {"error": type(error).__name__, "status": getattr(error, "status_code", None), "code": getattr(error, "code", None)}
    return {key: value for key, value in seen.items() if value is not None}


def main():
    without = json.loads(os.environ.get("MATRIX_WITHOUT", "[]"))
    for name, shapes in clients.items():
        if name in without or len(sys.argv) > 2 and name not in sys.argv[2:]:
            continue
        try:
            for shape, look in shapes():
                try:
                    saw = plain(look())
                except Exception as error:
                    saw = error_of(error)
                    if os.environ.get("MATRIX_ERRORS"):
                        import traceback

                        traceback.print_exc()
                print(json.dumps({"client": name, "shape": shape, "saw": saw}), flush=True)
        except Exception as error:
            print(json.dumps({"client": name, "shape": "starts", "saw": {"error": repr(error)[:300]}}), flush=True)


main()
