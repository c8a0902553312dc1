"""Tests of kernel_resources.py without a compiler: a spill, a new kernel and a lost one are differences."""
import unittest

import kernel_resources as resources

BEFORE = {"Add(float*)": {"sm_80": "32 0 0 256", "sm_90a": "30 0 128 256"}}


class Differences(unittest.TestCase):
    def test_the_file_keeps_everything(self):
        self.assertEqual(resources.parse(resources.text_of(BEFORE, "13.0")), (BEFORE, "13.0"))

    def test_equal_kernels_do_not_differ(self):
        self.assertEqual(resources.differences(BEFORE, BEFORE), [])

    def test_a_spill_names_kernel_and_architecture(self):
        after = {"Add(float*)": {"sm_80": "32 8 0 256", "sm_90a": "30 0 128 256"}}
        self.assertEqual(resources.differences(BEFORE, after), ["sm_80: Add(float*): 32 0 0 256 -> 32 8 0 256"])

    def test_a_new_kernel_and_a_lost_one_differ(self):
        after = {"Mul(float*)": {"sm_80": "16 0 0 256"}}
        self.assertEqual(resources.differences(BEFORE, after),
                         ["sm_80: Add(float*): 32 0 0 256 -> absent", "sm_90a: Add(float*): 30 0 128 256 -> absent",
                          "sm_80: Mul(float*): absent -> 16 0 0 256"])


if __name__ == "__main__":
    unittest.main()
