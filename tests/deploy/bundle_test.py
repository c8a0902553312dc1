"""Tests the bundle script: what it refuses, and what it packs."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import fake_bundle

SCRIPT = fake_bundle.SOURCE / "deploy" / "gpu_bundle.sh"
TOOLS = ("ldd", "strip", "objdump", "xz")
# A program of every system that needs a library besides the C library's.
STAND_IN = next((path for path in ("/bin/ls", "/bin/tar", "/usr/bin/git") if pathlib.Path(path).exists()), None)


class Bundle(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = pathlib.Path(directory.name)
        self.build = self.directory / "build"
        for name in ("bin/autocfg", "bin/autocfg-supervisor", "bin/autocfg-trainer", "bin/libautocfg_cuda.so", "bin/autocfg_gpu_ops_bench", "tests/gpu_test"):
            (self.build / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(STAND_IN, self.build / name)
        self.opens("libcudnn.so.9", "libnccl.so.2")
        (self.build / "cuda_engine.txt").write_text("the CUDA engine is built for fake-real with CUDA 13.0\n")
        self.out = self.directory / "out"

    def opens(self, *names):
        """The engine contains these names, like one that opens such libraries at run time."""
        engine = self.build / "bin" / "libautocfg_cuda.so"
        engine.write_bytes(pathlib.Path(STAND_IN).read_bytes() + "".join(f"\0{name}\0" for name in names).encode())

    def pack(self):
        return subprocess.run([SCRIPT, self.build, self.out], capture_output=True, text=True, timeout=200)

    def refused(self, *words):
        done = self.pack()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_build_without_the_engine_is_refused(self):
        (self.build / "bin" / "libautocfg_cuda.so").unlink()
        (self.build / "cuda_engine.txt").write_text("the CUDA engine is left out: a CUDA toolkit not found\n")
        self.refused("no CUDA engine", "a CUDA toolkit not found")

    def test_a_missing_program_is_refused(self):
        (self.build / "tests" / "gpu_test").unlink()
        self.refused("gpu_test is missing")

    @unittest.skipUnless(all(shutil.which(tool) for tool in TOOLS), "needs ldd, strip, objdump and xz")
    def test_an_engine_that_opens_other_versions_is_refused(self):
        self.opens("libcudnn.so.10", "libnccl.so.2")
        self.refused("does not open libcudnn.so.9")

    def test_a_folder_of_something_else_is_left_alone(self):
        self.out.mkdir()
        (self.out / "precious").write_text("x")
        self.refused("is not a bundle")
        self.assertTrue((self.out / "precious").exists())

    @unittest.skipUnless(all(shutil.which(tool) for tool in TOOLS), "needs ldd, strip, objdump and xz")
    def test_packs_what_the_target_lacks(self):
        for _ in range(2):  # also over its own earlier bundle
            done = self.pack()
            self.assertEqual(done.returncode, 0, done.stderr)
        manifest = json.loads((self.out / "manifest.json").read_text())
        self.assertEqual(manifest["cuda_libraries_at_run_time"], ["libcudnn.so.9", "libnccl.so.2"])
        self.assertLessEqual({"libcudnn.so.9", "libnccl.so.2"}, set(manifest["cuda_libraries"]))
        taken = {file.name for file in (self.out / "lib").iterdir() if file.is_file()}
        self.assertEqual(taken, set(manifest["libraries"]))
        self.assertFalse({"libc.so.6", "libm.so.6", "libpthread.so.0"} & taken)
        needed = subprocess.run(["ldd", STAND_IN], capture_output=True, text=True, check=True).stdout
        for line in needed.splitlines():
            name = line.split()[0]
            if "=>" in line and not name.startswith(("libc.", "libm.", "libdl.", "libpthread.", "librt.", "libresolv.", "linux-vdso", "ld-linux")):
                self.assertIn(name, taken)
        for name in ("gpu_check", "gpu/report.py", "gpu/op_shapes.json", "gpu/models/gpt2-1.5b.json", "bench/gpu_step_torch.py", "README.md"):
            self.assertTrue((self.out / name).exists(), name)
        self.assertTrue(pathlib.Path(f"{self.out}.tar.xz").stat().st_size > 0)
        self.assertEqual([file for file in self.out.rglob("*") if file.is_symlink()], [])


if __name__ == "__main__":
    unittest.main()
