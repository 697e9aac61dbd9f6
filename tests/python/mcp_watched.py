"""A server with sessions over stdin and stdout, of the standard library alone: resources that can be followed.

Arguments: a folder. `log` in it has a line for each subscription that began or ended; `orders` is read line by line:
`touch URI` sends an update, `die` ends the server.
"""

import json
import os
import sys
import threading
import time

folder = sys.argv[1]
lock = threading.Lock()


def send(message):
    with lock:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def note(line):
    with open(os.path.join(folder, "log"), "a") as log:
        log.write(line + "\n")


def obey():
    path, done = os.path.join(folder, "orders"), 0
    while True:
        if os.path.exists(path):
            lines = open(path).read().splitlines()
            for line in lines[done:]:
                done += 1
                word, _, uri = line.partition(" ")
                if word == "die":
                    os.remove(path)
                    os._exit(1)
                send({"method": "notifications/resources/updated", "params": {"uri": uri}})
        time.sleep(0.02)


threading.Thread(target=obey, daemon=True).start()
for line in sys.stdin:
    request = json.loads(line)
    method, params, number = request.get("method"), request.get("params") or {}, request.get("id")
    if number is None:
        continue
    if method == "initialize":
        result = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"resources": {"subscribe": True}},
            "serverInfo": {"name": "watched", "version": "1"},
        }
    elif method == "resources/list":
        result = {"resources": [{"uri": f"notes://{n}", "name": f"Note {n}"} for n in (1, 2)]}
    elif method == "resources/templates/list":
        result = {"resourceTemplates": []}
    elif method in ("resources/subscribe", "resources/unsubscribe"):
        note(f"{method.split('/')[1]} {params['uri']}")
        result = {}
    elif method == "ping":
        result = {}
    else:
        send({"id": number, "error": {"code": -32601, "message": f"unknown method {method}"}})
        continue
    send({"id": number, "result": result})
