"""OpenAI's and Anthropic's own Python clients put streams together that were cut on their way.

Usage: raw.py BASE_URL FILE. Each line of the file has the `endpoint` (`chat`, `messages` or `responses`), the `model` and the `text`
that is said. For each a line goes to stdout: what was asked, with the parts of the answer as the client has them.
"""

import json
import sys

import openai

try:
    import anthropic
except ImportError:
    anthropic = None

chat = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="sk-test", max_retries=0, timeout=60)
messages = anthropic and anthropic.Anthropic(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=60)


def choices_of(asked):
    with chat.chat.completions.stream(
        model=asked["model"], messages=[{"role": "user", "content": asked["text"]}]
    ) as stream:
        for _ in stream:
            pass
        completion = json.loads(stream.get_final_completion().to_json())
    parts = []
    for choice in completion["choices"]:
        message = choice["message"]
        parts.append({key: message.get(key) for key in ("content", "refusal", "tool_calls", "function_call")})
    return parts


def blocks_of(asked):
    with messages.messages.stream(
        model=asked["model"], max_tokens=100, messages=[{"role": "user", "content": asked["text"]}]
    ) as stream:
        for _ in stream:
            pass
        return json.loads(stream.get_final_message().to_json())["content"]


def said_of(asked):
    with chat.responses.stream(model=asked["model"], input=asked["text"], store=False) as stream:
        for _ in stream:
            pass
        response = json.loads(stream.get_final_response().to_json())
    said = {"text": [], "refusal": [], "thought": [], "calls": []}
    for item in response["output"]:
        for part in item.get("content") or []:
            kinds = {"output_text": "text", "refusal": "refusal", "reasoning_text": "thought"}
            kind = kinds[part["type"]]
            said[kind].append(part["refusal" if kind == "refusal" else "text"])
        if item["type"] in ("function_call", "custom_tool_call"):
            said["calls"].append([item["name"], item.get("arguments", item.get("input"))])
    return [said]


READERS = {"chat": choices_of, "messages": blocks_of, "responses": said_of}

with open(sys.argv[2], encoding="utf-8") as lines:
    for line in lines:
        asked = json.loads(line)
        if asked["endpoint"] == "messages" and not messages:
            continue
        seen = {**asked, "error": None, "parts": []}
        try:
            seen["parts"] = READERS[asked["endpoint"]](asked)
        except Exception as error:  # whatever it is, the test shows it
            seen["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(seen))
