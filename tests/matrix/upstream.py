"""A service of one's own with a script: chat completions, Responses and Messages, whole and streamed.

Each request names its scene as [[scene]] in what its user wrote last; all three protocols play the same scenes. What
the service was sent is kept in memory: GET /requests returns it, as one list, and forgets it.
"""

import http.server
import itertools
import json
import re
import threading

THOUGHT = "The user wants the weather. I will look it up — twice. 雪"
SIGNATURE = "c2lnbmF0dXJlLW9mLXRoZS10aG91Z2h0"
TEXT = "Grüße aus Zürich: the quick brown fox 🦊 jumps over \"lazy\" dogs.\n\n1. one\n2. two\n"
CITIES = ["Oslo", 'Lima, "PE"']
OBJECT = {"city": "Zürich", "degrees": -3}
USAGE = {"input": 21, "cached": 5, "output": 13, "reasoning": 4}


def between_calls():
    """What the scene `mcp` does after its first call; a test puts its own in this place."""


seen = []
lock = threading.Lock()
numbers = itertools.count(1)


def texts(content):
    """The texts of a content, in any of the three protocols."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return ""


class Talk:
    """A conversation as far as a scene looks at it."""

    def __init__(self):
        self.users, self.results, self.thoughts, self.scene = [], [], [], ""

    def think(self, text):
        if text:
            self.thoughts.append(text)

    def user(self, text):
        scenes = re.findall(r"\[\[(\w+)\]\]", text)
        if scenes:
            self.scene, self.results = scenes[-1], []
            self.users.append(text)

    def result(self, content):
        self.results.append(texts(content))


def chat_talk(body):
    talk = Talk()
    for message in body["messages"]:
        if message["role"] == "user":
            talk.user(texts(message["content"]))
        elif message["role"] == "tool":
            talk.result(message["content"])
        elif message["role"] == "assistant":
            talk.think(message.get("reasoning_content"))
    return talk


def messages_talk(body):
    talk = Talk()
    for message in body["messages"]:
        content = message["content"]
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if part["type"] == "tool_result":
                talk.result(part.get("content"))
            elif part["type"] == "thinking":
                whole = part["thinking"] == THOUGHT and part["signature"] == SIGNATURE
                talk.thoughts.append(THOUGHT if whole else "torn")
            elif part["type"] == "text" and message["role"] == "user":
                talk.user(part["text"])
    return talk


kept = {}  # the conversations of responses, by id


def responses_items(body):
    given = body.get("input") or []
    if isinstance(given, str):
        given = [{"type": "message", "role": "user", "content": given}]
    before = kept.get(body.get("previous_response_id"), [])
    known = {item["id"]: item for items in kept.values() for item in items if "id" in item}
    return before + [known[item["id"]] if item.get("type") == "item_reference" else item for item in given]


def responses_talk(body):
    talk = Talk()
    for item in responses_items(body):
        kind = item.get("type", "message")
        if kind == "message" and item["role"] == "user":
            talk.user(texts(item["content"]))
        elif kind.endswith("_output"):
            talk.result(item["output"])
        elif kind == "reasoning":
            talk.think("".join(part["text"] for part in item.get("content") or item.get("summary") or []))
    return talk


def tools_of(body):
    """The names of the tools of a request, with their parameters."""
    found = {}
    for tool in body.get("tools") or []:
        for one in tool.get("tools") or []:
            found[f"{tool['name']}__{one['name']}"] = one.get("parameters") or {}
        inner = tool.get("function") or tool.get("custom") or tool
        if inner.get("name"):
            found[inner["name"]] = inner.get("parameters") or inner.get("input_schema") or {}
    return found


def shell_call(tools, word):
    """A call of the shell that a coding agent has, whatever its name."""
    for name, schema in tools.items():
        fields = schema.get("properties", {})
        if name == "Bash":
            return name, {"command": f"echo {word}", "description": "says a word"}
        if name == "exec_command":
            return name, {"cmd": f"echo {word}"}
        if name in ("shell_command",):
            return name, {"command": f"echo {word}"}
        if name == "shell" and fields.get("command", {}).get("type") == "array":
            return name, {"command": ["bash", "-lc", f"echo {word}"]}
    return None


def play(body, talk):
    """What is answered: thought, text, calls; or an error."""
    tools, scene = tools_of(body), talk.scene
    answer = {"thought": None, "text": None, "calls": []}
    if scene == "think" or scene == "thinktools":
        answer["thought"] = THOUGHT
    if scene in ("text", "think"):
        answer["text"] = TEXT
    elif scene in ("tools", "thinktools"):
        if len(talk.results) < 2:
            answer["text"] = "Let me look. " if scene == "tools" else None
            answer["calls"] = [("weather", {"city": city}) for city in CITIES]
        else:
            answer["thought"] = None
            remembers = {1: " I thought whole.", 0: ""}.get(len(talk.thoughts), " I thought twice.")
            torn = " TORN." if any(thought != THOUGHT for thought in talk.thoughts) else ""
            answer["text"] = "Found: " + " / ".join(sorted(talk.results)) + "." + remembers + torn
    elif scene == "object":
        forced = [name for name in tools if name not in ("weather",)]
        if forced:
            answer["calls"] = [(forced[-1], OBJECT)]
        else:
            answer["text"] = json.dumps(OBJECT, ensure_ascii=False)
    elif scene == "count":
        answer["text"] = f"I have heard {len(talk.users)} of your texts."
    elif scene in ("shell", "thinkshell"):
        answer["thought"] = THOUGHT if scene == "thinkshell" and len(talk.results) < 2 else None
        words = ["one", "two"]
        calls = [shell_call(tools, word) for word in words]
        if len(talk.results) < 2 and all(calls):
            answer["text"], answer["calls"] = "I will run two commands.", calls
        else:
            said = [word for word in words if any(word in result for result in talk.results)]
            answer["text"] = f"The commands said {said}; I have heard {len(talk.users)} of your texts."
            if scene == "thinkshell":
                answer["text"] += f" My thoughts came back: {[thought == THOUGHT for thought in talk.thoughts]}."
    elif scene == "mcp":
        old, fresh = ([name for name in tools if name.endswith(f"__{word}")] for word in ("old", "fresh"))
        if not old:
            answer["text"] = f"The tool is missing: {sorted(tools)}"
        elif not talk.results:
            answer["calls"] = [(old[0], {})]
        elif fresh and "fresh" not in talk.results[-1]:
            answer["calls"] = [(fresh[0], {})]
        elif not fresh and len(talk.results) < 8:
            if len(talk.results) == 1:
                between_calls()
            answer["calls"] = [("Bash", {"command": "sleep 1", "description": "waits"})]
        else:
            answer["text"] = f"old: {talk.results[0]}; fresh: {talk.results[-1] if fresh else 'missing'}"
    elif scene == "space":
        names = [name for name in tools if name.endswith("__close_agent")]
        if names and not talk.results:
            answer["calls"] = [(names[0], {"target": "nobody"})]
        else:
            answer["text"] = f"The tool said: {talk.results}"
    elif scene == "limited":
        return 429, "rate_limit_exceeded", "Rate limit reached. Please try again in 1s."
    elif scene == "long":
        return 400, "context_length_exceeded", "Your input exceeds the context window of this model."
    elif scene == "poor":
        return 429, "insufficient_quota", "You exceeded your current quota."
    elif "get_weather" in tools and not talk.results:
        # The compliance suite of Open Responses names no scene.
        answer["calls"] = [("get_weather", {"location": "San Francisco, CA"})]
    else:
        answer["text"] = "Title"
    return answer


def pieces(text, size=7):
    return [text[at : at + size] for at in range(0, len(text), size)]


# Chat completions


def chat_usage():
    return {
        "prompt_tokens": USAGE["input"],
        "completion_tokens": USAGE["output"],
        "total_tokens": USAGE["input"] + USAGE["output"],
        "prompt_tokens_details": {"cached_tokens": USAGE["cached"]},
        "completion_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
    }


def chat_call(name, given):
    function = {"name": name, "arguments": json.dumps(given, ensure_ascii=False)}
    return {"id": f"call_{next(numbers):04}", "type": "function", "function": function}


def chat_whole(body, answer):
    message = {"role": "assistant", "content": answer["text"], "refusal": None}
    if answer["thought"]:
        message["reasoning_content"] = answer["thought"]
    if answer["calls"]:
        message["tool_calls"] = [chat_call(*call) for call in answer["calls"]]
    choice = {"index": 0, "message": message, "logprobs": None}
    choice["finish_reason"] = "tool_calls" if answer["calls"] else "stop"
    return {
        "id": f"chatcmpl-{next(numbers)}",
        "object": "chat.completion",
        "created": 1_760_000_000,
        "model": body["model"],
        "choices": [choice],
        "usage": chat_usage(),
    }


def chat_events(body, answer):
    name = f"chatcmpl-{next(numbers)}"

    def event(delta, reason=None, **more):
        choices = [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]
        own = {"id": name, "object": "chat.completion.chunk", "created": 1_760_000_000, "model": body["model"]}
        return f"data: {json.dumps({**own, 'choices': choices, **more}, ensure_ascii=False)}\n\n"

    yield event({"role": "assistant", "content": ""})
    for piece in pieces(answer["thought"] or ""):
        yield event({"reasoning_content": piece})
    for piece in pieces(answer["text"] or ""):
        yield event({"content": piece})
    calls = [chat_call(*call) for call in answer["calls"]]
    for index, call in enumerate(calls):
        first = {**call, "index": index, "function": {**call["function"], "arguments": ""}}
        yield event({"tool_calls": [first]})
        for piece in pieces(call["function"]["arguments"]):
            yield event({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield event({}, "tool_calls" if calls else "stop")
    if (body.get("stream_options") or {}).get("include_usage"):
        yield event({}, usage=chat_usage()).replace('"choices": [{"index": 0, "delta": {}, "logprobs": null, "finish_reason": null}]', '"choices": []')
    yield "data: [DONE]\n\n"


# Messages


def messages_blocks(answer):
    if answer["thought"]:
        yield {"type": "thinking", "thinking": answer["thought"], "signature": SIGNATURE}
    if answer["text"]:
        yield {"type": "text", "text": answer["text"]}
    for name, given in answer["calls"]:
        yield {"type": "tool_use", "id": f"toolu_{next(numbers):04}", "name": name, "input": given}


def messages_usage():
    return {
        "input_tokens": USAGE["input"],
        "cache_creation_input_tokens": 3,
        "cache_read_input_tokens": USAGE["cached"],
        "cache_creation": {"ephemeral_5m_input_tokens": 1, "ephemeral_1h_input_tokens": 2},
        "output_tokens": USAGE["output"],
        "service_tier": "standard",
    }


def messages_whole(body, answer):
    return {
        "id": f"msg_{next(numbers):04}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": list(messages_blocks(answer)),
        "stop_reason": "tool_use" if answer["calls"] else "end_turn",
        "stop_sequence": None,
        "usage": messages_usage(),
    }


def messages_events(body, answer):
    def event(kind, **fields):
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields}, ensure_ascii=False)}\n\n"

    whole = messages_whole(body, answer)
    first = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    yield event("message_start", message=first)
    yield event("ping")
    for index, block in enumerate(whole["content"]):
        kind = block["type"]
        empty = {"thinking": {"thinking": "", "signature": ""}, "text": {"text": ""}, "tool_use": {"input": {}}}
        yield event("content_block_start", index=index, content_block={**block, **empty[kind]})
        if kind == "tool_use":
            given = pieces(json.dumps(block["input"], ensure_ascii=False))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *given]]
        elif kind == "text":
            deltas = [{"type": "text_delta", "text": piece} for piece in pieces(block["text"])]
        else:
            deltas = [{"type": "thinking_delta", "thinking": piece} for piece in pieces(block["thinking"])]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    ended = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield event("message_delta", delta=ended, usage=whole["usage"])
    yield event("message_stop")


# Responses


def responses_items_of(body, answer):
    if answer["thought"]:
        # Who asks for a summary gets one in place of the thought itself.
        is_summary = (body.get("reasoning") or {}).get("summary") not in (None, "none")
        parts = [{"type": "summary_text" if is_summary else "reasoning_text", "text": answer["thought"]}]
        own = {"id": f"rs_{next(numbers):04}", "type": "reasoning", "status": "completed"}
        yield {**own, "summary": parts if is_summary else [], "content": [] if is_summary else parts}
    if answer["text"] is not None:
        part = {"type": "output_text", "text": answer["text"], "annotations": [], "logprobs": []}
        own = {"id": f"msg_{next(numbers):04}", "type": "message", "role": "assistant"}
        yield {**own, "status": "completed", "content": [part]}
    spaces = [tool["name"] for tool in body.get("tools") or [] if tool["type"] == "namespace"]
    for name, given in answer["calls"]:
        space = next((space for space in spaces if name.startswith(f"{space}__")), None)
        own = {"id": f"fc_{next(numbers):04}", "type": "function_call", "call_id": f"call_{next(numbers):04}"}
        if space:
            own["namespace"], name = space, name.removeprefix(f"{space}__")
        yield {**own, "name": name, "arguments": json.dumps(given, ensure_ascii=False), "status": "completed"}


def responses_whole(body, answer):
    items = list(responses_items_of(body, answer))
    name = f"resp_{next(numbers):04}"
    if body.get("store") is not False:
        kept[name] = responses_items(body) + items
    usage = {
        "input_tokens": USAGE["input"],
        "input_tokens_details": {"cached_tokens": USAGE["cached"]},
        "output_tokens": USAGE["output"],
        "output_tokens_details": {"reasoning_tokens": USAGE["reasoning"]},
        "total_tokens": USAGE["input"] + USAGE["output"],
    }
    fields = {
        "id": name,
        "object": "response",
        "created_at": 1_760_000_000,
        "completed_at": 1_760_000_001,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": body.get("instructions"),
        "max_output_tokens": body.get("max_output_tokens"),
        "model": body["model"],
        "output": items,
        "parallel_tool_calls": True,
        "previous_response_id": body.get("previous_response_id"),
        "reasoning": {"effort": None, "summary": None},
        "service_tier": "default",
        "store": body.get("store") is not False,
        "temperature": 1.0,
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice") or "auto",
        "tools": body.get("tools") or [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": usage,
        "metadata": body.get("metadata") or {},
    }
    return fields


def responses_events(body, answer):
    whole = responses_whole(body, answer)
    number = itertools.count()

    def event(kind, **fields):
        data = {"type": kind, "sequence_number": next(number), **fields}
        return f"event: {kind}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n"

    begun = {**whole, "status": "in_progress", "completed_at": None, "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for at, item in enumerate(whole["output"]):
        place = {"output_index": at, "item_id": item["id"]}
        if item["type"] == "function_call":
            empty = {**item, "arguments": "", "status": "in_progress"}
            yield event("response.output_item.added", output_index=at, item=empty)
            for piece in pieces(item["arguments"]):
                yield event("response.function_call_arguments.delta", **place, delta=piece)
            done = {"name": item["name"], "arguments": item["arguments"]}
            yield event("response.function_call_arguments.done", **place, **done)
        else:
            empty = {**item, "content": [], **({"summary": []} if "summary" in item else {})}
            yield event("response.output_item.added", output_index=at, item=empty)
            if item.get("summary"):
                part, place["summary_index"] = item["summary"][0], 0
                yield event("response.reasoning_summary_part.added", **place, part={**part, "text": ""})
                for piece in pieces(part["text"]):
                    yield event("response.reasoning_summary_text.delta", **place, delta=piece)
                yield event("response.reasoning_summary_text.done", **place, text=part["text"])
                yield event("response.reasoning_summary_part.done", **place, part=part)
                yield event("response.output_item.done", output_index=at, item=item)
                continue
            part = item["content"][0]
            kind = "reasoning_text" if item["type"] == "reasoning" else "output_text"
            more = {"logprobs": []} if kind == "output_text" else {}
            place["content_index"] = 0
            yield event("response.content_part.added", **place, part={**part, "text": ""})
            for piece in pieces(part["text"]):
                yield event(f"response.{kind}.delta", **place, delta=piece, **more)
            yield event(f"response.{kind}.done", **place, text=part["text"], **more)
            yield event("response.content_part.done", **place, part=part)
        yield event("response.output_item.done", output_index=at, item=item)
    yield event("response.completed", response=whole)


ROUTES = {
    "/v1/chat/completions": (chat_talk, chat_whole, chat_events),
    "/v1/messages": (messages_talk, messages_whole, messages_events),
    "/v1/responses": (responses_talk, responses_whole, responses_events),
}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, value, **headers):
        body = json.dumps(value, ensure_ascii=False).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_HEAD(self):
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def do_GET(self):
        if self.path == "/requests":
            with lock:
                found = list(seen)
                seen.clear()
            return self.answer(200, found)
        if self.headers.get("upgrade", "").lower() == "websocket":
            return self.answer(426, {"error": {"message": "no WebSocket here", "type": "invalid_request_error"}})
        model = {"id": "scripted", "object": "model", "created": 1, "owned_by": "us"}
        self.answer(200, {"object": "list", "data": [model]})

    def do_POST(self):
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        packing = self.headers.get("content-encoding", "")
        if packing == "zstd":
            import zstandard

            data = zstandard.ZstdDecompressor().decompressobj().decompress(data)
        path = self.path.split("?")[0]
        body = json.loads(data or b"{}")
        with lock:
            seen.append({"path": self.path, "packing": packing, "headers": dict(self.headers), "body": body})
        if path == "/v1/messages/count_tokens":
            return self.answer(200, {"input_tokens": USAGE["input"]})
        if path not in ROUTES:
            return self.answer(404, {"error": {"message": f"unknown path {path}", "type": "invalid_request_error"}})
        talk, whole, events = ROUTES[path]
        played = play(body, talk(body))
        if isinstance(played, tuple):
            status, code, message = played
            if path == "/v1/messages":
                kind = "rate_limit_error" if status == 429 else "invalid_request_error"
                return self.answer(status, {"type": "error", "error": {"type": kind, "message": message}})
            kind = {"insufficient_quota": code}.get(code, "invalid_request_error" if status == 400 else "requests")
            error = {"message": message, "type": kind, "param": None, "code": code}
            return self.answer(status, {"error": error})
        if not body.get("stream"):
            return self.answer(200, whole(body, played))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for event in events(body, played):
            event = event.encode()
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))
        self.wfile.write(b"0\r\n\r\n")


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, *_):
        """A client that leaves is not an error of a service."""


def start(port=0):
    """Serves in the background; returns its port."""
    server = Server(("127.0.0.1", port), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


if __name__ == "__main__":
    import sys
    import time

    print(start(int(sys.argv[1]) if len(sys.argv) > 1 else 0), flush=True)
    while True:
        time.sleep(3600)
