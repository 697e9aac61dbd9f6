"""
title: House rules
author: Ann
version: 1.2
requirements: numpy
"""

import re
import logging
from typing import List, Literal, Optional
from pydantic import BaseModel, Field

logger = logging.getLogger(__name__)
FORBIDDEN = ["secret", "hidden"]
MARK = "#" * 1


def shout(text: str, mark: str = "!") -> str:
    return f"{text.upper()}{mark}"


class Filter:
    class Valves(BaseModel):
        priority: int = Field(default=3, description="Order")
        max_turns: int = Field(default=2, ge=1, le=50, description="Messages")
        mode: Literal["strict", "lax"] = "strict"
        api_key: str = Field(default="", json_schema_extra={"input": {"type": "password"}})
        words: List[str] = []
        note: Optional[str] = None
        ratio: float = 0.5

    class UserValves(BaseModel):
        bonus: int = 0

    def __init__(self):
        self.valves = self.Valves()
        self.toggle = True
        self.limit = 10
        self.seen = {}

    async def inlet(self, body: dict, __user__: Optional[dict] = None, __event_emitter__=None) -> dict:
        # how many messages a conversation may have
        limit = self.valves.max_turns + __user__["valves"].bonus
        messages = body.get("messages", [])
        if len(messages) > limit:
            raise Exception(f"Too long: {len(messages)} > {limit}")
        last = messages[-1]
        if any(word in last["content"] for word in FORBIDDEN):
            if __event_emitter__:
                await __event_emitter__({"type": "status", "data": {"description": "Refused", "done": True}})
            raise ValueError("Not about that")
        if (match := re.search(r"call me (\w+)", last["content"], re.IGNORECASE)) is not None:
            body.setdefault("metadata", {})["name"] = match.group(1)
        first, second = 1, 2
        first, second = second, first
        tags = [w.strip() for w in last["content"].split(",") if w.strip()]
        counts = {}
        for i, tag in enumerate(tags, start=1):
            counts.setdefault(tag, []).append(i)
        for part in [{"n": 1}, {"n": 2}]:
            part["n"] += 1
        total = 0
        for n in range(1, 4):
            if n % 2 == 0:
                continue
            total += n
        else:
            total += 100
        text = last["content"]
        body["metadata"] = {
            **body.get("metadata", {}),
            "first": first,
            "tags": tags,
            "counts": counts,
            "total": total,
            "half": 7 / 2,
            "whole": 7 // 2,
            "tail": text[-3:],
            "head": text[:2],
            "fixed": f"{3.14159:.2f} {1234567:,}",
            "shout": shout("a"),
            "shout2": shout("a", mark="?"),
            "longest": max(tags, key=len) if tags else None,
            "sorted": sorted(tags, key=lambda t: (len(t)), reverse=True),
            "either": body.get("nothing") or "fallback",
            "deep": body.get("a", {}).get("b", {}).get("c"),
            "swapped": re.sub(r"(\w+)@(\w+)", r"\2 at \1", "ann@home"),
            "helper": self.describe(count=len(tags)),
            "limit": self.limit,
        }
        self.seen = {"tags": len(tags)}
        return body

    def describe(self, count: int, word: str = "tag") -> str:
        kind = "none"
        if count:
            kind = word if count == 1 else word + "s"
        return "%d %s" % (count, kind)

    async def stream(self, event: dict) -> dict:
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            if delta.get("content"):
                delta["content"] = delta["content"].replace("colour", "color")
        return event

    def outlet(self, body: dict) -> dict:
        try:
            body["messages"][-1]["content"] += f"\n\n({self.seen.get('tags', 0)} tags)"
        except Exception as e:
            logger.warning("cannot: %s", e)
        finally:
            logger.info("done")
        return body
