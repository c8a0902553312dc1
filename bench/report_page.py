#!/usr/bin/env python3
"""Measures how long the report of a study of 10,000 plans takes to open in a headless Chromium, from the navigation
until its charts are drawn, and how large the file is.

usage: report_page.py BUILD_DIR [--rounds 9]
Prints one JSON object.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "browser"))
from chromium import Chromium  # noqa: E402

STUDY = ["--model", "llama3-8b", "--cluster", "h100-sxm:8x8", "--global-batch", "256", "--seq-len", "4096", "--predict-only", "--save"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir")
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    autocfg = os.path.abspath(os.path.join(args.build_dir, "bin", "autocfg"))
    with tempfile.TemporaryDirectory() as home:
        database, page = os.path.join(home, "a.db"), os.path.join(home, "report.html")
        for words in (["search", *STUDY], ["report", "--output", page]):
            subprocess.run([autocfg, *words, "--db", database], check=True, capture_output=True)
        seconds = []
        for _ in range(args.rounds):
            with Chromium() as browser:
                browser.window(1280, 900)
                seconds.append(browser.open("file://" + page))
                plans = browser.run("Number(JSON.parse(document.getElementById('data').textContent).plans.count)")
        json.dump({"plans": plans, "bytes": os.path.getsize(page), "median_s": statistics.median(seconds), "slowest_s": max(seconds),
                   "all_s": seconds}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
