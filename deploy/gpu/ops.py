"""Tests every op and the device against references in double precision with the program gpu_test,
one process for each suite. A skipped test counts as failed. The first test that fails is repeated
(repeat.py)."""
import contextlib
import json
import os

from gpu import repeat
from gpu.outcome import Failure, OutOfTime


def outcomes(result):
    """Returns {test: "passed" or why not} from GoogleTest's JSON."""
    found = {}
    for suite in result.get("testsuites", []):
        for test in suite.get("testsuite", []):
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                found[name] = "failed: " + " ".join(test["failures"][0].get("failure", "").split())[
                    :300]
            elif test.get("result") == "SKIPPED":
                found[name] = "skipped"
            elif test.get("result") == "COMPLETED":
                found[name] = "passed"
            else:
                found[name] = f"not run ({test.get('result', 'no result')})"
    return found


def started_tests(text):
    """Returns {test: "passed", "failed" or "did not end"} from the output of a test program that
    did not end."""
    found = {}
    for line in text.splitlines():
        if line.startswith("[ RUN      ] "):
            found[line[13:].strip()] = "did not end"
        elif line.startswith("[       OK ] "):
            found[line[13:].split(" (")[0].strip()] = "passed"
        elif line.startswith("[  FAILED  ] ") and " (" in line:
            found[line[13:].split(", ")[0].split(" (")[0].strip()] = "failed"
    return found


def listed_suites(text):
    """Returns {suite: [full test names]} from the output of --gtest_list_tests, in its order."""
    found, suite = {}, ""
    for line in text.splitlines():
        word = line.split("#")[0].strip()
        if not line.startswith(" "):
            suite = word
        elif word and suite.endswith(".") and not word.startswith("DISABLED_"):
            found.setdefault(suite[:-1], []).append(suite + word)
    return found


def run_suite(context, suite, deadline):
    """Runs one suite in a process of its own, so that a fault that sticks to the process spares the
    others. Returns ({test: outcome}, exit code or None, why it was late or None)."""
    file = os.path.join(context.work, "ops.json")
    if os.path.exists(file):
        os.remove(file)
    arguments = [f"--gtest_filter={suite}.*", f"--gtest_output=json:{file}"]
    code, late = None, None
    try:
        done = context.run("gpu_test", arguments, deadline)
        code, text = done.code, done.out
    except OutOfTime as reason:
        late, text = reason, reason.out
    if os.path.exists(file):
        with open(file, encoding="utf-8") as result:
            return outcomes(json.load(result)), code, late
    return started_tests(text), code, late


def run(context, figures, deadline):
    context.needs_gpu()
    figures["command"] = context.command("gpu_test", ["--gtest_filter=SUITE.*"])
    tests = figures["tests"] = {}
    figures["tests_passed"] = figures["tests_run"] = 0
    listed = context.run("gpu_test", ["--gtest_list_tests"], deadline)
    suites = listed_suites(listed.out)
    if not suites:
        raise Failure(f"gpu_test lists no tests: {listed.last_words()}")
    odd, late = [], None
    for suite, names in suites.items():
        ended, code, late = run_suite(context, suite, deadline)
        tests.update(ended)
        tests.update({name: "not run" for name in names if name not in ended and not late})
        figures["tests_passed"] = sum(outcome == "passed" for outcome in tests.values())
        figures["tests_run"] = sum(outcome != "not run" for outcome in tests.values())
        if late:
            break
        if code != 0 and all(ended.get(name) == "passed" for name in names):
            odd.append(f"{suite} passed, but the program ended with {code}")
    bad = [name for name, outcome in tests.items() if outcome != "passed"]
    if bad:
        with contextlib.suppress(OutOfTime):
            repeat.failed_test(context, figures.setdefault("repeated", {}), bad[0], deadline)
    if late:
        raise late
    if bad:
        raise Failure(f"{len(bad)} of {len(tests)} tests did not pass: "
                      f"{', '.join(bad[:8])}{', ...' if len(bad) > 8 else ''}")
    if odd:
        raise Failure("; ".join(odd))
