"""What continuous integration runs, and what its exit status says, with a ./dev and a ctest of its own."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import fake_bundle

# FAILS, HANGS: the words of the commands that do; SAYS: what those print before.
DEV = r'''
import os, sys, time
words = " ".join(sys.argv[1:])
with open("dev.log", "a") as log:
    log.write(os.environ.get("PRESET", "release") + " " + words + "\n")
if words in (os.environ.get("FAILS"), os.environ.get("HANGS")):
    print(os.environ.get("SAYS", ""), flush=True)
if words == os.environ.get("HANGS"):
    time.sleep(100)
sys.exit(3 if words == os.environ.get("FAILS") else 0)
'''
# Lists the tests labelled proof, or runs one, which fails if it is the one of AGAIN.
CTEST = r'''
import os, sys
if "-N" in sys.argv:
    print("  Test #1: store_test\n  Test #2: steps_test_1\n\nTotal Tests: 2")
    sys.exit(0)
with open("dev.log", "a") as log:
    log.write("ctest " + sys.argv[sys.argv.index("--test-dir") + 1] + " " + sys.argv[-1] + "\n")
sys.exit(8 if sys.argv[-1] == f"^{os.environ.get('AGAIN')}$" else 0)
'''
# The first call says how many results it did not have before, the second one after the tests.
CCACHE = r'''
import os, pathlib
calls = pathlib.Path("ccache.calls")
calls.write_text(calls.read_text() + "." if calls.exists() else ".")
print("cache_miss\t" + ("7" if len(calls.read_text()) == 1 else os.environ.get("MISSES", "7")))
'''
LINT, TESTS = "lint --changed --tidy-limit 360", "test"
EXTRAS = {"sanitizers": "asan-ubsan test --sanitized", "slow": "release test --all -L ^slow$", "threads": "tsan test --threads"}


def failure(test, how="Failed"):
    return f" 3/77 Test #42: {test} .................***{how}  0.11 sec\n"


class Ci(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        (self.root / ".ci").mkdir()
        (self.root / "bin").mkdir()
        shutil.copy(fake_bundle.SOURCE / ".ci" / "run", self.root / ".ci")
        fake_bundle.write_program(self.root / "dev", DEV)
        fake_bundle.write_program(self.root / "bin" / "ctest", CTEST)
        fake_bundle.write_program(self.root / "bin" / "ccache", CCACHE)
        self.commit()

    def commit(self):
        git = ["git", "-C", self.root, "-c", "user.name=a", "-c", "user.email=a@b"]
        for words in (["init", "--quiet"], ["commit", "--quiet", "--allow-empty", "--message=a"]):
            subprocess.run([*git, *words], check=True)

    def ci(self, **variables):
        """Its exit status, the commands that it ran, what it said."""
        log = self.root / "dev.log"
        log.unlink(missing_ok=True)
        (self.root / "ccache.calls").unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in ("PRESET", "CI_EXTRA")}
        environment["PATH"] = f"{self.root / 'bin'}:{environment['PATH']}"
        done = subprocess.run([self.root / ".ci" / "run"], capture_output=True, text=True, timeout=100, env={**environment, **variables}, check=False)
        return done.returncode, log.read_text().splitlines(), done.stderr

    def test_its_steps_and_the_extra_that_rotates_with_the_commits(self):
        ran = set()
        for _ in range(3):
            code, commands, said = self.ci()
            self.assertEqual(code, 0, said)
            self.assertEqual(commands[:2], [f"release {LINT}", f"release {TESTS}"])
            self.assertEqual(len(commands), 3)
            ran.add(commands[2])
            self.commit()
        self.assertEqual(ran, set(EXTRAS.values()))

    def test_a_failure_fails_and_the_other_steps_run(self):
        for command, name, extra in ((LINT, "lint", "slow"), (TESTS, "tests", "slow"), ("test --sanitized", "sanitizers", "sanitizers")):
            code, commands, said = self.ci(FAILS=command, CI_EXTRA=extra)
            self.assertEqual((code, len(commands)), (1, 3), said)
            self.assertIn(f"{name}: failed with status 3", said)
            self.assertIn(f"failed: {name}\n", said)

    def test_an_extra_whose_time_is_up_is_reported(self):
        code, _, said = self.ci(CI_EXTRA="slow", HANGS="test --all -L ^slow$", CI_LIMIT_S="8")
        self.assertEqual(code, 0, said)
        self.assertIn("not finished or not run: slow\n", said)

    def test_the_extra_has_more_time_if_the_compiler_cache_was_empty(self):
        for misses, minutes in (("107", 44), ("108", 69)):
            code, _, said = self.ci(MISSES=misses, CI_EXTRA="slow")
            self.assertEqual(code, 0, said)
            limit_s = int(re.search(r"slow: at most (\d+) s", said)[1])
            self.assertEqual(-(-limit_s // 60), minutes, said)

    def test_a_failure_in_an_extra_whose_time_is_up_counts(self):
        code, commands, said = self.ci(CI_EXTRA="slow", HANGS="test --all -L ^slow$", SAYS=failure("soak_test"), AGAIN="soak_test", CI_LIMIT_S="8")
        self.assertEqual((code, commands[-1]), (1, "ctest build ^soak_test$"), said)
        self.assertIn("failed: soak_test\n", said)

    def test_tests_that_do_not_finish_fail(self):
        code, _, said = self.ci(HANGS=TESTS, CI_LIMIT_S="3")
        self.assertEqual(code, 1, said)
        self.assertIn("failed: tests (unfinished)\n", said)

    def test_a_test_that_passes_alone_is_flaky_and_one_that_fails_again_fails(self):
        says = failure("cli_test_2", "Timeout") + failure("rpc_test") + " 4/77 Test #5: gpu_test .....***Skipped  0.1 sec\n"
        code, commands, said = self.ci(FAILS=TESTS, SAYS=says, CI_EXTRA="slow")
        self.assertEqual((code, commands[2:4]), (0, ["ctest build ^cli_test_2$", "ctest build ^rpc_test$"]), said)
        self.assertIn("flaky, failed once and passed alone: cli_test_2 rpc_test\n", said)
        code, _, said = self.ci(FAILS=TESTS, SAYS=says, AGAIN="rpc_test", CI_EXTRA="slow")
        self.assertEqual(code, 1, said)
        self.assertIn("flaky, failed once and passed alone: cli_test_2\n", said)
        self.assertIn("failed: rpc_test\n", said)

    def test_proofs_are_not_repeated(self):
        code, commands, said = self.ci(FAILS=TESTS, SAYS=failure("steps_test_1"), CI_EXTRA="slow")
        self.assertEqual((code, len(commands)), (1, 3), said)
        self.assertIn("failed: steps_test_1\n", said)

    def test_a_report_of_a_sanitizer_is_fatal(self):
        for report in ("a.cc:3:4: runtime error: signed integer overflow", "SUMMARY: ThreadSanitizer: data race a.cc:3 in F"):
            code, commands, said = self.ci(FAILS="test --threads", SAYS=failure("rpc_test") + report, CI_EXTRA="threads")
            self.assertEqual((code, len(commands)), (1, 3), said)
            self.assertIn("threads: a sanitizer reported an error\n", said)

    def test_an_unknown_extra_is_refused(self):
        code, _, said = self.ci(CI_EXTRA="fuzz")
        self.assertEqual(code, 1)
        self.assertIn("unknown CI_EXTRA 'fuzz'; use sanitizers, slow or threads\n", said)


if __name__ == "__main__":
    unittest.main()
