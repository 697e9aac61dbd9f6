"""Open WebUI's own MCP client at this host: mcp_check.py VALVEHOUSE, run with a Python that has `open_webui.utils.mcp.client`.

Connects as Open WebUI does for its type MCP of external tools, once per request of a person: it lists tools, calls them,
answers a question, sees a tool that was saved meanwhile, and is refused without the key.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
import types
from pathlib import Path

# The three settings that the client reads. The module itself would set up the whole program.
settings = types.ModuleType("open_webui.env")
settings.AIOHTTP_CLIENT_SESSION_TOOL_SERVER_SSL = True
settings.AIOHTTP_CLIENT_TIMEOUT_TOOL_SERVER = 30
settings.MCP_INITIALIZE_TIMEOUT = 30
settings.ENABLE_ORJSON = False
sys.modules["open_webui.env"] = settings
from open_webui.utils.mcp.client import MCPClient  # noqa: E402

KEY = {"Authorization": "Bearer client-key-0002"}
TOOLS = {
    "words": '/*\ndescription: Returns words\n*/\nfn handler(args) { #{ said: "grüße", n: 2 } }',
    "fails": '/*\ndescription: Fails\n*/\nfn handler(args) { error("no such city") }',
    "asks": '/*\ndescription: Asks\n*/\nfn handler(args) { `you said ${ask(#{ type: "input", data: #{ title: "A name?", message: "Which?" } })}` }',
    "notes": 'fn resources() { [#{ uri: "notes://all", name: "All" }] }\nfn resource(uri) { "first" }',
}


def start(folder):
    (folder / "tools").mkdir()
    (folder / "valvehouse.toml").write_text('[server]\nlisten = "127.0.0.1:0"\nkeys = ["client-key-0002"]\n')
    for name, text in TOOLS.items():
        (folder / f"tools/{name}.rhai").write_text(text)
    process = subprocess.Popen([sys.argv[1], "serve"], cwd=folder, stdout=open(folder / "log", "w"), stderr=subprocess.STDOUT)
    until = time.monotonic() + 60
    while not (found := re.search(r"http://127\.0\.0\.1:\d+", (folder / "log").read_text())):
        if process.poll() is not None or time.monotonic() > until:
            sys.exit(f"the host does not start:\n{(folder / 'log').read_text()}")
        time.sleep(0.05)
    return process, f"{found[0]}/mcp"


async def fails(call):
    try:
        await call
    except Exception as error:
        return str(error) or type(error).__name__
    raise AssertionError("it did not fail")


async def check(url, folder):
    asked = []

    async def person(event):
        asked.append(event)
        field = next(iter(event["data"].get("requestedSchema", event["data"].get("requested_schema"))["properties"]))
        return {"action": "accept", "content": {field: "Ann"}}

    client = MCPClient(event_caller=person, server_name="house")
    await client.connect(url, headers=KEY)
    specs = {spec["name"]: spec for spec in await client.list_tool_specs()}
    assert {"words", "fails", "asks"} <= specs.keys(), specs
    assert specs["words"]["description"] == "Returns words", specs["words"]
    content = await client.call_tool("words", {})
    assert content == [{**content[0], "type": "text"}] and "grüße" in content[0]["text"], content
    assert "no such city" in await fails(client.call_tool("fails", {}))
    content = await client.call_tool("asks", {})
    assert content[0]["text"] == "you said Ann", (content, asked)
    assert asked[0]["type"] == "request:elicitation" and "Which?" in asked[0]["data"]["message"], asked
    assert [resource["uri"] for resource in await client.list_resources()] == ["notes://all"]
    assert (await client.read_resource("notes://all"))["contents"][0]["text"] == "first"
    print("its version of the protocol:", getattr(client.client, "protocol_version", "unknown"))
    await client.disconnect()

    # A tool that is saved is there with the next request of a person.
    (folder / "tools/fresh.rhai").write_text('/*\ndescription: New\n*/\nfn handler(args) { "fresh" }')
    until, names = time.monotonic() + 30, []
    while "fresh" not in names and time.monotonic() < until:
        client = MCPClient()
        await client.connect(url, headers=KEY)
        names = [spec["name"] for spec in await client.list_tool_specs()]
        if "fresh" in names:
            assert (await client.call_tool("fresh", {}))[0]["text"] == "fresh"
        await client.disconnect()
    assert "fresh" in names, names
    await fails(MCPClient().connect(url))


def main():
    with tempfile.TemporaryDirectory() as folder:
        process, url = start(Path(folder))
        try:
            asyncio.run(asyncio.wait_for(check(url, Path(folder)), 120))
        finally:
            process.terminate()
            process.wait(30)
    print("Open WebUI's MCP client: ok")


main()
