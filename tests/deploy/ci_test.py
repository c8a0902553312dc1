"""What continuous integration runs, and what its exit status says, with a ./dev of its own."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import fake_bundle

# FAILS, HANGS: the words of the commands that do.
DEV = r'''
import os, sys, time
words = " ".join(sys.argv[1:])
with open("dev.log", "a") as log:
    log.write(os.environ.get("PRESET", "release") + " " + words + "\n")
if words == os.environ.get("HANGS"):
    time.sleep(100)
sys.exit(3 if words == os.environ.get("FAILS") else 0)
'''
LINT, TESTS = "lint --changed --tidy-limit 360", "test"
SANITIZERS, SLOW = "test --sanitized --stop-on-failure", "test --all -L ^slow$ --stop-on-failure"


class Ci(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / ".ci").mkdir()
        shutil.copy(fake_bundle.SOURCE / ".ci" / "run", self.root / ".ci")
        fake_bundle.write_program(self.root / "dev", DEV)

    def ci(self, **variables):
        """Its exit status, the commands that it ran, what it said."""
        log = self.root / "dev.log"
        log.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name != "PRESET"}
        done = subprocess.run([self.root / ".ci" / "run"], capture_output=True, text=True, timeout=100, env={**environment, **variables}, check=False)
        return done.returncode, log.read_text().splitlines(), done.stderr

    def test_its_steps(self):
        code, commands, said = self.ci()
        self.assertEqual(code, 0, said)
        self.assertEqual(commands, [f"release {LINT}", f"release {TESTS}", f"asan-ubsan {SANITIZERS}", f"release {SLOW}"])

    def test_a_failure_fails_and_the_other_steps_run(self):
        for command, name, ran in ((LINT, "lint", 3), (TESTS, "tests", 3), (SANITIZERS, "sanitizers", 3), (SLOW, "slow", 4)):
            code, commands, said = self.ci(FAILS=command)
            self.assertEqual((code, len(commands)), (1, ran), said)
            self.assertIn(f"{name}: failed with status 3", said)
            self.assertIn(f"failed: {name}\n", said)

    def test_the_end_of_the_time_is_said(self):
        code, commands, said = self.ci(HANGS=SANITIZERS, CI_LIMIT_S="8")
        self.assertEqual((code, len(commands)), (0, 3), said)
        self.assertIn("not finished or not run: sanitizers slow\n", said)

    def test_tests_that_do_not_finish_fail(self):
        code, _, said = self.ci(HANGS=TESTS, CI_LIMIT_S="2")
        self.assertEqual(code, 1, said)
        self.assertIn("failed: tests (unfinished)\n", said)


if __name__ == "__main__":
    unittest.main()
