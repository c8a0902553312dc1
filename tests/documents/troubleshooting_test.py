"""Checks that each message of docs/troubleshooting.md is in the sources: a fragment between two "…" must be there as it is written, all
fragments of a message in one file."""
import os
import re
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ROOMS = ("base", "cli", "deploy", "kernels", "proto", "search", "server", "trainer", "worker")
SHORTEST = 4  # letters of a fragment that says something


def messages():
    with open(os.path.join(SOURCE, "docs", "troubleshooting.md"), encoding="utf-8") as page:
        return re.findall(r"^\| `([^`]+)` \|", page.read(), re.MULTILINE)


def texts():
    """Returns the sources by name, with adjacent string literals joined."""
    found = {}
    for room in ROOMS:
        for directory, _, names in os.walk(os.path.join(SOURCE, room)):
            for name in names:
                if name.endswith((".cc", ".h", ".py", ".sh")):
                    path = os.path.join(directory, name)
                    with open(path, encoding="utf-8") as file:
                        found[path] = re.sub(r'"\s*\n\s*"', "", file.read())
    return found


def fragments(message):
    """The words between what stands for names and numbers. A source has {}, $NAME or another literal there."""
    return [part for part in (one.strip() for one in message.split("…")) if len(re.findall(r"[A-Za-z]", part)) >= SHORTEST]


class Troubleshooting(unittest.TestCase):
    def test_every_message_is_in_the_sources(self):
        found = texts()
        self.assertGreater(len(messages()), 35, "the pattern finds no messages")
        for message in messages():
            parts = fragments(message)
            self.assertTrue(parts, f"{message}: no words to look for")
            with self.subTest(message=message):
                self.assertTrue(any(all(part in text for part in parts) for text in found.values()), f"no source has all of {parts}")

    def test_messages_that_no_source_has_are_noticed(self):
        found = texts()
        self.assertFalse(any(all(part in text for part in fragments("… is on another planet, and … are slow")) for text in found.values()))
        self.assertEqual(fragments("a …: killed by signal … (…)"), [": killed by signal"])


if __name__ == "__main__":
    unittest.main()
