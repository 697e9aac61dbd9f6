"""The work of `benches/spine.rs` in CPython, the way Open WebUI does it.

    python3 cpython.py FOLDER    # what `cargo bench --bench spine -- --dump FOLDER` wrote

Bytes are read with `json.loads`, methods of a class `Filter` are called, `json.dumps` writes. What Open
WebUI does around that (looking at signatures, valves out of a database, awaiting) is left out, so that
this is the least it can cost. Prints a row per work: its name as in spine, a tab, nanoseconds.
"""

import json
import pathlib
import sys
import time


class Look:
    def stream(self, event: dict) -> dict:
        for choice in event.get("choices", []):
            delta = choice.get("delta", {})
            if "zzz" in (delta.get("content") or ""):
                delta["content"] = "***"
        return event


class Change:
    def stream(self, event: dict) -> dict:
        for choice in event.get("choices", []):
            choice.get("delta", {})["content"] = "changed"
        return event


class Set:
    def inlet(self, body: dict) -> dict:
        body["temperature"] = 0.5
        return body


def measure(work) -> float:
    """The median of 15 batches of about 20 ms each, in nanoseconds, as spine takes it."""
    began, count = time.perf_counter(), 0
    while time.perf_counter() - began < 0.02:
        work()
        count += 1
    batches = []
    for _ in range(15):
        began = time.perf_counter_ns()
        for _ in range(count):
            work()
        batches.append((time.perf_counter_ns() - began) / count)
    return sorted(batches)[7]


def row(name: str, work) -> None:
    print(f"{name}\t{measure(work):.0f}", flush=True)


def events(event: bytes) -> None:
    def through(filters, write):
        def work():
            value = json.loads(event)
            for one in filters:
                value = one.stream(value)
            return json.dumps(value).encode() if write else value

        return work

    for count in (0, 1, 10):
        name = f"event -> {count} text hooks, unchanged"
        row(name, through([Look() for _ in range(count)], write=False))
        row(f"{name} -> bytes", through([Look() for _ in range(count)], write=True))
    for count in (1, 10):
        row(
            f"event -> {count} text hooks, changed -> bytes",
            through([Change() for _ in range(count)], write=True),
        )


def bodies(name: str, body: bytes) -> None:
    def through(filters):
        def work():
            value = json.loads(body)
            for one in filters:
                value = one.inlet(value)
            return json.dumps(value).encode()

        return work

    for count in (0, 1, 10):
        row(f"bytes -> {count} filters -> bytes, {name}", through([Set() for _ in range(count)]))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    for name in (folder / "bodies").read_text().splitlines():
        bodies(name, (folder / f"{name}.json").read_bytes())
    events((folder / "event.json").read_bytes())


main()
