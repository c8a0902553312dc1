#!/usr/bin/env python3
"""Compares two builds of one benchmark program: runs both in turns and prints the ratio of their times.

usage: bench/ratio.py BEFORE AFTER [ROUNDS] [FILTER]

BEFORE and AFTER are programs of Google Benchmark. Each round runs both. Kept is the least CPU time of each
benchmark, so that other work on the machine counts as little as possible. A ratio above 1 is slower.
"""
import json
import os
import platform
import subprocess
import sys


def times(program, pattern):
    command = [program, "--benchmark_format=json", "--benchmark_min_time=0.2", f"--benchmark_filter={pattern}"]
    answer = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    unit = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
    return {b["name"]: b["cpu_time"] * unit[b["time_unit"]] for b in json.loads(answer)["benchmarks"]}


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    before, after = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    pattern = sys.argv[4] if len(sys.argv) > 4 else "."
    least = {before: {}, after: {}}
    for _ in range(rounds):
        for program in (before, after):
            for name, seconds in times(program, pattern).items():
                least[program][name] = min(seconds, least[program].get(name, seconds))
    result = [{"name": name, "before_s": seconds, "after_s": least[after][name],
               "ratio": round(least[after][name] / seconds, 3)}
              for name, seconds in least[before].items() if name in least[after]]
    print(json.dumps({"machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
                      "rounds": rounds, "result": result}, indent=1))


if __name__ == "__main__":
    main()
