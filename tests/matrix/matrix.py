"""Runs every client beside a scripted service and through the host, and compares what each saw.

Usage: matrix.py VALVEHOUSE CLIENTS [CLIENT…], where CLIENTS is the folder that tests/clients installs into. Prints a table;
exits with 1 where a client sees something else through the host than without it, and the table `What differs` of
docs/clients.md has no row for it.
"""

import fnmatch
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

import upstream

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BINARY, CLIENTS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
ONLY = sys.argv[3:]
# The longest time for all clients of a kind at one place, in seconds.
PATIENCE = 300
COLUMNS = ["text", "reasoning", "tools", "reasoning and tools", "resumed", "object", "error", "requests", "other"]

IDENTITY = """/*
title: Identity %d
description: Changes nothing.
*/
fn inlet(body) { for message in body.messages { message.text = message.text; } body }
fn stream(event) { event }
fn outlet(body) { for message in body.messages { message.text = message.text; } body }
"""
SETTINGS = """[server]
listen = "127.0.0.1:0"

[[providers]]
name = "openai"
kind = "openai"
base_url = "http://127.0.0.1:{port}/v1"
api_key = "service-key-0001"

[[providers]]
name = "anthropic"
kind = "anthropic"
base_url = "http://127.0.0.1:{port}"
api_key = "service-key-0001"

[[models]]
name = "scripted"
provider = "openai"

[[models]]
name = "scripted-responses"
provider = "openai"

[[models]]
name = "claude-scripted"
provider = "anthropic"
"""


