#!/usr/bin/env python3
"""A headless Chromium, driven over a pipe by the DevTools protocol: what a page draws, says and asks for.

No driver program and no package: Chromium reads commands from file descriptor 3 and writes to 4, each message JSON that
ends with a zero byte (https://chromedevtools.github.io/devtools-protocol/). By hand, for pictures of pages:

    tests/e2e/harness/browser.py PAGE.html PICTURE.png [--width 1280] [--height 0] [--dark]
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
TIMEOUT_S = 30.0


def program() -> str | None:
    """The browser of this machine, if there is one."""
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


class Browser:
    """One browser; a context manager. Pages are opened one after the other, each in a tab of its own."""

    def __init__(self):
        path = program()
        assert path, "no Chromium here; scripts/setup --drivers installs it"
        self.profile = tempfile.mkdtemp(prefix="pgweir-browser-")
        to_read, self.commands = os.pipe()
        self.messages, to_write = os.pipe()
        arguments = [
            path,
            "--headless=new",
            "--remote-debugging-pipe",
            "--no-sandbox",  # as root there is none
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            f"--user-data-dir={self.profile}",
            "about:blank",
        ]

        def move_pipes():
            # First out of the way: a pipe may already be 3 or 4.
            reader, writer = os.dup(to_read), os.dup(to_write)
            os.dup2(reader, 3)
            os.dup2(writer, 4)

        self.process = subprocess.Popen(
            arguments,
            preexec_fn=move_pipes,
            close_fds=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(to_read)
        os.close(to_write)
        self.buffer = b""
        self.last_id = 0
        self.events: list[dict] = []

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.messages)
        shutil.rmtree(self.profile, ignore_errors=True)

    def _read(self, deadline: float) -> dict:
        """The next message."""
        while b"\0" not in self.buffer:
            left = deadline - time.monotonic()
            assert left > 0, "the browser does not answer"
            if select.select([self.messages], [], [], left)[0]:
                data = os.read(self.messages, 1 << 20)
                assert data, "the browser has ended"
                self.buffer += data
        message, _, self.buffer = self.buffer.partition(b"\0")
        return json.loads(message)

    def call(self, method: str, session: str | None = None, **parameters) -> dict:
        """A command and its result; events that come in between are kept."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if session:
            message["sessionId"] = session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.commands, data) :]
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self._read(deadline)
            if answer.get("id") == self.last_id:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.events.append(answer)

    def wait_for(self, event: str, session: str) -> dict:
        """The next event of this name, or one that has already come."""
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            for i, seen in enumerate(self.events):
                if seen.get("method") == event and seen.get("sessionId") == session:
                    return self.events.pop(i)
            self.events.append(self._read(deadline))

    def open(self, path: str | pathlib.Path, width: int = 1280, dark: bool = False) -> Page:
        """Loads a file, in a window of this width."""
        return Page(self, pathlib.Path(path).resolve().as_uri(), width, dark)


class Page:
    """A loaded page."""

    def __init__(self, browser: Browser, address: str, width: int, dark: bool):
        self.browser = browser
        self.address = address
        target = browser.call("Target.createTarget", url="about:blank")["targetId"]
        self.target = target
        self.session = browser.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=900,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        scheme = "dark" if dark else "light"
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url=address)
        browser.wait_for("Page.loadEventFired", self.session)

    def call(self, method: str, **parameters) -> dict:
        return self.browser.call(method, self.session, **parameters)

    def evaluate(self, expression: str):
        """The value of a JavaScript expression on the page."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def complaints(self) -> list[str]:
        """What the page wrote to the console: errors and warnings, violated policies among them."""
        found = []
        for event in self._events():
            parameters = event["params"]
            if event["method"] == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
            elif event["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"]["text"])
            elif event["method"] == "Runtime.consoleAPICalled":
                found.append(str(parameters["args"]))
        return found

    def requests(self) -> list[str]:
        """What the page asked for, itself not counted."""
        asked = [
            event["params"]["request"]["url"] for event in self._events() if event["method"] == "Network.requestWillBeSent"
        ]
        return [url for url in asked if url != self.address and not url.startswith("data:")]

    def _events(self) -> list[dict]:
        self.evaluate("new Promise(done => setTimeout(done, 50))")
        return [event for event in self.browser.events if event.get("sessionId") == self.session]

    def picture(self, path: str | pathlib.Path, height: int = 0):
        """A PNG of the page's upper `height` pixels, or of all of it."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": height or size["height"], "scale": 1}
        data = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def paper(self) -> bytes:
        """The page as printed, a PDF."""
        return base64.b64decode(self.call("Page.printToPDF", printBackground=False)["data"])

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)


def main():
    parser = argparse.ArgumentParser(description="Takes a picture of a page.")
    parser.add_argument("page")
    parser.add_argument("picture")
    parser.add_argument("--width", type=int, default=1280)
    parser.add_argument("--height", type=int, default=0, help="pixels from the top; all of the page where not given")
    parser.add_argument("--dark", action="store_true")
    arguments = parser.parse_args()
    with Browser() as browser:
        page = browser.open(arguments.page, arguments.width, arguments.dark)
        page.picture(arguments.picture, arguments.height)
        for complaint in page.complaints() + page.requests():
            print(complaint)


if __name__ == "__main__":
    main()
