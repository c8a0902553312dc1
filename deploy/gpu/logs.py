"""The whole output of every program that the check ran, in a few files beside the report. The
report has only the lines that matter; these files answer the questions that come up when it is
read."""
import glob
import os
import threading

# A way back from the machine with the GPU may take few files, of a limited size.
MOST_FILES, MOST_BYTES = 4, 15 << 20
MOST_OF_ONE_PROGRAM = 1 << 20  # characters; the middle of a longer output is left out


def shortened(text):
    if len(text) <= MOST_OF_ONE_PROGRAM:
        return text
    half = MOST_OF_ONE_PROGRAM // 2
    left_out = len(text) - 2 * half
    return f"{text[:half]}\n[{left_out} characters left out]\n{text[-half:]}"


class Logs:
    """Files named PREFIX.log, PREFIX.2.log, ... `go_on`: adds to those that are there, else removes
    them. Thread-safe."""

    def __init__(self, prefix, go_on=False):
        self.prefix = prefix
        self.number = 1
        self.not_kept = 0  # programs whose output found no room
        self.lock = threading.Lock()
        for number in range(1, MOST_FILES + 1):
            if go_on and os.path.exists(self.path(number)):
                self.number = number
        if not go_on:
            for path in glob.glob(f"{glob.escape(prefix)}.[0-9].log") + [self.path(1)]:
                if os.path.exists(path):
                    os.remove(path)

    def path(self, number):
        return f"{self.prefix}.log" if number == 1 else f"{self.prefix}.{number}.log"

    def add(self, title, text):
        entry = f"==== {title}\n{shortened(text).rstrip()}\n".encode(errors="replace")
        with self.lock:
            while self.number <= MOST_FILES:
                path = self.path(self.number)
                size = os.path.getsize(path) if os.path.exists(path) else 0
                if size + len(entry) <= MOST_BYTES:
                    with open(path, "ab") as file:
                        file.write(entry)
                    return
                self.number += 1
            self.not_kept += 1