class Host:
    """A running host with these filters."""

    def __init__(self, folder, port, filters):
        (folder / "filters").mkdir(parents=True)
        (folder / "valvehouse.toml").write_text(SETTINGS.format(port=port))
        for name, text in filters.items():
            (folder / "filters" / f"{name}.rhai").write_text(text)
        self.log = open(folder / "log", "w+")
        self.process = subprocess.Popen([BINARY, "serve"], cwd=folder, stdout=self.log, stderr=subprocess.STDOUT)
        until = time.monotonic() + 60
        while not (found := re.search(r"http://127\.0\.0\.1:\d+", self.said())):
            if self.process.poll() is not None or time.monotonic() > until:
                sys.exit(f"the host does not start:\n{self.said()}")
            time.sleep(0.05)
        self.base = found[0]

    def said(self):
        return Path(self.log.name).read_text()

    def stop(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()


# The command line clients


def run(command, folder, **env):
    env = {**os.environ, "NO_PROXY": "127.0.0.1", **env}
    done = subprocess.run(command, cwd=folder, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    return done.stdout


def codex(base, home):
    """Sessions of Codex: its items, its commands and what they said, its usage."""
    command = CLIENTS / "javascript/node_modules/.bin/codex"
    work = home / "work"
    work.mkdir(parents=True)

    def settings(websockets):
        (home / "config.toml").write_text(
            f"""model = "scripted-responses"
model_provider = "valvehouse"

[model_providers.valvehouse]
name = "Valvehouse"
base_url = "{base}/v1"
env_key = "VALVEHOUSE_KEY"
wire_api = "responses"
supports_websockets = {websockets}
"""
        )

    def said(*arguments):
        free = ["--skip-git-repo-check", "--json", "--dangerously-bypass-approvals-and-sandbox"]
        out = run([command, "exec", *arguments[:-1], *free, arguments[-1]], work, CODEX_HOME=str(home), VALVEHOUSE_KEY="x")
        seen = []
        for line in out.splitlines():
            line = json.loads(line) if line.startswith("{") else {}
            item = line.get("item") or {}
            if line.get("type") == "item.completed" and item.get("type") != "error":
                seen.append([item.get(key) for key in ("type", "text", "command", "aggregated_output", "exit_code")])
            elif line.get("type") in ("turn.completed", "turn.failed", "error"):
                seen.append([line["type"], line.get("usage"), line.get("error"), line.get("message")])
        # Commands run side by side, and end in any order.
        return sorted(seen, key=json.dumps)

    for websockets, way in (("false", "streamed"), ("true", "over a WebSocket")):
        settings(websockets)
        yield f"tools, {way}", lambda: said("[[shell]] go")
        yield f"resumed, {way}", lambda: said("resume", "--last", "[[shell]] once more")
    settings("false")
    yield "text, streamed", lambda: said("[[text]]")
    yield "reasoning, streamed", lambda: said("[[think]]")
    yield "reasoning and tools, streamed", lambda: said("[[thinkshell]]")
    yield "tools, of Anthropic's service", lambda: said("-m", "claude-scripted", "[[shell]]")
    yield "reasoning and tools, of Anthropic's service", lambda: said("-m", "claude-scripted", "[[thinkshell]]")
    yield "tools of a namespace", lambda: said("[[space]]")
    yield "error long", lambda: said("[[long]]")
    yield "error poor", lambda: said("[[poor]]")


def claude(base, home):
    """Sessions of Claude Code: its last words, its turns, its usage."""
    command = CLIENTS / "javascript/node_modules/.bin/claude"
    work = home / "work"
    work.mkdir(parents=True)

    def said(*arguments, model="claude-scripted"):
        fixed = [command, "-p", "--model", model, "--allowedTools", "Bash", "--output-format", "json"]
        env = {"CLAUDE_CONFIG_DIR": str(home), "ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "client-key-0001"}
        quiet = {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"}
        out = json.loads(run([*fixed, *arguments], work, **env, **quiet))
        return {key: out.get(key) for key in ("subtype", "is_error", "api_error_status", "num_turns", "result", "stop_reason", "usage")}

    yield "tools, streamed", lambda: said("[[shell]] go")
    yield "resumed", lambda: said("-c", "[[shell]] once more")
    yield "text, streamed", lambda: said("[[text]]")
    yield "reasoning, streamed", lambda: said("[[think]]")
    yield "reasoning and tools, streamed", lambda: said("[[thinkshell]]")
    yield "tools, of OpenAI's service", lambda: said("[[shell]]", model="scripted")
    yield "error long", lambda: said("[[long]]")


def command_line(base, folder):
    for name, sessions in (("codex", codex), ("claude-code", claude)):
        if ONLY and name not in ONLY:
            continue
        for shape, look in sessions(base, folder / name):
            try:
                saw = look()
            except Exception as error:
                saw = {"error": f"{type(error).__name__}: {error}"[:300]}
            yield {"client": name, "shape": shape, "saw": saw}


def scripts(base):
    """What the clients of Python and JavaScript saw."""
    python, javascript = HERE / "python_clients.py", HERE / "javascript_clients.mjs"
    of_older = ["pydantic-ai anthropic"]
    current = [sys.executable, python, base]
    commands = [
        (current, of_older, CLIENTS),
        ([CLIENTS / "older/bin/python", python, base], None, CLIENTS),
        (["node", javascript, base], [], CLIENTS / "javascript"),
    ]
    for command, without, folder in commands:
        if without is None:
            only = [name for name in of_older if not ONLY or name in ONLY]
        else:
            only = [name for name in ONLY if name not in without]
        if (without is None or ONLY) and not only:
            continue
        env = {**os.environ, "NO_PROXY": "127.0.0.1", "MATRIX_WITHOUT": json.dumps(without or [])}
        done = subprocess.run([*command, *only], cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE)
        for line in done.stdout.splitlines():
            yield json.loads(line)
        if done.returncode:
            yield {"client": str(command[1].name), "shape": "starts", "saw": {"error": done.stderr[-500:]}}


# What the service was sent

# Asked again by the host, or by the client.
AGAIN = re.compile(r"\[\[(limited|poor)\]\]")
NAMES = re.compile(r"\b(call|toolu|msg|resp|fc|rs)_[0-9a-zA-Z]+")


def requests_at(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/requests") as answer:
        return json.load(answer)


def one_spelling(value):
    """A value in one of the spellings that mean the same: a list of one text is that text."""
    if isinstance(value, list):
        return [one_spelling(inner) for inner in value]
    if not isinstance(value, dict):
        return value
    value = {key: one_spelling(inner) for key, inner in value.items()}
    for key in ("content", "system"):
        match value.get(key):
            case [{"type": "text", "text": text, **more}] if not more:
                value[key] = text
    if value.get("stream") is False:
        del value["stream"]
    if value.get("type") == "custom" and "input_schema" in value:
        del value["type"]
    return value


def sent(requests):
    """The bodies of chats and messages, without ids, by their route. Responses become chats: they cannot be the same."""
    seen = {"/v1/chat/completions": [], "/v1/messages": []}
    for request in requests:
        path, body = request["path"].split("?")[0], json.dumps(request["body"])
        if path in seen and '"model": "scripted-responses"' not in body and not AGAIN.search(body):
            seen[path].append(one_spelling(json.loads(NAMES.sub(r"\1_", body))))
    for path, bodies in seen.items():
        if bodies:
            yield {"client": f"requests at {path}", "shape": "requests", "saw": bodies}


def look(place, base, port, folder):
    """What all clients saw at a place."""
    began, found = time.monotonic(), {}
    requests_at(port)
    lines = list(scripts(base))
    lines += sent(requests_at(port))
    lines += command_line(base, folder / f"home-{place}")
    for line in lines:
        found[line["client"], line["shape"]] = line["saw"]
    print(f"{place}: {len(found)} shapes, {time.monotonic() - began:.0f} s", flush=True)
    return found


# The comparison


def differences(one, other, place=""):
    if isinstance(one, dict) and isinstance(other, dict):
        for key in sorted({*one, *other}):
            yield from differences(one.get(key, "missing"), other.get(key, "missing"), f"{place}.{key}")
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for at, (left, right) in enumerate(zip(one, other)):
            yield from differences(left, right, f"{place}[{at}]")
    elif one != other:
        yield f"{place or 'all'}: without the host {json.dumps(one, ensure_ascii=False)[:200]}, through it {json.dumps(other, ensure_ascii=False)[:200]}"


def reasons():
    """The rows of `What differs` in docs/clients.md: patterns of a client and of a shape."""
    text = (ROOT / "docs/clients.md").read_text()
    part = text.split("### What differs", 1)[1].split("\n#", 1)[0]
    rows = [line.strip("|").split("|") for line in part.splitlines() if line.startswith("|")]
    return [(row[0].strip(" `"), row[1].strip(" `")) for row in rows[2:]]


def column(shape):
    name = shape.split(",")[0]
    if name.startswith(("error", "object")):
        return name.split()[0]
    return name if name in COLUMNS else {"previous_response_id": "resumed"}.get(name, "other")


def main():
    port = upstream.start()
    five = {f"identity_{number}": IDENTITY % number for number in range(1, 6)}
    redact = {"redact": (ROOT / "filters/redact.rhai").read_text()}
    places = {"no filter": {}, "five identity filters": five, "redact": redact}
    direct_base = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory(dir=CLIENTS, ignore_cleanup_errors=True) as folder:
        folder = Path(folder)
        direct = look("without the host", direct_base, port, folder)
        through = {}
        for place, filters in places.items():
            host = Host(folder / place.replace(" ", "-"), port, filters)
            try:
                through[place] = look(place, host.base, port, folder)
            finally:
                host.stop()
    listed, cells, wrong = reasons(), {}, 0
    for key in sorted({*direct, *(key for found in through.values() for key in found)}):
        client, shape = key
        alone = direct.get(key)
        fails = isinstance(alone, dict) and "error" in alone and not shape.startswith("error")
        word = "fails alone" if fails else "equal"
        for place, found in through.items():
            if found.get(key) == alone:
                continue
            is_listed = any(fnmatch.fnmatch(client, row[0]) and fnmatch.fnmatch(shape, row[1]) for row in listed)
            word = "listed" if is_listed else "DIFFERS"
            wrong += not is_listed
            print(f"{'listed' if is_listed else 'DIFFERS'}: {client}, {shape}, {place}")
            for line in list(differences(alone, found.get(key)))[:5]:
                print(f"    {line}")
        cells.setdefault(client, {}).setdefault(column(shape), []).append(word)
    order = ["DIFFERS", "listed", "fails alone", "equal"]
    print("\n| client | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    for client, row in sorted(cells.items()):
        words = [min(row[name], key=order.index) if name in row else "" for name in COLUMNS]
        print(f"| {client} | " + " | ".join(words) + " |")
    print(f"\n{len(direct)} shapes of {len(cells)} clients at {len(through)} hosts; {wrong} differ without a reason in docs/clients.md")
    # A client that cannot even be started says nothing about the host.
    broken = [client for client, row in sorted(cells.items()) if {word for words in row.values() for word in words} == {"fails alone"}]
    for client in broken:
        print(f"{client} works nowhere: {next(found['error'] for key, found in direct.items() if key[0] == client)}")
    sys.exit(1 if wrong or broken else 0)


main()
