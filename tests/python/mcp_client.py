"""The official Python SDK as a client of the host, in both eras: mcp_client.py URL, or mcp_client.py BINARY PROJECT."""

import asyncio
import sys

from mcp import Client, MCPError, StdioServerParameters, types


async def elicit(_context, params):
    properties = params.requested_schema["properties"]
    given = {"name": "Ann", "ok": True, "confirmed": True, "username": "ann", "email": "ann@example.com"}
    return types.ElicitResult(action="accept", content={key: given[key] for key in properties})


async def sample(_context, _params):
    return types.CreateMessageResult(
        role="assistant", model="canned", content=types.TextContent(type="text", text="Paris"))


def text(result):
    return "".join(block.text for block in result.content if block.type == "text")


async def talk(server, mode):
    lines, progress = [], []

    async def log(params):
        lines.append(params.data)

    async def follow(done, total, _message):
        progress.append((done, total))

    client = Client(server, mode=mode, elicitation_callback=elicit, sampling_callback=sample,
                    logging_callback=log, log_level="info")
    async with client:
        tools = [tool.name for tool in (await client.list_tools()).tools]
        assert tools == sorted(tools) and "test_simple_text" in tools, tools
        result = await client.call_tool("test_simple_text", {})
        assert text(result) == "This is a simple text response for testing.", result
        result = await client.call_tool("json_schema_2020_12_tool", {"name": "x"})
        assert result.structured_content == {"name": "x"}, result
        result = await client.call_tool("test_error_handling", {})
        assert result.is_error and "intentionally" in text(result), result
        result = await client.call_tool("test_simple_txt", {})
        assert result.is_error and "did you mean `test_simple_text`" in text(result), result
        result = await client.call_tool("test_elicitation", {})
        assert result.is_error and "message" in text(result), result
        await client.call_tool("test_tool_with_progress", {}, progress_callback=follow)
        assert [done for done, _ in progress] == [0, 50, 100], progress
        await client.call_tool("test_tool_with_logging", {})
        # They come on the session's own stream, beside the result.
        for _ in range(600):
            if "Tool execution completed" in lines:
                break
            await asyncio.sleep(0.1)
        assert lines[:3] == ["Tool execution started", "Tool processing data", "Tool execution completed"], lines
        result = await client.call_tool("test_input_required_result_elicitation", {})
        assert text(result) == "Hello, Ann!", result
        result = await client.call_tool("test_input_required_result_sampling", {})
        assert text(result) == "Paris", result
        prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
        assert prompt.messages[0].content.text == "Prompt with arguments: arg1='a', arg2='b'", prompt
        read = await client.read_resource("test://template/7/data")
        assert '"id":"7"' in read.contents[0].text, read
        try:
            await client.read_resource("test://nothing")
            raise SystemExit("a resource that is not there was read")
        except MCPError as error:
            assert "test://nothing" in str(error), error
        return client.protocol_version


async def main(arguments):
    if len(arguments) == 1:
        server = arguments[0]
    else:
        binary, project = arguments
        server = StdioServerParameters(command=binary, args=["--quiet", "--project", project, "mcp"])
    versions = [await asyncio.wait_for(talk(server, mode), 120) for mode in ("legacy", "auto")]
    assert versions[0] < "2026-07-28" <= versions[1], versions
    print("ok", *versions)


asyncio.run(main(sys.argv[1:]))
