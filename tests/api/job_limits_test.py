"""What a job may take of a worker: the options --job-memory and --job-processes. A study whose jobs take more fails with one line, and nothing
of them is left behind."""

import os
import subprocess
import unittest

from services import BIN, Services, wait_for

SEARCH = ["search", "--model", "gpt2-tiny", "--cluster", "local:1x2", "--global-batch", "64", "--seq-len", "64", "--max-trials", "1",
          "--space", "recompute=none"]


def children_of(process):
    """The names of the programs that a process has started and that run."""
    def read(path):
        try:
            with open(path, encoding="utf-8") as file:
                return file.read()
        except (FileNotFoundError, ProcessLookupError):
            return ""  # it has ended meanwhile

    threads = os.listdir(f"/proc/{process.process.pid}/task")
    children = [child for thread in threads for child in read(f"/proc/{process.process.pid}/task/{thread}/children").split()]
    return [name for name in (read(f"/proc/{child}/comm").strip() for child in children) if name]


@unittest.skipUnless(os.path.exists(f"/proc/self/task/{os.getpid()}/children"), "the kernel does not list children")
class JobLimitsTest(unittest.TestCase):
    def search(self, *options):
        """What a search says on a worker with these options."""
        with Services() as services:
            _, address = services.server()
            worker = services.worker(address, "limited", "--devices", "cpu", "--slots", "2", *options)
            done = subprocess.run([os.path.join(BIN, "autocfg"), *SEARCH, "--coordinator", address], capture_output=True, text=True, timeout=300,
                                  check=False)
            wait_for(lambda: not children_of(worker), "the worker has no processes", 60)
            return done

    def test_memory(self):
        done = self.search("--job-memory", "4MiB")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"killed, because it had [\d.]+ MiB of private memory, above its limit of 4\.0 MiB")

    def test_processes(self):
        done = self.search("--job-processes", "1")
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"killed, because it had 2 processes, above its limit of 1; start")


if __name__ == "__main__":
    unittest.main()
