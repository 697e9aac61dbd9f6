"""What `benches/memory` and `benches/layout` have in common: a project, a model's service, and clients."""

import http.client
import http.server
import json
import pathlib
import re
import subprocess
import sys
import threading
import time

PATIENCE = 300  # seconds for any answer: machines are busy, and valgrind takes fifty times as long
EVENTS = 200
FILTER = """fn inlet(body) { body.user = "u1"; }
fn outlet(body) { body.seen = true; }
fn stream(event) { event.seen = true; }
"""
ANSWER = {
    "id": "chatcmpl-mock",
    "object": "chat.completion",
    "created": 1_700_000_000,
    "model": "mock",
    "choices": [
        {"index": 0, "message": {"role": "assistant", "content": "Some words. " * 30}, "finish_reason": "stop"}
    ],
    "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": 30},
}


class Service(http.server.BaseHTTPRequestHandler):
    """Answers every chat with the same words."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if asked.get("stream"):
            chunk = {**ANSWER, "object": "chat.completion.chunk"}
            chunk["choices"] = [{"index": 0, "delta": {"content": "word "}, "finish_reason": None}]
            event = b"data: " + json.dumps(chunk).encode() + b"\n\n"
            return self.answer("text/event-stream", event * EVENTS + b"data: [DONE]\n\n")
        self.answer("application/json", json.dumps(ANSWER).encode())

    def answer(self, kind: str, body: bytes):
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Calm(http.server.ThreadingHTTPServer):
    """A service that does not mind who leaves."""

    daemon_threads = True

    def handle_error(self, *_):
        pass


def service() -> int:
    """A model's service on a port of its own, as long as this program runs."""
    server = Calm(("127.0.0.1", 0), Service)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_port


def project(folder: pathlib.Path, scripts: int) -> pathlib.Path:
    """A project with so many scripts, each with a hook of its own for inlet, outlet and stream."""
    (folder / "filters").mkdir(parents=True)
    (folder / "tools").mkdir()
    for number in range(scripts):
        (folder / "filters" / f"field_{number}.rhai").write_text(FILTER)
    provider = f'name = "up"\nkind = "openai"\nbase_url = "http://127.0.0.1:{service()}/v1"\nmodels = "*"\n'
    (folder / "valvehouse.toml").write_text(f"[[providers]]\n{provider}")
    return folder


class Host:
    """A host that serves a project, and how it is asked."""

    def __init__(self, command: list, folder: pathlib.Path):
        self.log = (folder / "log").open("w+")
        words = ["serve", "--project", str(folder), "--port", "0"]
        self.began = time.monotonic()
        self.process = subprocess.Popen([*command, *words], stdout=subprocess.DEVNULL, stderr=self.log)
        self.port = self.listening(folder / "log")

    def listening(self, log: pathlib.Path) -> int:
        while time.monotonic() < self.began + PATIENCE and self.process.poll() is None:
            found = re.search(r"http://127\.0\.0\.1:(\d+)", log.read_text())
            if found:
                return int(found[1])
            time.sleep(0.001)
        self.process.kill()
        sys.exit(f"the host did not start:\n{log.read_text()}")

    def ask(self, times: int, text: str = "hello", stream: bool = False) -> None:
        """Asks one time after another on one connection."""
        messages = [{"role": "system", "content": "be\nshort"}, {"role": "user", "content": text}]
        body = json.dumps({"model": "mock", "stream": stream, "messages": messages})
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        for _ in range(times):
            connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
            answer = connection.getresponse()
            read = answer.read()
            if answer.status != 200:
                sys.exit(f"the host answered {answer.status}: {read.decode(errors='replace')}")
        connection.close()

    def ask_at_once(self, connections: int, *how, **more) -> None:
        asking = [threading.Thread(target=self.ask, args=how, kwargs=more) for _ in range(connections)]
        [one.start() for one in asking]
        [one.join() for one in asking]

    def close(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()
