"""Bytes of the worst rank under the options that save memory, by `autocfg predict`, whose bytes are those that the engine reserves (the
dry proof compares them).

usage: bench/option_bytes.py BUILD_DIR

Writes JSON to standard output: for each model and group of plans, the bytes by region, and each one's ratio to the first plan of its group.
"""

import json
import pathlib
import subprocess
import sys

ACTIVATIONS = ("activations",)
STATES = ("parameters", "gradients", "optimizer")
RECOMPUTES = ("recompute=none", "attention=unfused", "attention=unfused,recompute=selective", "recompute=full")
GROUPS = [
    {"title": "sequence parallelism and recomputation", "model": "gpt3-175b", "cluster": "a100-80gb-sxm:64x8", "batch": 1536,
     "regions": ACTIVATIONS,
     "plans": [f"tp=8,pp=8,dp=8,mbs=1,{recompute},sp={sp}" for recompute in RECOMPUTES for sp in (0, 1)]},
    {"title": "sharded states", "model": "llama3-8b", "cluster": "h100-sxm:1x8", "batch": 64, "regions": STATES,
     "plans": [f"tp=1,pp=1,dp=8,mbs=1,zero={zero}{shard}" for zero in range(4) for shard in (("",) if zero == 0 else ("", ",dp_shard=4"))]},
]


def predicted(autocfg, group, plan):
    answer = subprocess.run([autocfg, "predict", "--model", group["model"], "--cluster", group["cluster"], "--global-batch", str(group["batch"]),
                             "--plan", plan, "--json"], stdout=subprocess.PIPE, text=True, check=False)
    if answer.returncode not in (0, 1):  # 1: it does not fit
        sys.exit(f"option_bytes: {plan}: autocfg predict ended with {answer.returncode}")
    return json.loads(answer.stdout)["memory_bytes"]


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench/option_bytes.py BUILD_DIR")
    autocfg = str(pathlib.Path(sys.argv[1]) / "bin" / "autocfg")
    groups = []
    for group in GROUPS:
        rows = []
        for plan in group["plans"]:
            memory = predicted(autocfg, group, plan)
            size = sum(memory[region] for region in group["regions"])
            rows.append({"plan": plan, "bytes": size, "ratio": round(size / (rows[0]["bytes"] if rows else size), 4), "memory_bytes": memory})
        groups.append({key: group[key] for key in ("title", "model", "cluster", "batch", "regions")} | {"plans": rows})
    print(json.dumps(groups))


if __name__ == "__main__":
    main()
