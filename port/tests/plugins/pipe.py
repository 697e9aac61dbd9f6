
import json
import requests
from pydantic import BaseModel


class Pipe:
    class Valves(BaseModel):
        BASE_URL: str = "https://models.example.com"

    def __init__(self):
        self.valves = self.Valves()

    def pipes(self):
        return [{"id": "small", "name": "Small"}, {"id": "large", "name": "Large"}]

    def pipe(self, body: dict):
        yield "Thinking. "
        if body["messages"][-1]["content"] == "stream":
            for piece in self.lines(body):
                yield piece
            return
        for word in body["messages"][-1]["content"].split():
            yield word.capitalize() + " "

    def lines(self, body):
        response = requests.post(f"{self.valves.BASE_URL}/chat", json={"messages": body["messages"]}, stream=True)
        for line in response.iter_lines():
            if not line:
                continue
            data = json.loads(line.decode("utf-8"))
            yield data["text"]
