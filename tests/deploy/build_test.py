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

    def test_real_ninja_with_globbed_sources_is_announced(self):
        with tempfile.TemporaryDirectory() as name:
            build = pathlib.Path(name) / "build"
            build.mkdir()
            # The part that CMake writes for globs: a step that always runs and rarely changes its output.
            rules = ["rule VERIFY_GLOBS", "  command = true", "  restat = 1", "  generator = 1",
                     "rule RERUN_CMAKE", "  command = touch build.ninja", "  generator = 1",
                     "rule SLOW", "  command = touch $out", "  description = Building CUDA object $out",
                     "build force: phony", "build globs: VERIFY_GLOBS force", "",
                     "build build.ninja: RERUN_CMAKE globs", "",
                     "build all: phony " + " ".join(f"x{i}.o" for i in range(200))]
            (build / "globs").touch()
            rules += [f"build x{i}.o: SLOW" for i in range(200)]
            (build / "build.ninja").write_text("\n".join(rules) + "\n")
            done = subprocess.run([fake_bundle.SOURCE / "deploy" / "build.sh", build, "all"], capture_output=True, text=True, timeout=100, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)
            self.assertIn("autocfg: building all (200 steps", done.stderr)


if __name__ == "__main__":
    unittest.main()
