"""The parts of the check: each ends within its time, together they are the whole, and docs/gpu.md says the
same."""
import importlib.machinery
import importlib.util
import re
import unittest

import fake_bundle


def load_check():
    """Loads deploy/gpu_check, which has no file extension, as a module."""
    loader = importlib.machinery.SourceFileLoader("gpu_check", str(fake_bundle.SOURCE / "deploy" / "gpu_check"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("gpu_check", loader))
    loader.exec_module(module)
    return module


CHECK = load_check()
PAGE = (fake_bundle.SOURCE / "docs" / "gpu.md").read_text(encoding="utf-8")
WELL_WITHIN_S = 550  # of the ten minutes of a call


def planned_s(sections):
    """Returns the time of the longest lane plus all sections without a lane."""
    lanes = {}
    for section in sections:
        if section.lane:
            lanes[section.lane] = lanes.get(section.lane, 0) + section.limit_s
    return max(lanes.values(), default=0) + sum(section.limit_s for section in sections if not section.lane)


class Parts(unittest.TestCase):
    def test_every_section_but_the_first_is_in_a_part(self):
        self.assertEqual({section.name: section.part in CHECK.PARTS for section in CHECK.SECTIONS},
                         {section.name: section.name != "device" for section in CHECK.SECTIONS})

    def test_each_part_ends_within_its_time(self):
        self.assertLessEqual(CHECK.TOTAL_S, WELL_WITHIN_S)
        for part in CHECK.PARTS:
            sections = CHECK.chosen(None, [part], [])
            self.assertEqual(sections[0].name, "device")
            self.assertLessEqual(planned_s(sections), CHECK.TOTAL_S, part)
            self.assertGreater(planned_s(sections), 0.9 * CHECK.TOTAL_S, f"{part}: time is given away")

    def test_a_part_can_be_left_out(self):
        names = [section.name for section in CHECK.chosen(None, [], [CHECK.CORRECTNESS])]
        self.assertEqual(names, [section.name for section in CHECK.SECTIONS if section.part != CHECK.CORRECTNESS])
        self.assertEqual([section.name for section in CHECK.chosen(None, [CHECK.CORRECTNESS], ["smoke", "ops", "sanitizer"])][:2], ["device", "losses"])


class Page(unittest.TestCase):
    def test_the_table_has_the_sections_with_their_seconds(self):
        rows = re.findall(r"^\| ([a-z_]+)(\*?) \| ([a-z]*) \| (\d+) \| \S", PAGE, re.MULTILINE)
        self.assertEqual(rows, [(section.name, "*" if section.optional else "", section.part or "both", str(section.limit_s)) for section in CHECK.SECTIONS])

    def test_the_totals_are_documented(self):
        self.assertIn(f"{CHECK.TOTAL_S} by default", PAGE)
        for part in CHECK.PARTS:
            self.assertIn(f"{part}: {planned_s(CHECK.chosen(None, [part], []))} s", PAGE)


if __name__ == "__main__":
    unittest.main()
