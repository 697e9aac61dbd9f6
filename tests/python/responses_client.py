"""OpenAI's own Python client at the Responses API of a running host.

Usage: responses_client.py BASE_URL. Behind `mock-1` is a service that only has chat completions.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=20)

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Applies a patch."}


def ask(text, stream, **more):
    """The final response. Of a stream, its events have to agree with it."""
    if not stream:
        return client.responses.create(model="mock-1", input=text, **more)
    with client.responses.stream(model="mock-1", input=text, **more) as events:
        names, numbers, ids, added = [], [], set(), {}
        for event in events:
            names.append(event.type)
            numbers.append(event.sequence_number)
            if event.type in ("response.created", "response.in_progress", "response.completed"):
                ids.add(event.response.id)
            if event.type == "response.output_item.added":
                added[event.output_index] = event.item.id
            if event.type == "response.output_item.done":
                assert added[event.output_index] == event.item.id, event
        final = events.get_final_response()
    assert names[:2] == ["response.created", "response.in_progress"], names
    assert names[-1] in ("response.completed", "response.incomplete"), names
    assert numbers == list(range(len(numbers))), numbers
    assert ids == {final.id} or names[-1] == "response.incomplete", ids
    return final


def texts():
    for stream in (False, True):
        said = ask("hello", stream)
        assert said.output_text == "HELLO from upstream", said
        assert said.status == "completed" and said.object == "response", said


def tools():
    for stream in (False, True):
        said = ask("call", stream, tools=[WEATHER, PATCH])
        kinds = [item.type for item in said.output]
        assert kinds == ["function_call", "function_call", "custom_tool_call"], said.output
        cities = [json.loads(item.arguments)["city"] for item in said.output[:2]]
        assert cities == ["Oslo", "Lima"], cities
        assert len({item.call_id for item in said.output}) == 3, said.output
        assert said.output[2].input == '*** Begin "Patch"\n+1', said.output[2]


def goes_on():
    """A conversation goes on by the id of what was said last, and without it by its items."""
    for stream in (False, True):
        first = ask("my name is Ann", stream)
        ask("who am I?", stream, previous_response_id=first.id)
        found = client.responses.retrieve(first.id)
        assert found.output_text == first.output_text, found
        items = client.responses.input_items.list(first.id).data
        assert items[0].content[0].text == "my name is Ann" and items[0].id, items
        client.responses.delete(first.id)
        for call in (lambda: client.responses.retrieve(first.id), lambda: client.responses.delete(first.id)):
            fails(openai.NotFoundError, 404, first.id, call)
        fails(
            openai.BadRequestError, 400, "previous response", lambda: ask("more", stream, previous_response_id=first.id)
        )
        kept = ask("not kept", stream, store=False)
        fails(openai.NotFoundError, 404, kept.id, lambda: client.responses.retrieve(kept.id))


def fails(expected, status, words, call):
    try:
        call()
    except openai.APIStatusError as error:
        assert isinstance(error, expected), f"{type(error)} is not {expected}: {error}"
        assert error.status_code == status and words in error.message, error
        return
    raise AssertionError(f"{words}: no error")


def errors():
    for stream in (False, True):
        fails(openai.BadRequestError, 400, "refused by the house", lambda: ask("refuse", stream))
        fails(openai.RateLimitError, 429, "come back later", lambda: ask("slow", stream))
        fails(openai.PermissionDeniedError, 403, "not for you", lambda: ask("deny", stream))
    search = {"type": "web_search"}
    said = client.responses.with_raw_response.create(model="mock-1", input="hello", tools=[search, WEATHER])
    assert said.headers["x-valvehouse-left-out"] == "web_search", said.headers
    fails(
        openai.BadRequestError,
        400,
        "cannot force the tool `web_search`",
        lambda: ask("hello", False, tools=[search], tool_choice={"type": "web_search"}),
    )


def cut():
    events = client.responses.create(model="mock-1", input="cut", stream=True)
    try:
        names = [event.type for event in events]
    except openai.APIError:
        return
    assert names[-2:] == ["error", "response.failed"], names


for part in (texts, tools, goes_on, errors, cut):
    part()
print("the Responses API: all well with OpenAI's own client", openai.__version__)
