"""OpenAI's own Python client against a running host.

Usage: openai_client.py BASE_URL. The host refuses messages that say `refuse`, `slow` or `break`.
"""

import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=20)


def ask(text, model="mock-1", **more):
    return client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": text}], **more
    )


def fails(expected, status, words, text, **more):
    try:
        answer = ask(text, **more)
        for _ in answer if more.get("stream") else ():
            pass
    except openai.APIError as error:
        assert type(error) is expected, f"{text}: {type(error)} is not {expected}: {error}"
        assert getattr(error, "status_code", None) == status, f"{text}: {error}"
        assert words in error.message, f"{text}: {words!r} is not in {error.message!r}"
        return error
    raise AssertionError(f"{text}: no error")


def chats():
    answer = ask("hi", temperature=0.5, extra_body={"own_field": {"b": 1, "a": 2}})
    assert answer.choices[0].message.content == "hello from upstream (seen)", answer
    assert answer.choices[0].finish_reason == "stop", answer
    assert answer.usage.total_tokens == 2, answer


def streams():
    chunks = list(ask("hi", stream=True, stream_options={"include_usage": True}))
    said = [chunk.choices[0] for chunk in chunks if chunk.choices]
    assert "".join(choice.delta.content or "" for choice in said) == "hello from upstream (seen)", chunks
    assert [choice.finish_reason for choice in said if choice.finish_reason] == ["stop"], chunks
    demo = "".join(chunk.choices[0].delta.content or "" for chunk in ask("good day", model="demo", stream=True))
    assert demo.startswith("You said: good day"), demo


def reads_raw_headers():
    raw = client.chat.completions.with_raw_response.create(
        model="mock-1", messages=[{"role": "user", "content": "hi"}]
    )
    assert int(raw.headers["x-valvehouse-generation"]) >= 1, raw.headers


DOOR = {
    "type": "function",
    "function": {"name": "open_door", "parameters": {"type": "object", "properties": {}}},
}


def sees_tools_run_at_the_host_and_gets_its_own_to_run():
    for stream in (False, True):
        answer = ask("/count_apples\n/count_pears\n\n/count_plums", model="helper", stream=stream)
        if stream:
            text = "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
        else:
            assert not answer.choices[0].message.tool_calls, answer
            text = answer.choices[0].message.content
        assert all(counted in text for counted in ("apples 1", "pears 2", "plums 3")), text
        answer = ask("/open_door", model="helper", tools=[DOOR], stream=stream)
        if stream:
            deltas = [call for chunk in answer for call in chunk.choices[0].delta.tool_calls or ()]
            assert [delta.function.name for delta in deltas if delta.function.name] == ["open_door"], deltas
        else:
            [call] = answer.choices[0].message.tool_calls
            assert (call.function.name, answer.choices[0].finish_reason) == ("open_door", "tool_calls"), answer


def lists_models():
    # Filters stand there as well, for Open WebUI.
    names = [model.id for model in client.models.list() if (getattr(model, "pipeline", None) or {}).get("type") != "filter"]
    assert names == ["demo", "mock-1", "helper"], names
    assert client.models.retrieve("demo").owned_by == "demo"


def sees_errors_as_what_they_are():
    for stream in (False, True):
        error = fails(openai.BadRequestError, 400, "refused by the house", "refuse", stream=stream)
        assert error.code == "rules", error.code
        error = fails(openai.RateLimitError, 429, "come back later", "slow", stream=stream)
        assert error.response.headers["retry-after"] == "3", error.response.headers
        fails(openai.PermissionDeniedError, 403, "not for you", "deny", stream=stream)
        fails(openai.InternalServerError, 500, "the plugin `rules` failed", "break", stream=stream)
        fails(openai.NotFoundError, 404, "did you mean `demo`", "hi", model="demmo", stream=stream)
        fails(openai.RateLimitError, 429, "the service is busy", "busy", stream=stream)
    # Half an answer is not taken for a whole one.
    fails(openai.APIError, None, "ended early", "cut", stream=True)


for check in (
    chats,
    streams,
    reads_raw_headers,
    sees_tools_run_at_the_host_and_gets_its_own_to_run,
    lists_models,
    sees_errors_as_what_they_are,
):
    check()
    print(f"{check.__name__}: ok")
print(f"openai {openai.__version__}: all well")
