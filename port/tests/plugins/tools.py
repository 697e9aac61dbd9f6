"""
title: Weather
description: The weather in a city
"""
import requests
from typing import Optional, Literal


class EventEmitter:
    def __init__(self, emitter):
        self.emitter = emitter
        self.count = 0

    async def say(self, text: str, done: bool = False):
        self.count += 1
        await self.emitter({"type": "status", "data": {"description": f"{self.count}: {text}", "done": done}})


class Tools:
    def __init__(self):
        self.base = "https://weather.example.com/v1"

    async def weather(
        self, city: str, unit: Literal["c", "f"] = "c", days: Optional[int] = None, __event_emitter__=None
    ) -> str:
        """
        The weather in a city.
        :param city: The name of the city
        :param unit: Celsius or Fahrenheit
        """
        emitter = EventEmitter(__event_emitter__)
        await emitter.say("asking")
        try:
            response = requests.get(f"{self.base}/now", params={"city": city}, timeout=5)
            response.raise_for_status()
            data = response.json()
        except requests.exceptions.Timeout:
            return "too slow"
        except Exception as e:
            return f"Error: {e}"
        await emitter.say("done", done=True)
        if days is not None and days > 1:
            return self.forecast(city, days)
        return f"{data['temp']} {unit}"

    def forecast(self, city: str, days: int) -> str:
        """Several days."""
        lines = []
        for day in range(days):
            lines.append(f"{city} {day}")
        return "\n".join(lines)
