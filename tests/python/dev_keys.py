"""Presses the keys of `valvehouse dev` at a terminal of its own, and reads what it shows."""

import os
import pty
import re
import select
import sys
import termios
import time
import urllib.request

TIMEOUT = 60


class Terminal:
    def __init__(self, program):
        child, self.fd = pty.fork()
        if child == 0:
            os.execv(program, [program, "dev", "--port", "0"])
        self.child, self.shown, self.read = child, "", 0

    def until(self, pattern):
        """Reads until something new matches."""
        end = time.monotonic() + TIMEOUT
        while True:
            found = re.search(pattern, self.shown[self.read :])
            if found:
                self.read += found.end()
                return found
            assert time.monotonic() < end, f"{pattern!r} was not shown, only:\n{self.shown}"
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:
                    raise AssertionError(f"it ended before {pattern!r}:\n{self.shown}") from None

    def press(self, keys):
        os.write(self.fd, keys.encode())

    def waits_for_lines(self):
        return bool(termios.tcgetattr(self.fd)[3] & termios.ICANON)


def ask(url, text):
    body = f'{{"model": "demo", "messages": [{{"role": "user", "content": "{text}"}}]}}'.encode()
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    opener.open(urllib.request.Request(f"{url}/v1/chat/completions", body), timeout=TIMEOUT).read()


terminal = Terminal(sys.argv[1])
url = terminal.until(r"curl (http://[0-9.:]+)").group(1)
terminal.until(r"\? shows the keys")
terminal.press("?")
terminal.until("replay the last request")
terminal.press("\n")
terminal.until("no request yet")
for number, text in enumerate(["one", "two"], 1):
    ask(url, text)
    terminal.until(rf"#{number}  chat  demo  200")
terminal.press("\n")
terminal.until(r"#2\s+inlet +polite")
terminal.press("1")
terminal.until(r"#1\s+inlet +polite")
terminal.press("7\n")
terminal.until("cannot open request #7")
terminal.press("r")
terminal.until("replay of #2: unchanged")
terminal.press("t")
terminal.until("no tests yet")
assert not terminal.waits_for_lines()
terminal.press("q")
terminal.until("stopping")
end = time.monotonic() + TIMEOUT
ended = 0
while not ended and time.monotonic() < end:
    if select.select([terminal.fd], [], [], 0.1)[0]:
        try:
            os.read(terminal.fd, 65536)
        except OSError:
            pass
    ended, status = os.waitpid(terminal.child, os.WNOHANG)
assert ended and os.waitstatus_to_exitcode(status) == 0, "it does not end well"
assert terminal.waits_for_lines(), "the terminal is not as it was"
