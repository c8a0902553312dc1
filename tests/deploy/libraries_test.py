"""Tests that CUDA's libraries are found in the directories of systems and Python packages, and that missing
ones are named."""
import os
import pathlib
import tempfile
import unittest

import fake_bundle  # noqa: F401: the path to deploy/
from gpu import libraries


class Find(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.root = pathlib.Path(self.directory.name)

    def put(self, path):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
        return str(file.parent)

    def test_python_packages_and_toolkits_are_searched(self):
        toolkit = self.put("cuda-13.0/lib64/libcudart.so.13")
        package = self.put("site/nvidia/cudnn/lib/libcudnn.so.9")
        torch = self.put("site/torch/lib/libtorch.so")
        places = libraries.directories({"LD_LIBRARY_PATH": "/no/such/place"}, [str(self.root / "site"), ""], [str(self.root / "cuda*")])
        self.assertLess({toolkit, package, torch}, {*places, "more"})
        self.assertNotIn("/no/such/place", places)
        found, missing, path = libraries.find(["libcudart.so.13", "libcudnn.so.9", "libnccl.so.2"], {}, [toolkit, package, torch])
        self.assertEqual(found, {"libcudart.so.13": os.path.join(toolkit, "libcudart.so.13"), "libcudnn.so.9": os.path.join(package, "libcudnn.so.9")})
        self.assertEqual(missing, ["libnccl.so.2"])
        self.assertEqual(path, [toolkit, package])

    def test_what_the_loader_knows_needs_no_path(self):
        found, missing, path = libraries.find(["libnccl.so.2", "libnvrtc.so"], {"libnccl.so.2": "/lib/libnccl.so.2", "libnvrtc.so.13": "/lib/libnvrtc.so.13"}, [])
        self.assertEqual(found, {"libnccl.so.2": "/lib/libnccl.so.2", "libnvrtc.so": "/lib/libnvrtc.so.13"})
        self.assertEqual((missing, path), ([], []))

    def test_another_version_is_not_taken(self):
        old = self.put("old/libcudart.so.12")
        self.assertEqual(libraries.find(["libcudart.so.13"], {"libcudart.so.12": "/lib/libcudart.so.12"}, [old])[1], ["libcudart.so.13"])

    def test_the_cache_is_read(self):
        text = "2 libs found\n\tlibz.so.1 (libc6,x86-64) => /lib/libz.so.1\n\tlibz.so.1 (libc6) => /lib32/libz.so.1\n"
        cache = libraries.loader_cache(("printf", text))
        self.assertEqual(cache, {"libz.so.1": "/lib/libz.so.1"})


if __name__ == "__main__":
    unittest.main()
