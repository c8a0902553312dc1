"""Runs what docs/api.md shows over a restart of the server: the program that uses the Python package, and the one that uses the stubs,
which its command makes."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import installed_package
from services import Services, wait_for

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LIMIT_S = 300


def blocks(language):
    with open(os.path.join(ROOT, "docs", "api.md"), encoding="utf-8") as page:
        return re.findall(rf"^```{language}\n(.*?)^```$", page.read(), re.DOTALL | re.MULTILINE)


class ApiDocumentTest(unittest.TestCase):
    def setUp(self):
        self.services = Services()
        self.services.__enter__()
        self.addCleanup(self.services.close)

    def serve(self, name):
        """Starts a server on the test's address and database, which stay the same."""
        process = self.services.start(name, ["autocfg-server", "--listen", self.address, "--db", os.path.join(self.services.directory, "server.db")])
        process.said(r"listening on (\S+)")
        return process

    def run_over_a_restart(self, program, path, python):
        """Runs a program on a server and worker that it finds, and restarts the server once it has said "calibrating"."""
        directory = self.services.directory
        file_name = os.path.join(directory, "find_plan.py")
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(program)
        self.address = "unix:" + os.path.join(directory, "api.sock")
        server = self.serve("server")
        self.services.worker(self.address, "one", "--devices", "cpu", "--slots", "2")
        output = os.path.join(directory, "output")
        with open(output, "wb") as file:
            client = subprocess.Popen([python, "-B", file_name, self.address], stdout=file, stderr=file, env={**os.environ, "PYTHONPATH": path})
        self.addCleanup(lambda: client.poll() is None and client.kill())

        def text():
            with open(output, encoding="utf-8") as file:
                return file.read()

        wait_for(lambda: "calibrating" in text() or client.poll() is not None, "the first events")
        self.assertIsNone(client.poll(), text())
        self.assertEqual(server.stop(), 0, server.text())
        self.serve("server_again")
        self.assertEqual(client.wait(timeout=_LIMIT_S), 0, text())
        self.assertRegex(text(), r"\nbest: tp=\S+, 0\.\d+ s a step, measured\n$")

    def test_the_program_with_the_package(self):
        python = installed_package.install(self.addCleanup)
        with_package, _ = blocks("python")
        self.run_over_a_restart(with_package, "", python)

    def test_the_program_with_stubs(self):
        for tool in ("protoc", "grpc_python_plugin"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is missing (protobuf-compiler-grpc)")
        directory = self.services.directory
        (make_stubs,) = blocks("sh")
        _, with_stubs = blocks("python")
        os.symlink(os.path.join(ROOT, "proto"), os.path.join(directory, "proto"))
        subprocess.run(["bash", "-euc", make_stubs], cwd=directory, check=True, timeout=_LIMIT_S)
        self.run_over_a_restart(with_stubs, os.path.join(directory, "stubs"), sys.executable)


if __name__ == "__main__":
    unittest.main(verbosity=2)
