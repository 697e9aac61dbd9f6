"""
title: Case
description: Changes the case of an answer.
"""

from typing import Optional
from pydantic import BaseModel, Field


class Action:
    class Valves(BaseModel):
        ask_prefix: bool = Field(default=False, description="Ask for a prefix")

    def __init__(self):
        self.valves = self.Valves()
        self.actions = [
            {"id": "upper", "name": "CAPITALS"},
            {"id": "lower", "name": "small letters"},
        ]

    async def action(
        self, body: dict, __user__: Optional[dict] = None, __id__: str = "", __event_emitter__=None, __event_call__=None
    ) -> Optional[dict]:
        text = body["messages"][-1]["content"]
        await __event_emitter__(
            {"type": "status", "data": {"description": f"{len(text.split())} words", "done": True}}
        )
        if __id__.endswith("upper"):
            return {"content": text.upper()}
        if text.isupper():
            return None
        prefix = ""
        if self.valves.ask_prefix:
            answer = await __event_call__({"type": "input", "data": {"title": "Prefix", "message": "Which?"}})
            prefix = f"{answer}: "
        return {"content": prefix + text.lower()}
