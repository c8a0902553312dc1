"""Runs autocfg-server and autocfg-worker as processes for tests. Ends each process with the block that started it."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time

BIN = os.environ["AUTOCFG_BIN_DIR"]
_START_LIMIT_S = 60
_END_LIMIT_S = 30


def wait_for(condition, what, limit_s=_START_LIMIT_S):
    """Returns the first true value of `condition()`."""
    end = time.monotonic() + limit_s
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > end:
            raise AssertionError(f"not within {limit_s} s: {what}")
        time.sleep(0.05)


_MARK = "AUTOCFG_TEST_DIRECTORY"  # inherited by ranks, as every AUTOCFG_*


class Process:
    """A program whose standard output and error go to a file."""

    def __init__(self, directory, name, arguments, environment=None):
        self.log = os.path.join(directory, name + ".log")
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen([os.path.join(BIN, arguments[0]), *arguments[1:]], stdin=subprocess.DEVNULL,
                                            stdout=log, stderr=log, env={**os.environ, _MARK: directory, **(environment or {})})

    def text(self):
        with open(self.log, encoding="utf-8", errors="replace") as log:
            return log.read()

    def said(self, pattern):
        def look():
            found = re.search(pattern, self.text())
            if not found and self.process.poll() is not None:
                raise AssertionError(f"ended with {self.process.returncode}: {self.text()}")
            return found
        return wait_for(look, f"{pattern!r} in {self.log}")

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Ends the process with SIGTERM. Returns its exit status."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"does not end within {_END_LIMIT_S} s of SIGTERM: {self.text()}") from None


class Services(contextlib.ExitStack):
    """A temporary directory, and the processes started in it."""

    def __enter__(self):
        super().__enter__()
        self.directory = tempfile.mkdtemp(prefix="autocfg_api_")
        self.callback(shutil.rmtree, self.directory, ignore_errors=True)
        return self

    def left_behind(self, limit_s=_END_LIMIT_S):
        """Returns the command lines of processes that these services, which have ended, still have after `limit_s`."""
        mark, end = f"{_MARK}={self.directory}".encode(), time.monotonic() + limit_s
        while True:
            left = []
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open(f"/proc/{pid}/environ", "rb") as environment, open(f"/proc/{pid}/cmdline", "rb") as command:
                        if mark in environment.read().split(b"\0"):
                            left.append(command.read())
                except OSError:
                    continue  # ended meanwhile, or another user's
            if not left or time.monotonic() > end:
                return left
            time.sleep(0.1)

    def start(self, name, arguments, environment=None):
        process = Process(self.directory, name, arguments, environment)
        self.callback(lambda: process.process.poll() is None and process.kill())
        return process

    def server(self, *arguments, environment=None):
        """Returns the server and its address. `environment`: variables beside those of this process."""
        process = self.start("server", ["autocfg-server", "--listen", "localhost:0", "--db", os.path.join(self.directory, "server.db"), *arguments],
                             environment)
        return process, process.said(r"listening on (\S+)").group(1)

    def worker(self, address, name, *arguments):
        process = self.start(name, ["autocfg-worker", "--coordinator", address, "--name", name, *arguments])
        process.said("registered with")
        return process
