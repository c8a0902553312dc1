"""Installs the C++ client library into a directory of its own, builds the example of deploy/examples against it, and runs that on a real
server and worker."""

import os
import shutil
import subprocess
import unittest

from services import BIN, Services

BUILD = os.path.dirname(BIN)
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_LIMIT_S = 300


@unittest.skipUnless(shutil.which("cmake"), "cmake is missing")
@unittest.skipIf(os.environ.get("AUTOCFG_SANITIZE"), "a library with a sanitizer needs its flags in the example")
class CppClientTest(unittest.TestCase):
    def setUp(self):
        self.services = Services()
        self.services.__enter__()
        self.addCleanup(self.services.close)
        self.prefix = os.path.join(self.services.directory, "prefix")
        self.do("cmake", "--install", BUILD, "--prefix", self.prefix, "--component", "client")

    def do(self, *command, status=0):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_LIMIT_S, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_the_example_builds_against_what_is_installed_and_runs(self):
        headers = sorted(name for _, _, names in os.walk(os.path.join(self.prefix, "include")) for name in names)
        self.assertEqual(headers, ["endpoint.h", "model.pb.h", "study_client.h", "study_service.pb.h", "study_watcher.h"])
        # An installed package must not name directories of the build, nor the CPU that built it.
        for directory, _, names in os.walk(os.path.join(self.prefix, "lib", "cmake")):
            for name in names:
                with open(os.path.join(directory, name), encoding="utf-8") as file:
                    text = file.read()
                for word in (BUILD, "-march", "autocfg_flags"):
                    self.assertNotIn(word, text, name)
        build = os.path.join(self.services.directory, "example")
        self.do("cmake", "-S", os.path.join(ROOT, "deploy", "examples", "cpp_client"), "-B", build, "-DCMAKE_PREFIX_PATH=" + self.prefix,
                "-DCMAKE_CXX_FLAGS=-Wall -Wextra -Werror")
        self.do("cmake", "--build", build)
        program = os.path.join(build, "find_plan")
        _, address = self.services.server()
        self.services.worker(address, "one", "--devices", "cpu", "--slots", "2")
        said = self.do(program, address, "autocfg")
        self.assertRegex(said, r"dp=2 is predicted to take [0-9.e-]+ s a step\n")
        self.assertRegex(said, r"best: tp=\S+, measured\n")
        self.assertIn('"plan"', said)
        self.assertIn("megatron", self.do(program, address, "word", status=1))
        self.assertRegex(self.do(program, "unix:/nowhere/there.sock", "autocfg", status=1), "no coordinator answers there")

    def test_a_library_that_is_missing_is_named(self):
        project = os.path.join(self.services.directory, "project")
        os.mkdir(project)
        with open(os.path.join(project, "CMakeLists.txt"), "w", encoding="utf-8") as file:
            file.write("cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES CXX)\nfind_package(autocfg)\n"
                       "if(NOT autocfg_FOUND)\n  message(FATAL_ERROR \"${autocfg_NOT_FOUND_MESSAGE}\")\nendif()\n")
        said = self.do("cmake", "-S", project, "-B", os.path.join(project, "build"), "-DCMAKE_PREFIX_PATH=" + self.prefix,
                       "-DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON", status=1)
        self.assertIn("fmt", said)


if __name__ == "__main__":
    unittest.main(verbosity=2)
