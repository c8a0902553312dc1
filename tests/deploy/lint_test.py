"""What ./dev lint finds and which sources clang-tidy reads, on fake tools and a repository of its own."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

import fake_bundle

# clang-tidy finds FINDING in a file that holds the word; the others find nothing.
QUIET = ""
TIDY = r'''
import sys
if "--version" in sys.argv:
    print("LLVM version 14.0.6")
    sys.exit(0)
with open("tidied.log", "a") as log:
    log.write(sys.argv[-1] + "\n")
print("12 warnings generated.")
if "FINDING" in open(sys.argv[-1]).read():
    print(sys.argv[-1] + ":1:1: error: FINDING [fake]")
    sys.exit(1)
'''
CMAKE = r'''
import json, os, pathlib, subprocess
build = pathlib.Path("build-lint")
build.mkdir(exist_ok=True)
(build / "cuda_engine.txt").write_text("the CUDA engine is left out: none\n")
tracked = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.cc"], capture_output=True, text=True).stdout.split()
(build / "compile_commands.json").write_text(json.dumps([{"file": os.path.abspath(name)} for name in tracked if "cuda" not in name]))
'''
PYFLAKES = r'''
import sys
found = [f"{name}:{number}:1: '{line.split()[1]}' imported but unused" for name in sys.argv[1:] for number, line in enumerate(open(name), 1) if "unused" in line]
print("\n".join(found))
sys.exit(1 if found else 0)
'''


class Lint(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = pathlib.Path(directory.name) / "repository"
        self.tools = pathlib.Path(directory.name) / "tools"
        for name, body in (("clang-format", QUIET), ("clang-tidy", TIDY), ("shellcheck", QUIET), ("pyflakes3", PYFLAKES), ("cmake", CMAKE), ("ninja", QUIET)):
            self.tools.mkdir(exist_ok=True)
            fake_bundle.write_program(self.tools / name, body)
        self.write(".gitignore", "/build-lint/\n__pycache__/\ntidied.log\n")
        self.write("a/one.h", "#pragma once\n")
        self.write("a/one.cc", '#include "a/one.h"\n')
        self.write("a/two.cc", '#include "a/two.h"\n')
        self.write("a/two.h", "#pragma once\n")
        self.write("b/user.cc", '#include <vector>\n\n#include "a/two.h"\n')
        self.write("b/cuda.cc", "// only where there is a toolkit\n")
        (self.root / ".ci").mkdir()
        shutil.copy(fake_bundle.SOURCE / ".ci" / "lint", self.root / ".ci")
        self.git("init", "-q", "-b", "main")
        self.commit()

    def write(self, name, text):
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text)

    def git(self, *arguments):
        subprocess.run(["git", "-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", *arguments],
                       cwd=self.root, check=True, capture_output=True, env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.root.parent)})

    def commit(self):
        self.git("add", ".")
        self.git("commit", "-q", "-m", "change", "--allow-empty")

    def lint(self, *arguments):
        """Its exit status, findings and what it says, and the files that clang-tidy read, in their order."""
        log = self.root / "tidied.log"
        log.unlink(missing_ok=True)
        done = subprocess.run([self.root / ".ci" / "lint", "--jobs", "1", *arguments], capture_output=True, text=True, timeout=100,
                              env={**os.environ, "PATH": f"{self.tools}:{os.environ['PATH']}"}, check=False)
        return done.returncode, done.stdout, done.stderr, log.read_text().split() if log.exists() else []

    def test_all_sources_are_read_and_those_of_no_build_are_named(self):
        code, found, said, tidied = self.lint()
        self.assertEqual((code, found), (0, ""), said)
        self.assertEqual(tidied, ["a/one.cc", "a/two.cc", "b/user.cc"])
        self.assertIn("not checked by clang-tidy: 1 sources that this build leaves out (the CUDA engine is left out: none): b/cuda.cc", said)

    def test_findings_fail(self):
        self.write("a/one.cc", "FINDING\n")
        code, found, said, _ = self.lint()
        self.assertEqual((code, found), (1, "a/one.cc:1:1: error: FINDING [fake]\n"))
        self.assertIn("findings of: clang-tidy", said)

    def test_changed_sources_and_those_of_changed_headers(self):
        self.write("a/one.cc", '#include "a/one.h"\n\n')
        self.commit()
        self.assertEqual(self.lint("--changed")[3], ["a/one.cc"])
        self.write("a/two.h", "#pragma once\n\n")
        self.write("b/new.cc", "\n")
        self.assertEqual(self.lint("--changed")[3], ["a/one.cc", "b/new.cc", "a/two.cc", "b/user.cc"])
        self.assertEqual(self.lint("--changed", "HEAD")[3], ["b/new.cc", "a/two.cc", "b/user.cc"])

    def test_changes_are_counted_from_where_the_branch_began(self):
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")
        for name in ("a/one.cc", "a/two.cc"):
            self.write(name, "\n")
            self.commit()
        self.assertEqual(self.lint("--changed")[3], ["a/one.cc", "a/two.cc"])

    def test_a_base_that_is_none_is_refused(self):
        code, _, said, _ = self.lint("--changed", "nowhere")
        self.assertEqual(code, 2)
        self.assertIn("'nowhere' is no commit", said)

    def test_a_clone_of_one_commit_is_read_whole(self):
        code, _, said, tidied = self.lint("--changed")
        self.assertEqual((code, tidied), (0, ["a/one.cc", "a/two.cc", "b/user.cc"]), said)

    def test_what_no_time_is_left_for_is_named(self):
        code, _, said, tidied = self.lint("--tidy-limit", "0")
        self.assertEqual((code, tidied), (0, []))
        self.assertIn("3 sources for which no time was left: a/one.cc a/two.cc b/user.cc", said)

    def test_wide_comments(self):
        self.write("a/one.cc", "// " + "x" * 107 + "\n  // " + "\u00e9" * 105 + "\nint wide" + "_" * 120 + ";\n")
        self.assertEqual(self.lint()[0], 0)
        self.write("a/one.cc", "\n  // " + "x" * 106 + "\n")
        code, found, _, _ = self.lint()
        self.assertEqual((code, found), (1, "a/one.cc:2: comment of 111 columns; wrap it at 110\n"))

    def test_wide_documentation(self):
        wide = "word " * 21
        self.write("docs/page.md", f"| {wide} |\n    {wide}\n```\n{wide}\n```\n- {'x' * 120}\n{'x' * 100}\n")
        self.assertEqual(self.lint()[0], 0)
        self.write("docs/page.md", f"```\n```\n{wide.rstrip()}\n- {wide.rstrip()}\n")
        code, found, _, _ = self.lint()
        self.assertEqual((code, found), (1, "docs/page.md:3: 104 columns; wrap it at 100\ndocs/page.md:4: 106 columns; wrap it at 100\n"))

    def test_wide_python_of_the_check(self):
        self.write("tool.py", "x = 1  # " + "y" * 100 + "\n")
        self.write("deploy/tool.py", "x = 1\n" + "x = 1  # " + "y" * 91 + "\n")
        self.assertEqual(self.lint()[0], 0)
        self.write("deploy/tool.py", "x = 1  # " + "y" * 92 + "\n")
        code, found, _, _ = self.lint()
        self.assertEqual((code, found), (1, "deploy/tool.py:1: 101 columns; wrap it at 100\n"))

    def test_python_but_for_lines_that_say_so(self):
        self.write("tool", "#!/usr/bin/env python3\nimport unused\n")
        self.write("other.py", "import unused  # noqa: F401: for its effect\n")
        code, found, _, _ = self.lint()
        self.assertEqual((code, found), (1, "tool:2:1: 'unused' imported but unused\n"))


if __name__ == "__main__":
    unittest.main()
