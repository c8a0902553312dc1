#!/usr/bin/env python3
"""Measures how good the search's choice is: compares the example search with an exhaustive one, on this machine.

Runs `autocfg search` twice (by default and with --exhaustive), then trains with both choices in turns and compares the medians.

usage: search_choice.py BUILD_DIR [--rounds 5] [--steps 30] [--model M] [--cluster C] [--global-batch B]
Prints one JSON object.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time


def run(command):
    start = time.monotonic()
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"search_choice: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout), time.monotonic() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--model", default="gpt2-tiny")
    parser.add_argument("--cluster", default="local")
    parser.add_argument("--global-batch", default="48")
    args = parser.parse_args()
    autocfg = os.path.join(args.build_dir, "bin", "autocfg")
    study = ["--model", args.model, "--cluster", args.cluster, "--global-batch", args.global_batch]

    with tempfile.TemporaryDirectory() as directory:
        chosen, wall = run([autocfg, "search", *study, "--db", f"{directory}/a.db", "--json"])
        best, exhaustive_wall = run(
            [autocfg, "search", *study, "--exhaustive", "--db", f"{directory}/b.db", "--json"])

    plans = {"search": chosen["best"]["plan"], "exhaustive": best["best"]["plan"]}
    texts = {who: plan if isinstance(plan, str) else json.dumps(plan) for who, plan in plans.items()}
    medians = {who: [] for who in plans}
    for _ in range(args.rounds):
        for who, text in texts.items():
            result, _ = run([autocfg, "train", "--model", args.model, "--global-batch", args.global_batch,
                             "--plan", text, "--steps", str(args.steps), "--json"])
            medians[who].append(statistics.median(result["step_time_s"][2:]))
    ours, theirs = (statistics.median(medians[who]) for who in ("search", "exhaustive"))
    json.dump({
        "study": study,
        "plans": texts,
        "legal_plans": chosen["counts"]["predicted"] + chosen["counts"]["out_of_memory"],
        "search_wall_s": wall,
        "exhaustive_wall_s": exhaustive_wall,
        "measured": {"search": chosen["counts"]["measured"], "exhaustive": best["counts"]["measured"]},
        "median_step_time_s": {"search": ours, "exhaustive": theirs},
        "all_medians_s": medians,
        "ratio": ours / theirs,
    }, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
