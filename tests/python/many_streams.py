"""OpenAI's own Python client reads many streams, and says what it saw of each.

Usage: many_streams.py BASE_URL FILE. Each line of the file is a request: `number`, `body`, `headers`, and
`helper`: whether the client shall put the stream together itself. For each a line goes to stdout.
"""

import asyncio
import json
import sys

import openai

AT_ONCE = 32
client = openai.AsyncOpenAI(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=120)


def nothing():
    return {"text": "", "thought": "", "calls": [], "finishes": [], "roles": 0, "after": 0}


def note_delta(own, delta):
    if own["finishes"] and (delta.content or delta.tool_calls):
        own["after"] += 1
    own["roles"] += 1 if delta.role else 0
    own["text"] += delta.content or ""
    own["thought"] += getattr(delta, "reasoning_content", None) or ""
    for piece in delta.tool_calls or ():
        calls = own["calls"]
        while len(calls) <= piece.index:
            calls.append(["", "", ""])
        call = calls[piece.index]
        call[0] = piece.id or call[0]
        call[1] = piece.function.name or call[1]
        call[2] += piece.function.arguments or ""


async def read(request, seen):
    body = dict(request["body"])
    known = {key: body.pop(key) for key in ("model", "messages", "stream")}
    ids = set()
    stream = await client.chat.completions.create(**known, extra_body=body, extra_headers=request["headers"])
    try:
        async for chunk in stream:
            if getattr(chunk, "event", None):
                seen["emitted"] += 1
                continue
            ids.add(chunk.id)
            seen["usage"] += 1 if chunk.usage else 0
            for choice in chunk.choices:
                own = seen["choices"].setdefault(choice.index, nothing())
                note_delta(own, choice.delta)
                if choice.finish_reason:
                    own["finishes"].append(choice.finish_reason)
    finally:
        seen["ids"] = len(ids)


async def read_with_helper(request, seen):
    body = dict(request["body"])
    known = {key: body.pop(key) for key in ("model", "messages")}
    body.pop("stream")
    async with client.chat.completions.stream(**known, extra_body=body) as stream:
        answer = await stream.get_final_completion()
    seen["usage"] = 1 if answer.usage else 0
    for choice in answer.choices:
        own = seen["choices"].setdefault(choice.index, nothing())
        own["text"] = choice.message.content or ""
        for call in choice.message.tool_calls or ():
            json.loads(call.function.arguments)
            own["calls"].append([call.id, call.function.name, call.function.arguments])
        own["finishes"].append(choice.finish_reason)


async def run(request, turn):
    seen = {"number": request["number"], "choices": {}, "usage": 0, "emitted": 0, "ids": 0, "error": None}
    async with turn:
        try:
            await (read_with_helper if request["helper"] else read)(request, seen)
        except openai.APIError as error:
            seen["error"] = {"status": getattr(error, "status_code", None), "message": error.message}
        except Exception as error:  # what the client cannot read is for the test to tell
            seen["error"] = {"status": None, "message": f"the client broke: {error!r}"}
    for own in seen["choices"].values():
        # Where a filter took a whole call away.
        own["calls"] = [call for call in own["calls"] if any(call)]
    print(json.dumps(seen))


async def main():
    with open(sys.argv[2], encoding="utf-8") as file:
        requests = [json.loads(line) for line in file]
    turn = asyncio.Semaphore(AT_ONCE)
    await asyncio.gather(*(run(request, turn) for request in requests))


asyncio.run(main())
