"""Runs what docs/api.md shows: over a restart of the server, the program that searches with the Python package, and the one that uses the
stubs, which its command makes; and the program that predicts. What it shows of C++ is a part of the example, which cpp_client_test
runs."""

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
        with_package, _, _ = blocks("python")
        self.run_over_a_restart(with_package, "", python)

    def test_the_program_that_predicts(self):
        python = installed_package.install(self.addCleanup)
        _, predicts, _ = blocks("python")
        file_name = os.path.join(self.services.directory, "predict_plan.py")
        with open(file_name, "w", encoding="utf-8") as file:
            file.write(predicts)
        _, address = self.services.server()

        def run(plan):
            return subprocess.run([python, "-B", file_name, address, plan], capture_output=True, text=True, timeout=_LIMIT_S, check=False)

        done = run("tp=2,dp=4,mbs=2")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^tp=2,dp=4,mbs=2: 0\.\d{4} s a step, \d+\.\d GiB a rank, fits\n$")
        self.assertRegex(run("mbs=32").stdout, r" a rank, does not fit: .")
        self.assertIn("plan: unknown option 'xp'", run("xp=2").stderr)

    def test_what_is_shown_of_cpp_is_in_the_example(self):
        with open(os.path.join(ROOT, "deploy", "examples", "cpp_client", "find_plan.cc"), encoding="utf-8") as file:
            example = file.read()
        shown = blocks("cpp")
        self.assertEqual(len(shown), 2)
        for block in shown:
            self.assertIn(block, example)

    def test_the_program_with_stubs(self):
        for tool in ("protoc", "grpc_python_plugin"):
            if not shutil.which(tool):
                self.skipTest(f"{tool} is missing (protobuf-compiler-grpc)")
        directory = self.services.directory
        (make_stubs,) = blocks("sh")
        _, _, with_stubs = blocks("python")
        os.symlink(os.path.join(ROOT, "proto"), os.path.join(directory, "proto"))
        subprocess.run(["bash", "-euc", make_stubs], cwd=directory, check=True, timeout=_LIMIT_S)
        self.run_over_a_restart(with_stubs, os.path.join(directory, "stubs"), sys.executable)


if __name__ == "__main__":
    unittest.main(verbosity=2)
