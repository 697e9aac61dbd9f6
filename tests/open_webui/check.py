"""A real Open WebUI against this host: what its page of pipelines shows, what its valves change, and what
the filters make of its chats. Everything between the two passes a recorder. Only Python's own library."""

import http.client
import http.server
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid

KEY = "sk-open-webui-test"
FIXTURES = pathlib.Path(__file__).parent.parent / "fixtures" / "open_webui"

SETTINGS = f"""
[server]
listen = "127.0.0.1:0"
keys = ["{KEY}"]
[admin]
key = "{KEY}"
"""

FILTERS = pathlib.Path(__file__).parent / "filters"


class Recorder(http.server.BaseHTTPRequestHandler):
    """Passes everything on to the host as it comes, and writes it down."""

    protocol_version = "HTTP/1.1"
    host = None
    seen = []

    def pass_on(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else b""
        connection = http.client.HTTPConnection(*Recorder.host, timeout=120)
        headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
        connection.request(self.command, self.path, body, headers)
        answer = connection.getresponse()
        kept = {name.lower(): value for name, value in headers.items()
                if name.lower() not in ("authorization", "content-length", "cookie")}
        record = {"method": self.command, "path": self.path, "headers": kept,
                  "body": json.loads(body) if body else None, "status": answer.status}
        Recorder.seen.append(record)
        # The words beside the status count: Open WebUI shows them.
        self.send_response(answer.status, answer.reason)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        told = b""
        while chunk := answer.read1(65536):
            told += chunk
            self.wfile.write(chunk)
            self.wfile.flush()
        record["answer"] = told.decode()
        self.close_connection = True

    do_GET = do_POST = do_DELETE = pass_on

    def log_message(self, *_):
        pass


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


def start_host(binary, folder):
    (folder / "valvehouse.toml").write_text(SETTINGS)
    shutil.copytree(FILTERS, folder / "filters")
    host = subprocess.Popen([binary, "serve", "--format", "json", "--project", str(folder)],
                            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    for line in host.stderr:
        if line.startswith("{") and json.loads(line).get("event") == "listening":
            threading.Thread(target=host.stderr.read, daemon=True).start()
            address = json.loads(line)["address"].removeprefix("http://")
            name, port = address.rsplit(":", 1)
            return host, (name, int(port))
    raise SystemExit("the host did not start")


class OpenWebUi:
    def __init__(self, command, folder, models_at):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.token = None
        settings = {
            "OFFLINE_MODE": "true", "HF_HUB_OFFLINE": "1", "RAG_EMBEDDING_ENGINE": "openai", "WEBUI_AUTH": "False",
            "ENABLE_OLLAMA_API": "False", "OPENAI_API_BASE_URL": models_at, "OPENAI_API_KEY": KEY,
            "ENABLE_PERSISTENT_CONFIG": "False", "WEBUI_SECRET_KEY": "for this test only",
            "DATA_DIR": str(folder), "DO_NOT_TRACK": "true", "ANONYMIZED_TELEMETRY": "false",
            "ENABLE_TITLE_GENERATION": "True", "ENABLE_TAGS_GENERATION": "False",
            "ENABLE_FOLLOW_UP_GENERATION": "False", "GLOBAL_LOG_LEVEL": "WARNING",
        }
        environment = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
        self.log = open(folder / "log", "w")
        self.process = subprocess.Popen([command, "serve", "--host", "127.0.0.1", "--port", self.url.rsplit(":")[-1]],
                                        env=environment | settings, cwd=folder, stdout=self.log, stderr=self.log,
                                        start_new_session=True)

    def ask(self, method, path, body=None, timeout=120):
        request = urllib.request.Request(self.url + path, method=method)
        if self.token:
            request.add_header("authorization", f"Bearer {self.token}")
        data = None
        if body is not None:
            request.add_header("content-type", "application/json")
            data = json.dumps(body).encode()
        try:
            with urllib.request.urlopen(request, data, timeout) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def get(self, path):
        status, text = self.ask("GET", path)
        assert status == 200, f"GET {path}: {status} {text}"
        return json.loads(text)

    def post(self, path, body):
        status, text = self.ask("POST", path, body)
        assert status == 200, f"POST {path}: {status} {text}"
        return json.loads(text)

    def ready(self):
        def healthy():
            try:
                return self.ask("GET", "/health", timeout=5)[0] == 200
            except OSError:
                assert self.process.poll() is None, "Open WebUI ended by itself"
                return False
        wait("Open WebUI is up", healthy, 400)
        self.token = self.post("/api/v1/auths/signin", {"email": "", "password": ""})["token"]

    def stop(self):
        os.killpg(self.process.pid, signal.SIGTERM)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.log.close()


def wait(what, is_so, seconds):
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end, f"waited {seconds} s in vain: {what}"
        time.sleep(0.5)


def check(what, is_so, seen):
    print(f"{'ok    ' if is_so else 'FAILED'} {what}: {seen}", flush=True)
    return is_so


def in_a_page(ui, text):
    """A chat as its page has it: kept, answered in the background, its outlets run at the end."""
    session, asked, answered = (str(uuid.uuid4()) for _ in range(3))
    question = {"id": asked, "parentId": None, "childrenIds": [answered], "role": "user", "content": text,
                "timestamp": int(time.time()), "models": ["demo"]}
    answer = {"id": answered, "parentId": asked, "childrenIds": [], "role": "assistant", "content": "",
              "model": "demo", "timestamp": int(time.time())}
    history = {"messages": {asked: question, answered: answer}, "currentId": answered}
    chat = ui.post("/api/v1/chats/new", {"chat": {"title": "New Chat", "models": ["demo"], "history": history,
                                                  "messages": [question, answer]}})["id"]
    body = {"model": "demo", "messages": [{"role": "user", "content": text}], "stream": True, "chat_id": chat,
            "id": answered, "session_id": session, "background_tasks": {"title_generation": True}}
    status, told = ui.ask("POST", "/api/chat/completions", body)

    def message():
        return ui.get(f"/api/v1/chats/{chat}")["chat"]["history"]["messages"][answered]
    if status == 200:
        wait("the chat is answered", lambda: message().get("done") or message().get("error"), 120)
        time.sleep(3)
    return status, told, message(), ui.get(f"/api/v1/chats/{chat}")["chat"].get("title")


def short(value):
    """The shape of a request; what Open WebUI tells its models is long, and its own."""
    if isinstance(value, str):
        return value if len(value) <= 120 else value[:100] + "…"
    if isinstance(value, list):
        return [short(one) for one in value[:2]]
    if isinstance(value, dict):
        return {name: short(one) for name, one in value.items()}
    return value


def record():
    FIXTURES.mkdir(parents=True, exist_ok=True)
    named = {}
    for one in Recorder.seen:
        path = one["path"].removeprefix("/v1").strip("/").replace("/", ".")
        body = one["body"] or {}
        body = body.get("body") or body
        if (body.get("metadata") or {}).get("task"):
            path += ".task"
        if path.startswith("chat.completions"):
            path += ".stream" if body.get("stream") else ".whole"
        # The richest of its kind.
        if path not in named or len(json.dumps(one)) > len(json.dumps(named[path])):
            named[path] = one
    for name, one in named.items():
        one = {key: value for key, value in one.items() if key != "answer"}
        (FIXTURES / f"{name}.json").write_text(json.dumps(short(one), indent=2, ensure_ascii=False) + "\n")
    print(f"{len(named)} requests recorded in {FIXTURES}")


def run(ui, filters_at):
    good = []
    models = {model["id"]: model for model in ui.get("/api/models")["data"]}
    good.append(check("its models", "demo" in models and "marks" not in models, sorted(models)))
    listed = ui.get("/api/v1/pipelines/list")["data"]
    good.append(check("its list of pipelines servers", listed == [{"url": filters_at, "idx": 0}], listed))
    names = [one["id"] for one in ui.get("/api/v1/pipelines/?urlIdx=0")["data"]]
    good.append(check("our filters on its page", names == ["marks", "refuses", "tells"], names))
    spec = ui.get("/api/v1/pipelines/marks/valves/spec?urlIdx=0")
    good.append(check("the form of our valves", set(spec["properties"]) == {"priority", "mark", "ending"}, spec["properties"]))
    before = ui.get("/api/v1/pipelines/marks/valves?urlIdx=0")
    good.append(check("our valves", before == {"priority": 1, "mark": "[in]", "ending": "[out]"}, before))

    def chat(text, stream=False):
        body = {"model": "demo", "messages": [{"role": "user", "content": text}], "stream": stream}
        return ui.ask("POST", "/api/chat/completions", body)
    status, text = chat("good morning")
    said = json.loads(text)["choices"][0]["message"]["content"] if status == 200 else text
    good.append(check("an inlet and an outlet, once each", said.count("[in]") == 1 and said.count("[out]") == 1, said))

    saved = ui.post("/api/v1/pipelines/marks/valves/update?urlIdx=0", {"priority": None, "mark": "(((edited)))", "ending": None})
    good.append(check("valves saved on its page", saved == before | {"mark": "(((edited)))"}, saved))
    status, text = chat("good morning")
    good.append(check("the next chat obeys", text.count("(((edited)))") == 1 and "[in]" not in text, text[:300]))

    status, text = chat("a forbidden word")
    good.append(check("a refusal", status == 403 and "That word is not spoken here" in text, f"{status} {text}"))

    status, text = chat("good evening", stream=True)
    good.append(check("a status event in the stream", '"event"' in text and "Thinking about it" in text, text[:300]))

    status, told, message, title = in_a_page(ui, "good night")
    good.append(check("a chat of its page", status == 200 and message.get("content", "").count("(((edited)))") == 1
                      and message.get("content", "").count("[out] 1") == 1, f"{status} {message.get('content')}"))
    history = message.get("statusHistory") or []
    good.append(check("the status beside it", any(one.get("description") == "Thinking about it" for one in history), history))
    good.append(check("its title", bool(title), title))
    status, told, message, _ = in_a_page(ui, "a forbidden word")
    shown = json.dumps(message.get("error")) + told
    good.append(check("a refusal on its page", "That word is not spoken here" in shown, shown[:300]))
    return all(good)


def main():
    binary, command = sys.argv[1:3]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="valvehouse-open-webui-"))
    (folder / "host").mkdir()
    (folder / "ui").mkdir()
    host, Recorder.host = start_host(binary, folder / "host")
    recorder = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    threading.Thread(target=recorder.serve_forever, daemon=True).start()
    filters_at = f"http://127.0.0.1:{recorder.server_address[1]}/v1"
    ui = OpenWebUi(command, folder / "ui", filters_at)
    try:
        ui.ready()
        good = run(ui, filters_at)
        if "--record" in sys.argv:
            record()
        if os.environ.get("VALVEHOUSE_SHOW"):
            for one in Recorder.seen:
                print(json.dumps(one, ensure_ascii=False))
    except BaseException:
        print((folder / "ui" / "log").read_text()[-4000:], file=sys.stderr)
        raise
    finally:
        ui.stop()
        recorder.shutdown()
        host.terminate()
        host.wait(40)
        shutil.rmtree(folder, ignore_errors=True)
    print("all well" if good else "something failed")
    sys.exit(0 if good else 1)


main()
