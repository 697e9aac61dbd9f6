"""Anthropic's own Python client against a running host.

Usage: anthropic_client.py BASE_URL. Behind `mock-1` is a service that speaks as OpenAI does, behind
`claude-1` and `clerk` one that speaks as Anthropic does.
"""

import sys

import anthropic

client = anthropic.Anthropic(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=20)

TOOL = {
    "name": "open_door",
    "description": "Opens the door.",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}},
}
IMAGE = {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}


def ask(messages, model="mock-1", stream=False, **more):
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    if not stream:
        return client.messages.create(model=model, max_tokens=100, messages=messages, **more)
    with client.messages.stream(model=model, max_tokens=100, messages=messages, **more) as events:
        for _ in events:
            pass
        return events.get_final_message()


def text_of(message):
    return "".join(block.text for block in message.content if block.type == "text")


def fails(expected, status, words, text, **more):
    try:
        ask(text, **more)
    except anthropic.APIStatusError as error:
        assert isinstance(error, expected), f"{text}: {type(error)} is not {expected}: {error}"
        assert error.status_code == status, f"{text}: {error}"
        assert words in error.message, f"{text}: {words!r} is not in {error.message!r}"
        assert error.body["type"] == "error" and error.body["error"]["message"], error.body
        return error
    raise AssertionError(f"{text}: no error")


def chats_and_streams():
    for stream in (False, True):
        for model, who in (("mock-1", "upstream"), ("claude-1", "claude")):
            answer = ask("hi", model=model, stream=stream, system="Be brief.", extra_body={"temperature": 0.5})
            assert text_of(answer) == f"HELLO from {who} (seen)", answer
            assert answer.stop_reason == "end_turn" and answer.role == "assistant", answer
            # OpenAI's count has what came from the cache in it.
            assert answer.usage.output_tokens == {"upstream": 1, "claude": 9}[who] or stream, answer
        assert text_of(ask("good day", model="demo", stream=stream)).startswith("You said: good day")


def streams_raw_events():
    events = list(client.messages.create(
        model="claude-1", max_tokens=9, messages=[{"role": "user", "content": "hi"}], stream=True
    ))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["message_start", "content_block_start"], kinds
    assert kinds[-3:] == ["content_block_stop", "message_delta", "message_stop"], kinds
    assert events[-2].usage.output_tokens == 9 and events[-2].usage.input_tokens == 5, events[-2]


def sees_images():
    content = [{"type": "image", "source": IMAGE}, {"type": "text", "text": "What is this?"}]
    for model in ("mock-1", "claude-1"):
        assert "HELLO" in text_of(ask([{"role": "user", "content": content}], model=model))


def sees_tools_run_at_the_host():
    for stream in (False, True):
        text = text_of(ask("/count_apples\n/count_pears\n\n/count_plums", model="helper", stream=stream))
        assert all(counted in text for counted in ("apples 1", "pears 2", "plums 3")), text
        answer = ask("call get_weather", model="clerk", stream=stream)
        assert "The tool said: 20 degrees in Bonn" in text_of(answer), answer
        assert all(block.type != "tool_use" for block in answer.content), answer


def runs_tools_itself_and_keeps_what_was_thought():
    for stream in (False, True):
        messages = [{"role": "user", "content": "call open_door"}]
        more = {"model": "claude-1", "tools": [TOOL], "stream": stream}
        answer = ask(messages, **more, thinking={"type": "enabled", "budget_tokens": 1024})
        assert answer.stop_reason == "tool_use", answer
        # What the outlet adds comes after what was streamed.
        thinking, text, call, *_ = answer.content
        assert (thinking.thinking, thinking.signature) == ("I need a tool.", "c2lnbmF0dXJl"), thinking
        assert (call.name, call.input) == ("open_door", {"city": "Bonn"}), call
        result = {"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": "open"}]}
        # A filter's words came after the model's, which is no reason to forget what it thought.
        messages += [{"role": "assistant", "content": answer.content}, {"role": "user", "content": [result]}]
        assert text_of(ask(messages, **more)) == "The tool said: open (seen)"


def reads_what_was_found():
    for stream in (False, True):
        answer = ask("search", model="claude-1", stream=stream)
        kinds = [block.type for block in answer.content]
        assert kinds[:3] == ["server_tool_use", "web_search_tool_result", "text"], kinds
        assert answer.content[0].input == {"query": "ruby"}, answer
        assert answer.content[2].citations[0].url == "https://r.example", answer


def lists_models():
    names = [model.id for model in client.models.list()]
    assert {"demo", "mock-1", "claude-1", "clerk"} <= set(names), names
    assert client.models.retrieve("demo").display_name == "demo"


def sees_errors_as_what_they_are():
    for stream in (False, True):
        fails(anthropic.BadRequestError, 400, "refused by the house", "refuse", stream=stream)
        error = fails(anthropic.RateLimitError, 429, "come back later", "slow", stream=stream)
        assert error.response.headers["retry-after"] == "3", error.response.headers
        fails(anthropic.PermissionDeniedError, 403, "not for you", "deny", stream=stream)
        fails(anthropic.InternalServerError, 500, "the plugin `rules` failed", "break", stream=stream)
        fails(anthropic.NotFoundError, 404, "did you mean `demo`", "hi", model="demmo", stream=stream)
        fails(anthropic.RateLimitError, 429, "the service is busy", "busy", stream=stream)
        fails(anthropic.APIStatusError, 529, "Overloaded", "busy", model="claude-1", stream=stream)
    # Half an answer is not taken for a whole one.
    fails(anthropic.APIStatusError, 200, "ended early", "cut", stream=True)
    fails(anthropic.APIStatusError, 200, "ended early", "cut", model="claude-1", stream=True)
    fails(anthropic.APIStatusError, 200, "Overloaded", "late", model="claude-1", stream=True)


for check in (
    chats_and_streams,
    streams_raw_events,
    sees_images,
    sees_tools_run_at_the_host,
    runs_tools_itself_and_keeps_what_was_thought,
    reads_what_was_found,
    lists_models,
    sees_errors_as_what_they_are,
):
    check()
    print(f"{check.__name__}: ok")
print(f"anthropic {anthropic.__version__}: all well")
