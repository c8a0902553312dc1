"""Tests that programs installed by `cmake --install` run from there, and that the packages that they need are
named. AUTOCFG_BUILD_DIR: the build."""
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["AUTOCFG_BUILD_DIR"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]


class InstallTest(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.home = pathlib.Path(scratch.name)
        subprocess.run(["cmake", "--install", BUILD, "--prefix", self.home], check=True, capture_output=True)
        self.bin = self.home / "bin"

    def test_programs_find_each_other(self):
        built = {"autocfg", "autocfg-server", "autocfg-worker", "autocfg-supervisor", "autocfg-trainer"}
        if (BUILD / "bin" / "libautocfg_cuda.so").exists():
            built.add("libautocfg_cuda.so")
        self.assertEqual({path.name for path in self.bin.iterdir()}, built)
        model = self.home / "model.json"
        model.write_text('{"layers": 1, "hidden": 16, "heads": 2, "vocab": 64, "max_seq_len": 8}')
        run = subprocess.run([self.bin / "autocfg", "train", "--model", model, "--plan", "dp=2", "--global-batch", "2", "--steps", "1",
                              "--device", "cpu", "--json"], capture_output=True, text=True, timeout=120)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual(len(json.loads(run.stdout)["losses"]), 1)

    @unittest.skipUnless(shutil.which("dpkg-query"), "no packages of dpkg here")
    def test_packages_are_named(self):
        script = SOURCE / "deploy" / "runtime_packages.sh"
        named = subprocess.run([script, self.bin / "autocfg", self.bin / "autocfg-trainer"], capture_output=True, text=True, timeout=120)
        self.assertEqual(named.returncode, 0, named.stderr)
        packages = named.stdout.split()
        self.assertIn("libc6", packages)
        self.assertTrue(any(package.startswith("libgrpc++") for package in packages), packages)
        self.assertEqual(packages, sorted(set(packages)))
        wrong = subprocess.run([script, self.home / "nothing"], capture_output=True, text=True, timeout=120)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("nothing does not exist", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
