#!/usr/bin/env python3
"""Measures how good the default search's choice is, and how little device time it takes: against exhaustive searches.

Runs each case exhaustively, then replays the default search on what it measured (autocfg_search_regret). Two cases run on this
machine's cores, two on the paced device, whose times are exact. The spaces of the paced cases are narrower than a search's
default one, so that an exhaustive search ends within half an hour.

usage: search_regret.py BUILD_DIR [--case NAME]
Prints one JSON object, by case.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

NARROW = {"recompute": "none,full", "split": "even", "zero": "0,1", "sp": "0", "schedule": "1f1b,interleaved", "vpp": "1,2",
          "tp_overlap": "1", "grad_overlap": "0", "param_overlap": "0", "p2p_overlap": "0", "scatter_gather": "0"}
CASES = {
    "cpu_2": (["--model", "gpt2-tiny", "--cluster", "local:1x2", "--global-batch", "48"], {}),
    "cpu_4": (["--model", "gpt2-tiny", "--cluster", "local:1x4", "--global-batch", "48"], {}),
    "paced_16": (["--model", "megatron-1.7b", "--cluster", "a100-80gb-sxm:2x8", "--global-batch", "64", "--seq-len", "1024",
                  "--device", "paced"], NARROW),
    "paced_64": (["--model", "llama2-7b", "--cluster", "a100-80gb-sxm:8x8", "--global-batch", "64", "--seq-len", "1024",
                  "--device", "paced"], {**NARROW, "vpp": "1"}),
}


def run(command):
    print("search_regret:", " ".join(command), file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"search_regret: {' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout)


def measure(build_dir, study, space):
    narrowed = [word for axis, values in space.items() for word in ("--space", f"{axis}={values}")]
    with tempfile.TemporaryDirectory() as directory:
        database = os.path.join(directory, "exhaustive.db")
        run([os.path.join(build_dir, "bin", "autocfg"), "search", *study, *narrowed, "--exhaustive", "--db", database, "--json"])
        return {"study": [*study, *narrowed],
                **run([os.path.join(build_dir, "bin", "autocfg_search_regret"), database])}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir")
    parser.add_argument("--case", choices=CASES, help="this one alone")
    args = parser.parse_args()
    cases = [args.case] if args.case else CASES
    json.dump({name: measure(args.build_dir, *CASES[name]) for name in cases}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
