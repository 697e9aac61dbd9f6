"""OpenAI's own Python client with responses in the background and conversations.

Usage: background_client.py BASE_URL. `wait` is answered with two words and no end.
"""

import sys
import time

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=20)


def over(response):
    while response.status in ("queued", "in_progress"):
        time.sleep(0.05)
        response = client.responses.retrieve(response.id)
    return response


def background():
    queued = client.responses.create(model="mock-1", input="hi", background=True)
    assert queued.status == "queued" and queued.background, queued
    done = over(queued)
    assert done.status == "completed" and done.output_text == "hello", done


def resumed():
    events = client.responses.create(model="mock-1", input="hi", background=True, stream=True)
    first = next(iter(events))
    events.close()
    assert first.type == "response.created", first
    rest = client.responses.retrieve(first.response.id, stream=True, starting_after=first.sequence_number)
    rest = list(rest)
    assert [event.sequence_number for event in rest] == list(range(1, len(rest) + 1)), rest
    assert rest[-1].type == "response.completed" and rest[-1].response.output_text == "hello", rest[-1]
    with client.responses.stream(response_id=first.response.id, starting_after=2) as events:
        names = [event.type for event in events]
        assert events.get_final_response().output_text == "hello", names
    assert names[-1] == "response.completed", names


def canceled():
    queued = client.responses.create(model="mock-1", input="wait", background=True)
    stopped = client.responses.cancel(queued.id)
    assert stopped.status == "cancelled", stopped
    assert client.responses.retrieve(queued.id).status == "cancelled"


def conversations():
    conversation = client.conversations.create(
        items=[{"type": "message", "role": "user", "content": "I am Ann"}], metadata={"topic": "names"}
    )
    said = client.responses.create(model="mock-1", input="who am I?", conversation=conversation.id)
    assert said.conversation.id == conversation.id, said
    items = client.conversations.items.list(conversation.id, order="asc").data
    assert [item.role for item in items] == ["user", "user", "assistant"], items
    added = client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "more"}])
    found = client.conversations.items.retrieve(added.data[0].id, conversation_id=conversation.id)
    assert found.content[0].text == "more", found
    client.conversations.items.delete(found.id, conversation_id=conversation.id)
    changed = client.conversations.update(conversation.id, metadata={"topic": "else"})
    assert changed.metadata == {"topic": "else"}, changed
    assert client.conversations.retrieve(conversation.id).id == conversation.id
    # More items than a page.
    for _ in range(2):
        client.conversations.items.create(conversation.id, items=[{"role": "user", "content": "x"}] * 15)
    assert len(list(client.conversations.items.list(conversation.id, limit=10))) == 33
    assert client.conversations.delete(conversation.id).deleted
    try:
        client.conversations.retrieve(conversation.id)
    except openai.NotFoundError:
        return
    raise AssertionError("a deleted conversation is found")


for part in (background, resumed, canceled, conversations):
    part()
print("background and conversations: all well with OpenAI's own client", openai.__version__)
