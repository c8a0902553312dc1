"""Tests the files of whole outputs: their limits, and what is left out."""
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import fake_bundle  # noqa: F401: the path to deploy/
from gpu import logs


class Logs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.prefix = os.path.join(directory.name, "gpu")

    def text(self, name):
        return pathlib.Path(f"{self.prefix}{name}").read_text(encoding="utf-8")

    def test_outputs_follow_each_other(self):
        kept = logs.Logs(self.prefix)
        kept.add("a", "one\n")
        kept.add("b", "two\nthree")
        self.assertEqual(self.text(".log"), "==== a\none\n==== b\ntwo\nthree\n")

    def test_the_middle_of_a_long_output_is_left_out(self):
        with mock.patch.object(logs, "MOST_OF_ONE_PROGRAM", 10):
            self.assertEqual(logs.shortened("0123456789"), "0123456789")
            self.assertEqual(logs.shortened("abcdefghijkl"), "abcde\n[2 characters left out]\nhijkl")

    def test_a_full_file_is_followed_by_another_up_to_a_limit(self):
        with mock.patch.multiple(logs, MOST_FILES=2, MOST_BYTES=20):
            kept = logs.Logs(self.prefix)
            for title in "abcde":
                kept.add(title, "x" * 8)
            self.assertEqual((self.text(".log"), self.text(".2.log")), ("==== a\nxxxxxxxx\n", "==== b\nxxxxxxxx\n"))
            self.assertEqual(kept.not_kept, 3)
            self.assertEqual(sorted(os.listdir(os.path.dirname(self.prefix))), ["gpu.2.log", "gpu.log"])

    def test_a_call_that_goes_on_adds_and_a_new_one_begins_anew(self):
        with mock.patch.multiple(logs, MOST_BYTES=20):
            first = logs.Logs(self.prefix)
            first.add("a", "x" * 8)
            first.add("b", "y" * 2)
            logs.Logs(self.prefix, go_on=True).add("c", "")
            self.assertEqual(self.text(".2.log"), "==== b\nyy\n==== c\n\n")
            logs.Logs(self.prefix).add("d", "z")
            self.assertEqual(self.text(".log"), "==== d\nz\n")
            self.assertFalse(os.path.exists(f"{self.prefix}.2.log"))


if __name__ == "__main__":
    unittest.main()
