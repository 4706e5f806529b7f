"""A headless Chromium that opens files, for tests of pages; driven by its DevTools protocol over a
pipe, so that there is no port."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = ("chromium-headless-shell", "chromium", "chromium-shell")
DEADLINE = 120  # seconds; for a machine that is busy with other things

found = next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        commands, to_browser = os.pipe()
        from_browser, answers = os.pipe()
        self.process = subprocess.Popen(
            # The browser reads commands from descriptor 3 and writes answers to 4.
            ["bash", "-c", f'exec "$@" 3<&{commands} 4>&{answers}', "-", found, "--headless",
             "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
             "--force-device-scale-factor=1", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder.name}"],
            pass_fds=(commands, answers), env={**os.environ, "HOME": self.folder.name},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(commands)
        os.close(answers)
        self.to_browser, self.from_browser = to_browser, from_browser
        self.unread, self.number, self.session, self.events = b"", 0, None, []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def close(self):
        for descriptor in (self.to_browser, self.from_browser):
            os.close(descriptor)
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def _message(self, until):
        while b"\0" not in self.unread:
            if not select.select([self.from_browser], [], [], max(0, until - time.monotonic()))[0]:
                raise AssertionError("the browser does not answer")
            self.unread += os.read(self.from_browser, 1 << 20)
        text, self.unread = self.unread.split(b"\0", 1)
        return json.loads(text)

    def call(self, method, **parameters):
        self.number += 1
        command = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            command["sessionId"] = self.session
        unsent = json.dumps(command).encode() + b"\0"
        while unsent:
            unsent = unsent[os.write(self.to_browser, unsent) :]
        until = time.monotonic() + DEADLINE
        while True:
            message = self._message(until)
            if message.get("id") == self.number:
                if "error" in message:
                    raise AssertionError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, file, scheme="light", width=1200, height=900):
        """Until its scripts have run. What it asked of a network is in `requests` then, what went
        wrong in `errors`."""
        self.events.clear()
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", features=features)
        self._resize(width, height)
        self.call("Page.navigate", url="about:blank")
        url = file if isinstance(file, str) else file.as_uri()
        self.call("Page.navigate", url=url)
        until = time.monotonic() + DEADLINE
        while self.run("[location.href, document.readyState]") != [url, "complete"]:
            if time.monotonic() > until:
                raise AssertionError(f"{url} does not open")
            time.sleep(0.05)

    @property
    def requests(self):
        sent = [e for e in self.events if e.get("method") == "Network.requestWillBeSent"]
        urls = [event["params"]["request"]["url"] for event in sent]
        return [url for url in urls if not url.startswith(("file:", "about:"))]

    @property
    def errors(self):
        kinds = ("Runtime.exceptionThrown", "Log.entryAdded")
        return [event["params"] for event in self.events if event.get("method") in kinds]

    def run(self, script):
        """The value of an expression, or of what it promises."""
        done = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in done:
            raise AssertionError(f"{script}: {done['exceptionDetails']}")
        return done["result"].get("value")

    def screenshot(self):
        """PNG's bytes of all of the page."""
        height = self.run("document.documentElement.scrollHeight")
        self._resize(self.width, height)
        # What the new size changes is drawn in the next frames.
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        return base64.b64decode(self.call("Page.captureScreenshot")["data"])

    def _resize(self, width, height):
        self.width = width
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)  # fmt: skip
