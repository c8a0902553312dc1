"""Tests what ./dev configures and leaves out with and without a toolkit or a GPU, on fake tools."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import fake_bundle

# Keeps its options, as CMake's cache does. FAKE_TOOLKIT=no: no toolkit is found.
CMAKE = r'''
import os, pathlib, sys
build = pathlib.Path("build")
build.mkdir(exist_ok=True)
cache = build / "CMakeCache.txt"
values = dict(line.split(":STRING=") for line in cache.read_text().splitlines()) if cache.exists() else {"AUTOCFG_CUDA": "AUTO"}
values.update(argument[2:].split("=", 1) for argument in sys.argv if argument.startswith("-D"))
cache.write_text("".join(f"{name}:STRING={value}\n" for name, value in values.items()))
(build / "build.ninja").write_text("")
built = values["AUTOCFG_CUDA"] != "OFF" and os.environ.get("FAKE_TOOLKIT") != "no"
engine = "the CUDA engine is built for 90a" if built else "the CUDA engine is left out: nothing found"
(build / "cuda_engine.txt").write_text(engine + "\n")
print("-- autocfg: " + engine)
'''
# A program of libFuzzer with two targets. FAILS: the one that does.
FUZZ = r'''
import os, sys
target = os.environ["AUTOCFG_FUZZ"]
if target == "list":
    print("plan shared.json\nmodel ")
    sys.exit(0)
if target == "build":
    print("1.0+abc")
    sys.exit(0)
open(f"{target}.run", "w").write(" ".join(sys.argv[1:]))
kept = next(word for word in sys.argv[1:] if not word.startswith("-"))
open(os.path.join(kept, "new"), "w").write("input")
print("stat::number_of_executed_units: 1234", file=sys.stderr)
sys.exit(77 if os.environ.get("FAILS") == target else 0)
'''
RECORD = 'import os, sys\nopen("tools.log", "a").write(os.path.basename(sys.argv[0]) + " " + " ".join(sys.argv[1:]) + "\\n")\n'


class Dev(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name)
        shutil.copy(fake_bundle.SOURCE / "dev", self.root)
        (self.root / "deploy").mkdir()
        shutil.copy(fake_bundle.SOURCE / "deploy" / "build.sh", self.root / "deploy")
        self.tools = self.root / "tools"
        for path, body in (("tools/cmake", CMAKE), ("tools/ninja", RECORD), ("tools/ctest", RECORD), ("deploy/dependencies.sh", ""),
                           ("deploy/gpu_bundle.sh", RECORD), ("build/gpu_bundle/gpu_check", RECORD), ("build/bin/autocfg", "")):
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            fake_bundle.write_program(self.root / path, body)

    def gpu(self, there):
        fake_bundle.write_program(self.tools / "nvidia-smi", "" if there else "raise SystemExit(9)")

    def dev(self, *arguments, **variables):
        self.gpu(variables.pop("gpu", False))
        log = self.root / "tools.log"
        log.unlink(missing_ok=True)
        done = subprocess.run([self.root / "dev", *arguments], capture_output=True, text=True, timeout=100,
                              env={"PATH": f"{self.tools}:{os.environ['PATH']}", "HOME": str(self.root), **variables})
        self.assertEqual(done.stdout, "")
        return done.returncode, done.stderr, log.read_text() if log.exists() else ""

    def cuda(self):
        return next(line for line in (self.root / "build" / "CMakeCache.txt").read_text().splitlines() if line.startswith("AUTOCFG_CUDA:")).split("=")[1]

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "this machine has a GPU")
    def test_a_first_search_without_a_gpu_leaves_the_engine_out_and_a_build_takes_it_in(self):
        self.assertIn("left out", self.dev("search")[1])
        self.assertEqual(self.cuda(), "OFF")
        self.dev("search")
        self.assertEqual(self.cuda(), "OFF")
        self.assertIn("the CUDA engine is built for 90a", self.dev("build")[1])
        self.assertEqual(self.cuda(), "AUTO")
        self.dev("search")
        self.assertEqual(self.cuda(), "AUTO")

    def test_a_first_search_with_a_gpu_takes_it_in(self):
        self.dev("search", gpu=True)
        self.assertEqual(self.cuda(), "AUTO")

    def test_what_was_asked_for_stays(self):
        (self.root / "build" / "CMakeCache.txt").write_text("AUTOCFG_CUDA:STRING=ON\n")
        for verb in ("search", "build", "test"):
            self.dev(verb)
            self.assertEqual(self.cuda(), "ON")

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "this machine has a GPU")
    def test_gpu_tests_are_left_out_and_reported_without_a_gpu(self):
        _, said, log = self.dev("test", "-R", "x")
        self.assertIn("the tests labelled gpu are left out: no GPU is visible", said)
        self.assertIn("-LE ^(slow|gpu)$ -R x", log)
        self.assertIn("-LE ^(gpu)$\n", self.dev("test", "--all")[2])

    def test_unit_builds_and_runs_the_unit_tests_alone(self):
        log = self.dev("test", "--unit", "--stop-on-failure")[2]
        self.assertRegex(log, r"ninja -C build -j \d+ unit_tests\n")
        self.assertRegex(log, r"ctest .* -L \^unit\$ --stop-on-failure\n")
        self.assertRegex(self.dev("test")[2], r"ninja -C build -j \d+ all\n")

    def test_sanitized_adds_what_the_sanitizers_run(self):
        log = self.dev("test", "--sanitized")[2]
        self.assertRegex(log, r"ninja -C build -j \d+ sanitized_tests\n")
        self.assertRegex(log, r"ctest .* -L \^\(unit\|sanitized\)\$\n")

    def test_threads_runs_what_the_thread_sanitizer_runs(self):
        log = self.dev("test", "--threads")[2]
        self.assertRegex(log, r"ninja -C build -j \d+ threads_tests\n")
        self.assertRegex(log, r"ctest .* -L \^threads\$\n")

    def fuzz(self, *arguments, **variables):
        """Its exit status, what it said, the result that it kept."""
        (self.root / "tests" / "fuzz" / "corpus" / "plan").mkdir(parents=True, exist_ok=True)
        shutil.copy(fake_bundle.SOURCE / "tests" / "fuzz" / "run.py", self.root / "tests" / "fuzz")
        (self.root / "build-fuzz" / "bin").mkdir(parents=True, exist_ok=True)
        (self.root / "bench" / "results").mkdir(parents=True, exist_ok=True)
        fake_bundle.write_program(self.root / "build-fuzz" / "bin" / "autocfg_fuzz", FUZZ)
        code, said, log = self.dev("fuzz", *arguments, **variables)
        self.assertRegex(log, r"ninja -C build-fuzz -j \d+ autocfg_fuzz\n")
        result = self.root / "bench" / "results" / "fuzz.json"
        return code, said, json.loads(result.read_text()) if result.exists() else None

    def test_fuzz_runs_all_targets_and_keeps_the_results(self):
        code, said, kept = self.fuzz("7")
        self.assertEqual(code, 0, said)
        for row, name in zip(kept["result"], ("plan", "model"), strict=True):
            self.assertTrue(row.pop("machine"))
            self.assertEqual(row.pop("build"), "1.0+abc")
            self.assertEqual(row, {"target": name, "seconds": 7, "runs": 1234, "new_inputs": 1, "failed": False})
        ran = (self.root / "plan.run").read_text()
        self.assertIn("-max_total_time=7 ", ran)
        self.assertIn("-seed_inputs=shared.json ", ran)
        self.assertTrue(ran.endswith("/build-fuzz/fuzz/plan " + str((self.root / "tests/fuzz/corpus/plan").resolve())), ran)
        self.assertNotIn("seed_inputs", (self.root / "model.run").read_text())

    def test_fuzz_of_one_target_keeps_the_results_of_the_others(self):
        code, said, kept = self.fuzz("model")
        self.assertEqual(code, 0, said)
        self.assertEqual([(row["target"], row["seconds"]) for row in kept["result"]], [("model", 60)])
        self.assertIn("-max_total_time=60 ", (self.root / "model.run").read_text())
        self.assertFalse((self.root / "plan.run").exists())
        self.fuzz("7")
        self.assertEqual([(row["target"], row["seconds"]) for row in self.fuzz("9", "model")[2]["result"]], [("plan", 7), ("model", 9)])

    def test_fuzz_names_the_target_that_fails_and_runs_the_others(self):
        code, said, kept = self.fuzz(FAILS="plan")
        self.assertEqual(code, 1)
        self.assertIn("fuzz: failed: plan; their inputs are ", said)
        self.assertEqual([row["failed"] for row in kept["result"]], [True, False])

    def test_fuzz_refuses_an_unknown_target(self):
        code, said, _ = self.fuzz("plans")
        self.assertEqual(code, 2)
        self.assertIn("fuzz: unknown target 'plans'; expected plan, model\n", said)

    def test_gpu_tests_run_with_a_gpu(self):
        _, said, log = self.dev("test", gpu=True)
        self.assertNotIn("gpu", said)
        self.assertIn("-LE ^(slow)$\n", log)
        self.assertNotIn("-LE", self.dev("test", "--all", gpu=True)[2])

    def test_the_build_says_what_it_left_out(self):
        self.assertIn("autocfg: the CUDA engine is left out: nothing found", self.dev("build", FAKE_TOOLKIT="no")[1])

    def test_gpu_without_a_toolkit_is_refused(self):
        code, said, log = self.dev("gpu", FAKE_TOOLKIT="no")
        self.assertEqual((code, log), (1, ""))
        self.assertIn("gpu: the CUDA engine is left out: nothing found; install", said)

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "this machine has a GPU")
    def test_gpu_without_a_gpu_makes_the_bundle_and_says_where_to_run_it(self):
        code, said, log = self.dev("gpu")
        self.assertEqual(code, 1)
        self.assertIn("gpu_bundle.sh build build/gpu_bundle", log)
        self.assertNotIn("gpu_check", log)
        self.assertIn("build/gpu_bundle.tar.xz", said.strip().splitlines()[-1])

    def test_gpu_with_a_gpu_runs_the_check(self):
        code, _, log = self.dev("gpu", "--only", "ops", gpu=True)
        self.assertEqual(code, 0)
        self.assertIn("gpu_check --results bench/results --only ops", log)


if __name__ == "__main__":
    unittest.main()
