#!/usr/bin/env python3
"""Runs the targets of libFuzzer, one on each core, for some seconds each.

usage: tests/fuzz/run.py BUILD_DIR [SECONDS] [TARGET...]

Seeds are tests/fuzz/corpus/TARGET and the files that the target shares. Inputs that reach new code go to BUILD_DIR/fuzz/TARGET, those that
fail to BUILD_DIR/fuzz/TARGET-*, the log to BUILD_DIR/fuzz/TARGET.log. bench/results/fuzz.json keeps the last run of each target, with the
build that it was of. Ends with 1 if a target failed, 2 on a wrong argument.
"""
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Inputs are small: a larger one finds no more, and takes longer.
LIMITS = ["-max_len=16384", "-timeout=30", "-rss_limit_mb=4096", "-print_final_stats=1"]


def say(text):
    print(f"autocfg: fuzz: {text}", file=sys.stderr, flush=True)


def answer(build, question):
    """What the program prints about itself."""
    return subprocess.run([build / "bin" / "autocfg_fuzz"], env={**os.environ, "AUTOCFG_FUZZ": question}, capture_output=True, text=True,
                          check=True).stdout


def run(build, target, shared, seconds):
    """One target's figures."""
    kept = build / "fuzz" / target
    kept.mkdir(parents=True, exist_ok=True)
    before = len(list(kept.iterdir()))
    seeds = [ROOT / "tests" / "fuzz" / "corpus" / target]
    command = [build / "bin" / "autocfg_fuzz", f"-max_total_time={seconds}", *LIMITS, f"-artifact_prefix={kept}-"]
    if shared:
        command.append(f"-seed_inputs={shared}")
    leaks = f"suppressions={ROOT}/cmake/asan/leaks.txt:print_suppressions=0"
    with open(build / "fuzz" / f"{target}.log", "w", encoding="utf-8") as log:
        done = subprocess.run([*command, kept, *(seed for seed in seeds if seed.is_dir())], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                              cwd=ROOT, env={**os.environ, "AUTOCFG_FUZZ": target, "LSAN_OPTIONS": leaks}, check=False)
    text = (build / "fuzz" / f"{target}.log").read_text(encoding="utf-8", errors="replace")
    runs = re.search(r"^stat::number_of_executed_units:\s+(\d+)", text, re.MULTILINE)
    result = {"target": target, "seconds": seconds, "runs": int(runs[1]) if runs else None, "new_inputs": len(list(kept.iterdir())) - before,
              "failed": done.returncode != 0}
    how = f"FAILED, see {build}/fuzz/{target}.log" if result["failed"] else "no failure"
    say(f"{target}: {result['runs']} runs in {seconds} s, {result['new_inputs']} new inputs, {how}")
    return result


def keep(results, targets, build_id):
    """Puts the results in place of earlier ones of the same targets. Earlier ones of targets that no longer exist are dropped."""
    machine = next((line.split(": ", 1)[1].strip() for line in open("/proc/cpuinfo", encoding="utf-8") if line.startswith("model name")), "unknown")
    file = ROOT / "bench" / "results" / "fuzz.json"
    rows = {row["target"]: row for row in json.loads(file.read_text(encoding="utf-8"))["result"]} if file.exists() else {}
    for result in results:
        rows[result["target"]] = {**result, "build": build_id, "machine": machine}
    kept = {"command": "./dev fuzz SECONDS [TARGET...]", "result": [rows[target] for target in targets if target in rows]}
    file.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build, words = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    seconds = 60
    if words and re.fullmatch(r"[1-9]\d*", words[0]):
        seconds = int(words.pop(0))
    targets = dict((line.split(" ", 1) + [""])[:2] for line in answer(build, "list").splitlines())
    for word in words:
        if word not in targets:
            say(f"unknown target '{word}'; expected {', '.join(targets)}")
            sys.exit(2)
    build_id = answer(build, "build").strip()  # before the runs: it may be built again beside them
    (build / "fuzz").mkdir(exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        results = list(pool.map(lambda name: run(build, name, targets[name].strip(), seconds), words or targets))
    failed = [result["target"] for result in results if result["failed"]]
    if failed:
        say(f"failed: {' '.join(failed)}; their inputs are {build}/fuzz/TARGET-*")
    keep(results, targets, build_id)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
