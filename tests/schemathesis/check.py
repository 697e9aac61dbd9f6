"""Requests made up from /openapi.json by schemathesis, against hosts that run.

    check.py VALVEHOUSE SCHEMATHESIS [--long]

Three times, at once: without keys, with an operator's key, and with a user's. No answer may be a failure of ours (500 and above), have a status
that is not described, or another shape than the described one. What the host said is shown where it panicked.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

SETTINGS = """
[[models]]
name = "demo"
provider = "demo"
tools = ["add"]

[[models]]
name = "agent"
provider = "demo"
memory = true

[[providers]]
name = "demo"
kind = "demo"
"""
KEYED = """
[admin]
key = "operators-key"

[server]
keys = [{ key = "anns-key", user = { id = "ann" } }]
"""
FILTER = """
const Valves = #{ greeting: #{ value: "hi", description: "Said first" }, secret: #{ value: "", secret: true } };
const UserValves = #{ loud: false };
fn inlet(body, valves) { body }
fn outlet(body) { body }
"""
TOOL = """/*
description: Adds two numbers.
*/
const parameters = #{ a: #{ type: "integer", required: true }, b: #{ type: "integer", required: true } };
fn handler(args) { args.a + args.b }
"""

CHECKS = [
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
]
# Events without an end are for those who listen, and what is downloaded lies elsewhere: tests of ours do both.
LEFT_OUT = ["/api/v1/events", "/pipelines/add", "/v1/pipelines/add"]


class Host:
    """A host on a project of its own."""

    def __init__(self, binary, settings):
        self.folder = tempfile.TemporaryDirectory(prefix="valvehouse-")
        project = Path(self.folder.name)
        (project / "valvehouse.toml").write_text(settings)
        for folder, name, text in [("filters", "polite", FILTER), ("tools", "add", TOOL)]:
            (project / folder).mkdir()
            (project / folder / f"{name}.rhai").write_text(text)
        command = [binary, "serve", "--port", "0", "--format", "json", "--project", str(project)]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.said = []
        self.url = None
        for line in self.process.stderr:
            self.said.append(line)
            if '"listening"' in line:
                self.url = json.loads(line)["address"]
                break
        # Nobody reads it further on: a full pipe would hold the host up.
        threading.Thread(target=lambda: self.said.extend(self.process.stderr), daemon=True).start()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = "none: it did not stop"
        self.folder.cleanup()
        panics = [line for line in self.said if "panicked" in line]
        return code, panics


# Nothing here takes that long; what hangs is ended.
LONGEST = 3600


def passes(binary, schemathesis, settings, headers, examples):
    """Returns whether the host passed, and the output to show."""
    host = Host(binary, settings)
    if host.url is None:
        return False, "".join(host.said)
    command = [schemathesis, "run", f"{host.url}/openapi.json", "--no-color", "--checks", ",".join(CHECKS)]
    # The first key of a host without keys closes it.
    for path in LEFT_OUT if headers else [*LEFT_OUT, "/api/v1/keys"]:
        command += ["--exclude-path", path]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(examples)]
    command += ["--request-timeout", "30", "--continue-on-failure", "--warnings", "off"]
    command += ["--generation-database", "none", "--seed", os.environ.get("VALVEHOUSE_SEED", "1")]
    for header in headers:
        command += ["--header", header]
    environment = {**os.environ, "NO_PROXY": "127.0.0.1", "SCHEMATHESIS_HOOKS": ""}
    tested = subprocess.run(
        command,
        env=environment,
        cwd=host.folder.name,
        timeout=LONGEST,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    code, panics = host.stop()
    output = tested.stdout
    if panics or code != 0:
        output += f"the host ended with {code}\n" + "".join(panics)
    return tested.returncode == 0 and code == 0 and not panics, output


def main():
    # Absolute, since they run elsewhere, and not resolved: a Python environment knows itself by its own path.
    binary, schemathesis = (str(Path(word).absolute()) for word in sys.argv[1:3])
    examples = 200 if "--long" in sys.argv else 2
    runs = [
        ("without keys", SETTINGS, []),
        ("as an operator", SETTINGS + KEYED, ["authorization: Bearer operators-key"]),
        ("with a user's key", SETTINGS + KEYED, ["authorization: Bearer anns-key"]),
    ]
    failed = []
    with ThreadPoolExecutor() as pool:
        started = [
            (word, pool.submit(passes, binary, schemathesis, settings, headers, examples))
            for word, settings, headers in runs
        ]
        for word, run in started:
            has_passed, output = run.result()
            print(f"-- {word}\n{output}", flush=True)
            if not has_passed:
                failed.append(word)
    if failed:
        sys.exit("failed: " + ", ".join(failed))


main()
