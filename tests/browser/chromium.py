"""A headless Chromium, driven over its debugging pipe: no driver, no network, no package beside the browser."""
import base64
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


def browser():
    """Returns the browser's path. A test without one fails: it must not pass unseen."""
    for name in (os.environ.get("AUTOCFG_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"):
        found = name and shutil.which(name)
        if found:
            return found
    raise AssertionError("there is no Chromium: install the package chromium (deploy/dependencies.sh --browser), "
                         "or set AUTOCFG_CHROMIUM to a browser")


class Chromium:
    """One browser with one tab. `problems` has what the console and the page's code complained of."""

    def __init__(self):
        self.home = tempfile.mkdtemp()
        read_commands, self.commands = os.pipe()
        self.answers, write_answers = os.pipe()
        self.waiting = b""
        self.ids = itertools.count(1)
        self.events = []
        self.problems = []

        def place():  # the browser reads descriptor 3 and writes descriptor 4
            high = [os.dup2(fd, 60 + i) for i, fd in enumerate((read_commands, write_answers))]
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        self.process = subprocess.Popen(
            [browser(), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
             "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={self.home}", "about:blank"],
            preexec_fn=place, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL)
        os.close(read_commands)
        os.close(write_answers)
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.send(f"{domain}.enable")

    session = None

    def close(self):
        try:
            self.process.kill()
            self.process.wait(30)
        finally:
            os.close(self.commands)
            os.close(self.answers)
            shutil.rmtree(self.home, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def receive(self, until):
        while b"\0" not in self.waiting:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise AssertionError("the browser does not answer")
            read = os.read(self.answers, 1 << 20)
            if not read:
                raise AssertionError("the browser has ended")
            self.waiting += read
        text, self.waiting = self.waiting.split(b"\0", 1)
        message = json.loads(text)
        if "method" in message:
            self.note(message)
        return message

    def note(self, event):
        method, values = event["method"], event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(one.get("value", one.get("description"))) for one in values["args"]))
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.problems.append(values["entry"]["text"])
        self.events.append(method)

    def send(self, method, timeout=60, **values):
        number = next(self.ids)
        message = {"id": number, "method": method, "params": values}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.commands, text):]
        until = time.monotonic() + timeout
        while True:
            answer = self.receive(until)
            if answer.get("id") == number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def window(self, width, height, dark=False, media=""):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def open(self, url, timeout=60):
        """Opens a page and returns the seconds until it says that it is drawn."""
        self.send("Page.navigate", url="about:blank")  # so that a page opened before cannot be taken for it
        begin = time.monotonic()
        self.send("Page.navigate", url=url)
        while not self.run(f"location.href.split('#')[0] === {json.dumps(url)} && document.documentElement?.dataset.ready === '1'"):
            if time.monotonic() > begin + timeout:
                raise AssertionError(f"{url} is not drawn after {timeout} s: {self.problems}")
            time.sleep(0.01)
        return time.monotonic() - begin

    def run(self, expression):
        """Returns the value of an expression of JavaScript."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"].get("exception", {}).get("description", "it failed"))
        return answer["result"].get("value")

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left" if kind != "mouseMoved" else "none", clickCount=1)
        self.next_frames()

    def next_frames(self):
        """Waits until the page has drawn what it was asked to, and has handled what it puts off to its next frame."""
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(1))))")

    def picture(self, path, top=0, height=None):
        """Writes a PNG of the page from `top` on: of the window's height if none is given."""
        self.run(f"window.scrollTo(0, {top})")
        self.next_frames()
        clip = {} if height is None else {"clip": {"x": 0, "y": top, "width": self.run("innerWidth"), "height": height, "scale": 1}}
        shot = self.send("Page.captureScreenshot", **clip)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def print(self, path):
        """Writes a PDF of the page as it is printed, on A4."""
        printed = self.send("Page.printToPDF", paperWidth=8.27, paperHeight=11.69, preferCSSPageSize=True, printBackground=False)
        with open(path, "wb") as file:
            file.write(base64.b64decode(printed["data"]))
