"""A headless Chromium to look at a page with: real width, real mouse, real keys.

It is driven by the DevTools protocol over two pipes (--remote-debugging-pipe): JSON messages that end in a
null byte, commands on the browser's descriptor 3 and answers on its 4.
"""

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_SECONDS = 60.0
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)
# the descriptors are moved in a process of their own, where nothing else can occupy 3 and 4
_LAUNCH = "import os, sys; os.dup2({0}, 3); os.dup2({1}, 4); os.execv(sys.argv[1], sys.argv[1:])"


class Page:
    """One open page.

    Attributes:
        errors: messages of uncaught exceptions and of console errors and warnings, as they come.
    """

    def __init__(self, commands: int, answers: int) -> None:
        self.errors: list[str] = []
        self._commands, self._answers = commands, answers
        self._buffer = b""
        self._events: list[str] = []
        self._count = 0
        self._session: str | None = None

    def open(self, url: str, width: int, dark: bool = False) -> None:
        """Show a page in a tab of its own, in place of the one before."""
        self.errors, self._events = [], []
        if self._session:
            self.call("Page.close")
            self._session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.call("Page.navigate", url=url)
        while "Page.loadEventFired" not in self._events:
            self._receive()
        self.settle()

    def settle(self) -> None:
        """Wait until two frames have been drawn."""
        self.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def value(self, expression: str) -> Any:
        """What a JavaScript expression gives, awaited if it is a promise."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def point(self, x: float, y: float) -> None:
        """Move the mouse to a place in the window."""
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the mouse at a place in the window."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)
        self.settle()

    def tap(self, x: float, y: float) -> None:
        """Touch a place in the window."""
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        self.settle()

    def corner(self, selector: str) -> tuple[float, float]:
        """Bring an element into view and tell where its left upper corner is."""
        place = f"document.querySelector('{selector}')"
        self.value(f"{place}.scrollIntoView({{ block: 'center', behavior: 'instant' }})")
        box = self.value(f"{place}.getBoundingClientRect().toJSON()")
        return box["left"], box["top"]

    def press(self, key: str, text: str = "") -> None:
        """Press and release a key."""
        codes = {"ArrowRight": 39, "Tab": 9, " ": 32, "Enter": 13}
        stroke = {"key": key, "text": text, "windowsVirtualKeyCode": codes[key]}
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, **stroke)
        self.settle()

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._count += 1
        message: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == self._count:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def _receive(self) -> dict[str, Any]:
        deadline = time.monotonic() + _SECONDS
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            received = os.read(self._answers, 1 << 16) if ready else b""
            assert received, "the browser closed or gave no answer"
            self._buffer += received
        first, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(first)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: dict[str, Any]) -> None:
        self._events.append(event)
        if event == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif event == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(" ".join(str(part.get("value")) for part in params["args"]))
        elif event == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])


@contextlib.contextmanager
def open_page(file: Path, width: int, dark: bool = False) -> Iterator[Page]:
    """Open a file in a fresh browser whose window has the given width."""
    with browser(file.parent / f"profile-{width}-{dark}") as page:
        page.open(file.as_uri(), width, dark)
        yield page


@contextlib.contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """A fresh browser with no page yet; `Page.open` shows one after another."""
    to_browser, from_browser = os.pipe(), os.pipe()
    theirs = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser[0], from_browser[1])]
    os.close(to_browser[0])
    os.close(from_browser[1])
    command = [sys.executable, "-ISc", _LAUNCH.format(*theirs), str(CHROMIUM), *_FLAGS]
    command.append(f"--user-data-dir={profile}")
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, pass_fds=theirs, **quiet)  # type: ignore[call-overload]
    for end in theirs:
        os.close(end)
    try:
        yield Page(to_browser[1], from_browser[0])
    finally:
        os.close(to_browser[1])  # a browser whose pipe is closed ends by itself
        os.close(from_browser[0])
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
