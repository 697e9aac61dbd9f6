"""Claude Code with the host as its MCP server: it calls a tool, and a tool whose file is saved meanwhile, in one session.

Usage: claude_code_mcp.py VALVEHOUSE CLIENTS, where CLIENTS is the folder that tests/clients installs into. The model is
the scripted service of upstream.py. Exits with 1 where a call goes wrong or the new tool does not appear without connecting again.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import upstream

BINARY, CLIENTS = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
TOOL = """/*
description: %s
*/
fn handler(args) { "%s" }
"""
SETTINGS = """[server]
listen = "127.0.0.1:0"
keys = ["client-key-0002"]
"""


def start(folder):
    """A host with one tool; returns its process and its address."""
    (folder / "tools").mkdir(parents=True)
    (folder / "valvehouse.toml").write_text(SETTINGS)
    (folder / "tools/old.rhai").write_text(TOOL % ("Says a word", "an old word"))
    log = open(folder / "log", "w")
    process = subprocess.Popen([BINARY, "serve"], cwd=folder, stdout=log, stderr=subprocess.STDOUT)
    until = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", (folder / "log").read_text())):
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"the host does not start:\n{(folder / 'log').read_text()}")
        time.sleep(0.05)
    return process, found[0]


def session(folder, port, servers, save):
    """One session of Claude Code: its last words."""
    upstream.between_calls = save
    home, work = folder / "home", folder / "work"
    work.mkdir(parents=True)
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"house": servers}}))
    command = [CLIENTS / "javascript/node_modules/.bin/claude", "-p", "--model", "claude-scripted", "--output-format", "json"]
    command += ["--mcp-config", folder / "mcp.json", "--strict-mcp-config", "--allowedTools", "Bash,mcp__house", "--", "[[mcp]] go"]
    env = {"CLAUDE_CONFIG_DIR": str(home), "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}", "ANTHROPIC_API_KEY": "client-key-0001"}
    env |= {"DISABLE_TELEMETRY": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "NO_PROXY": "127.0.0.1"}
    done = subprocess.run(command, cwd=work, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
    try:
        return json.loads(done.stdout)["result"]
    except (ValueError, KeyError):
        return f"{done.stdout}\n{done.stderr}"


def main():
    port, wrong = upstream.start(), 0
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        for way in ("http", "stdio"):
            place = Path(folder) / way
            process, base = start(place / "project")
            headers = {"Authorization": "Bearer client-key-0002"}
            servers = {"type": "http", "url": f"{base}/mcp", "headers": headers}
            if way == "stdio":
                servers = {"command": str(BINARY), "args": ["--project", str(place / "project"), "mcp"]}

            def save():
                (place / "project/tools/fresh.rhai").write_text(TOOL % ("Says a new word", "a fresh word"))

            try:
                said = session(place, port, servers, save)
            finally:
                process.terminate()
                process.wait(30)
            is_right = "old: an old word; fresh: a fresh word" in said
            wrong += not is_right
            print(f"Claude Code, the host as its MCP server over {way}: {'ok' if is_right else 'WRONG'}: {said}", flush=True)
    sys.exit(1 if wrong else 0)


main()
