"""Checks bodies of chat protocols against the types of the official clients.

Each line of standard input is [name, value]: a request, an answer or an event of a protocol. Requests must have only the
fields that the types of parameters have, because services refuse others; answers must fit strictly. Prints what does not
fit, and exits with 1 if anything does not.
"""

import json

import pydantic
from anthropic.types import Message, RawMessageStreamEvent
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from judging import judge
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.completion_create_params import (
    CompletionCreateParamsNonStreaming,
)
from openai.types.responses import Response, ResponseStreamEvent
from openai.types.responses.response_create_params import (
    ResponseCreateParamsNonStreaming,
)

KINDS = {
    "chat request": CompletionCreateParamsNonStreaming,
    "messages request": MessageCreateParamsNonStreaming,
    "responses request": ResponseCreateParamsNonStreaming,
    "chat answer": ChatCompletion,
    "chat event": ChatCompletionChunk,
    "messages answer": Message,
    "messages event": RawMessageStreamEvent,
    "responses answer": Response,
    "responses event": ResponseStreamEvent,
}
ADAPTERS = {name: pydantic.TypeAdapter(kind) for name, kind in KINDS.items()}


# Settings that the types do not have: Anthropic's for its older models and its betas, and those that only the schema of
# Open Responses has.
OTHERS = {
    ".temperature",
    ".top_p",
    ".top_k",
    ".context_management",
    ".mcp_servers",
    ".presence_penalty",
    ".frequency_penalty",
}


def whole(value):
    """The value with its iterators read, which validates them."""
    if isinstance(value, dict):
        return {key: whole(inner) for key, inner in value.items()}
    if isinstance(value, (str, bytes, int, float, type(None))):
        return value
    return [whole(inner) for inner in value]


def lost(sent, kept, path=""):
    """The fields that a type does not have: validation drops them."""
    if isinstance(sent, dict) and isinstance(kept, dict):
        for key, value in sent.items():
            if f"{path}.{key}" in OTHERS:
                continue
            if key in kept:
                yield from lost(value, kept[key], f"{path}.{key}")
            else:
                yield f"{path}.{key}: unknown"
    elif isinstance(sent, list) and isinstance(kept, list):
        for at, (one, other) in enumerate(zip(sent, kept)):
            yield from lost(one, other, f"{path}.{at}")


def with_ids(request):
    """A request of Responses whose items of the model have an id and a status, which the service does not require."""
    items = [
        {"id": "msg_1", "status": "completed", **item}
        if item.get("role") == "assistant" or item.get("type") == "reasoning"
        else item
        for item in request["input"]
    ]
    return {**request, "input": items}


def problems(name, value):
    if name == "responses request":
        value = with_ids(value)
    # Strict: a number in the place of a text is not taken for it.
    if name.endswith("request"):
        return list(lost(value, whole(ADAPTERS[name].validate_python(value, strict=True))))
    ADAPTERS[name].validate_json(json.dumps(value), strict=True)
    return []


judge(problems, "as the clients' types describe them")
