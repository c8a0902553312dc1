"""gpu_test may skip a test only if there is no GPU or too little free memory. A skipped test counts as failed
(gpu/ops.py), so a test that no GPU can run would make the check fail on every GPU."""
import pathlib
import re
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
REASONS = (r"if \(const std::string why = WhyNoGpu\(\); !why\.empty\(\)\) GTEST_SKIP\(\) << why;",
           r"if \(free < kNeeded\) GTEST_SKIP\(\) << \"needs \" << kNeeded << \" bytes of the GPU's memory;")


def sources(paths):
    """Returns the text of the files and of all test files that they include, by path."""
    found, left = {}, [pathlib.Path(path) for path in paths]
    while left:
        path = left.pop()
        if path in found:
            continue
        found[path] = (SOURCE / path).read_text(encoding="utf-8")
        left += [pathlib.Path(name) for name in re.findall(r'#include "(tests/[^"]+)"', found[path])]
    return found


def skips_for_other_reasons(text):
    code = " ".join(re.sub(r"//[^\n]*", "", text).split())
    for reason in REASONS:
        code = re.sub(reason, "", code)
    return re.findall(r"[^;{}]*GTEST_SKIP[^;]*;", code)


class Skips(unittest.TestCase):
    def test_skips_only_without_a_gpu_or_its_memory(self):
        directories = (SOURCE / "tests" / "gpu", SOURCE / "tests" / "kernels" / "cuda_kernels")
        files = sources(path.relative_to(SOURCE) for directory in directories for path in directory.iterdir() if path.suffix in (".cc", ".h"))
        self.assertIn(pathlib.Path("tests/conformance/device_suite.h"), files)
        self.assertIn(pathlib.Path("tests/conformance/ops/ops_suite.h"), files)
        self.assertIn(pathlib.Path("tests/kernels/cuda_kernels/norm_test.cc"), files)
        self.assertEqual({str(path): skips for path, text in files.items() if (skips := skips_for_other_reasons(text))}, {})

    def test_other_reasons_are_found(self):
        self.assertEqual(skips_for_other_reasons("{ if (!device_->ComputesOnHost()) GTEST_SKIP() << 1; }"), [" if (!device_->ComputesOnHost()) GTEST_SKIP() << 1;"])


if __name__ == "__main__":
    unittest.main()
