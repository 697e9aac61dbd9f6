"""OpenAI's own Python client for routes beside chats, and for Azure's paths, against a running host.

Usage: routes_client.py BASE_URL, which ends in /v1.
"""

import io
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=20)


def embeds():
    answer = client.embeddings.create(model="mock-1", input=["a", "b"], encoding_format="float")
    assert answer.data[0].embedding == [0.5, 1.0], answer
    request = client.embeddings.with_raw_response.create(model="mock-1", input="a")
    assert request.headers["x-request-id"] == "req_1", request.headers


def speaks_and_listens():
    with client.audio.speech.with_streaming_response.create(
        model="mock-1", voice="alloy", input="hello"
    ) as answer:
        assert answer.read() == bytes(range(256)), "the bytes differ"
    text = client.audio.transcriptions.create(model="mock-1", file=("a.wav", io.BytesIO(b"RIFF" * 50_000)))
    assert text.text == "heard", text


def keeps_files():
    file = client.files.create(file=("a.jsonl", io.BytesIO(b"{}\n" * 50_000)), purpose="batch")
    assert file.id == "file-1", file
    assert client.files.content("file-1").read() == b"content"
    assert client.files.delete("file-1").deleted


def completes_and_moderates():
    events = client.completions.create(model="mock-1", prompt="one", stream=True)
    assert "".join(event.choices[0].text for event in events) == "two", "another text"
    assert not client.moderations.create(model="mock-1", input="x").results[0].flagged


def is_told_what_is_missing():
    assert len(client.embeddings.create(model="demo", input="x").data[0].embedding) > 1
    try:
        client.moderations.create(model="demo", input="x")
    except openai.NotFoundError as error:
        assert "provider demo does not serve /v1/moderations" in error.message, error
    else:
        raise AssertionError("no error")


def speaks_azure():
    azure = openai.AzureOpenAI(
        azure_endpoint=sys.argv[1].removesuffix("/v1"), api_key="k", api_version="2024-10-21", max_retries=0
    )
    answer = azure.chat.completions.create(model="mock-1", messages=[{"role": "user", "content": "hi"}])
    assert answer.choices[0].message.content == "hello from upstream", answer
    assert azure.embeddings.create(model="mock-1", input="a", encoding_format="float").data


for check in [embeds, speaks_and_listens, keeps_files, completes_and_moderates, is_told_what_is_missing, speaks_azure]:
    check()
print("all well")
