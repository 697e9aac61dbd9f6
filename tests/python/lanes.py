"""OpenAI's own Python client puts streams together, with strict tools that may be called in parallel.

Usage: lanes.py BASE_URL FILE. Each line of the file has the `model` and the `number` of a stream. For each a line
goes to stdout: the message as the client has it in the end, and the arguments of each call when it was done.
"""

import json
import sys

import openai

client = openai.OpenAI(base_url=sys.argv[1], api_key="sk-test", max_retries=0, timeout=60)


def tool(name):
    schema = {
        "type": "object",
        "properties": {"location": {"type": "string"}},
        "required": ["location"],
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "strict": True, "parameters": schema}}


with open(sys.argv[2], encoding="utf-8") as lines:
    for line in lines:
        asked = json.loads(line)
        seen = {**asked, "error": None, "done": []}
        try:
            with client.chat.completions.stream(
                model=asked["model"],
                messages=[{"role": "user", "content": str(asked["number"])}],
                tools=[tool("f0"), tool("f1")],
            ) as stream:
                for event in stream:
                    if event.type == "tool_calls.function.arguments.done":
                        seen["done"].append(event.arguments)
                message = stream.get_final_completion().choices[0].message
            seen["message"] = json.loads(message.to_json())
        except Exception as error:  # whatever it is, the test shows it
            seen["error"] = f"{type(error).__name__}: {error}"
        print(json.dumps(seen))
