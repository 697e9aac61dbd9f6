"""A server with the official Python SDK, whose tools can change: mcp_server.py [PORT]; without one over stdin and stdout."""

import asyncio
import os
import subprocess
import sys

from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("shop", version="1")


@server.tool(description="Adds two numbers")
def add(a: int, b: int) -> int:
    return a + b


@server.tool(description="Returns the text", structured_output=False)
def echo(text: str) -> str:
    return text


@server.tool(description="Fails")
def fail() -> str:
    raise ValueError("out of stock")


@server.tool(description="Tells its progress", structured_output=False)
async def steps(ctx: Context) -> str:
    for step in (1, 2, 3):
        await ctx.report_progress(step, 3, f"step {step}")
    return "done"


@server.tool(description="Names the variables it sees", structured_output=False)
def environment() -> str:
    return " ".join(sorted(os.environ))


@server.tool(description="Returns as much text as is asked for", structured_output=False)
def large(kilobytes: int) -> str:
    return "x" * 1024 * kilobytes


@server.tool(description="Never ends")
async def hang() -> str:
    await asyncio.sleep(3600)
    return ""


@server.tool(description="Starts a program that stays, and returns its number", structured_output=False)
def spawn() -> str:
    return str(subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL).pid)


def pay(amount: int) -> str:
    return f"paid {amount}"


def pay_wide(amount: int, note: str = "") -> str:
    return f"paid {amount} {note}"


server.add_tool(pay, name="pay", description="Pays an amount", structured_output=False)
known = {"pay"}


@server.tool(description="Puts another tool in the place of pay", structured_output=False)
async def become(ctx: Context, name: str, description: str, wide: bool) -> str:
    for old in list(known):
        server.remove_tool(old)
        known.discard(old)
    server.add_tool(pay_wide if wide else pay, name=name, description=description, structured_output=False)
    known.add(name)
    await ctx.notify_tools_changed()
    return "changed"


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]))
else:
    server.run("stdio")
