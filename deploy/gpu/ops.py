"""Tests every op and the device against references in double precision with the program gpu_test, test by
test. A skipped test counts as failed."""
import json
import os

from gpu.outcome import Failure, OutOfTime


def outcomes(result):
    """Returns {test: "passed" or why not} from GoogleTest's JSON."""
    found = {}
    for suite in result.get("testsuites", []):
        for test in suite.get("testsuite", []):
            name = f"{suite['name']}.{test['name']}"
            if test.get("failures"):
                found[name] = "failed: " + " ".join(test["failures"][0].get("failure", "").split())[:300]
            elif test.get("result") == "SKIPPED":
                found[name] = "skipped"
            elif test.get("result") == "COMPLETED":
                found[name] = "passed"
            else:
                found[name] = f"not run ({test.get('result', 'no result')})"
    return found


def started_tests(text):
    """Returns {test: "passed", "failed" or "did not end"} from the output of a test program that did not
    end."""
    found = {}
    for line in text.splitlines():
        if line.startswith("[ RUN      ] "):
            found[line[13:].strip()] = "did not end"
        elif line.startswith("[       OK ] "):
            found[line[13:].split(" (")[0].strip()] = "passed"
        elif line.startswith("[  FAILED  ] ") and " (" in line:
            found[line[13:].split(", ")[0].split(" (")[0].strip()] = "failed"
    return found


def run(context, figures, deadline):
    context.needs_gpu()
    file, log = os.path.join(context.work, "ops.json"), os.path.join(context.work, "ops.log")
    # Written to a file, so that output before a crash or the time limit is kept.
    figures["command"] = context.command("gpu_test", [])
    script = 'exec "$0" --gtest_output=json:"$1" >"$2" 2>&1'
    code, late = None, None
    try:
        code = context.run("/bin/sh", ["-c", script, context.program("gpu_test"), file, log], deadline).code
    except OutOfTime as reason:
        late = reason
    if os.path.exists(file):
        with open(file, encoding="utf-8") as text:
            tests = outcomes(json.load(text))
    elif not os.path.exists(log):
        tests = {}  # it was not started
    else:
        with open(log, encoding="utf-8", errors="replace") as text:
            tests = started_tests(text.read())
    figures["tests"] = tests
    figures["tests_passed"] = sum(outcome == "passed" for outcome in tests.values())
    figures["tests_run"] = len(tests)
    if late:
        raise late
    bad = [name for name, outcome in tests.items() if outcome != "passed"]
    if not tests:
        raise Failure(f"no test ran, exit code {code}")
    if bad:
        raise Failure(f"{len(bad)} of {len(tests)} tests did not pass: {', '.join(bad[:8])}{', ...' if len(bad) > 8 else ''}")
    if code != 0:
        raise Failure(f"all tests passed, but the program ended with {code}")
