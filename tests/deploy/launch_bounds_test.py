"""Tests of launch_bounds.py without an emulator: which launches are problems, and how kernels get their names."""
import unittest

import launch_bounds

GOLDEN = {"void Add<4>(float*)": {"sm_80": "32 0 0 256", "sm_90a": "30 0 0 256"}, "Sort(long)": {"sm_80": "16 0 0 1024"}}


class Problems(unittest.TestCase):
    def test_launches_within_their_bounds_are_none(self):
        self.assertEqual(launch_bounds.problems({"Add<4>(float*)": 256, "Sort(long)": 32}, GOLDEN), [])

    def test_a_block_that_is_too_large_is_named(self):
        self.assertEqual(launch_bounds.problems({"Add<4>(float*)": 288, "Sort(long)": 32}, GOLDEN),
                         ["Add<4>(float*): launched with 288 threads a block; its bound is 256"])

    def test_unknown_kernels_and_those_without_a_launch_are_named(self):
        self.assertEqual(launch_bounds.problems({"Sort(long)": 1, "lib.so+40": 1}, GOLDEN),
                         ["lib.so+40: launched, but no kernel of the golden file", "Add<4>(float*): never launched"])


class Launched(unittest.TestCase):
    def test_the_largest_block_of_all_processes_counts(self):
        kernels = {"/a/lib one.so": {0x40: "void Add<4>(float*)"}}
        lines = ["/a/lib one.so 40 32", "/a/lib one.so 40 64", "/a/lib one.so 40 8", "/a/lib one.so 50 1"]
        self.assertEqual(launch_bounds.launched(lines, kernels.get), {"Add<4>(float*)": 64, "/a/lib one.so+50": 1})


if __name__ == "__main__":
    unittest.main()
