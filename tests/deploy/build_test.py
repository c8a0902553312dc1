"""What deploy/build.sh shows of a build, on a fake ninja."""
import os
import pathlib
import subprocess
import tempfile
import unittest

import fake_bundle

# FAKE_STEPS: the steps of the build, one a line. FAKE_FAILS: the last one fails.
NINJA = r'''
import os, sys
steps = os.environ.get("FAKE_STEPS", "").splitlines()
if "build.ninja" in sys.argv:
    sys.exit(0)
print("ninja: Entering directory `build'")
for i, step in enumerate(steps, 1):
    print(os.environ["NINJA_STATUS"].replace("%f", str(i)).replace("%t", str(len(steps))) + step)
if "-n" in sys.argv:
    sys.exit(0)
print("the build's -j is", "given" if "-j" in sys.argv else "left out")
if os.environ.get("FAKE_FAILS"):
    print("FAILED: x.o\nx.cc:1:2: error: '%s\\n' \\ is wrong")
    sys.exit(3)
'''


class Build(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.tools = pathlib.Path(directory.name)
        fake_bundle.write_program(self.tools / "ninja", NINJA)

    def build(self, **variables):
        done = subprocess.run([fake_bundle.SOURCE / "deploy" / "build.sh", "build", "all"], capture_output=True, text=True, timeout=100,
                              env={"PATH": f"{self.tools}:{os.environ['PATH']}", **variables})
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr.splitlines()

    def test_a_long_build_is_announced_with_its_time(self):
        code, said = self.build(FAKE_STEPS="\n".join(["Building CUDA object x.o"] * 1000))
        self.assertEqual(code, 0)
        self.assertRegex(said[0], r"^autocfg: building all \(1000 steps, \d+ at once\): about \d+ minutes")
        self.assertRegex(said[-1], r"^autocfg: built in \d+ seconds")

    def test_nothing_to_do_says_nothing_of_its_own(self):
        self.assertEqual(self.build(FAKE_STEPS="Linking x"), (0, ["the build's -j is given"]))

    def test_a_failure_shows_the_compilers_message_and_is_passed_on(self):
        code, said = self.build(FAKE_STEPS="Building CXX object x.o", FAKE_FAILS="yes")
        self.assertEqual(code, 3)
        self.assertEqual(said[-2:], ["FAILED: x.o", "x.cc:1:2: error: '%s\\n' \\ is wrong"])


if __name__ == "__main__":
    unittest.main()
