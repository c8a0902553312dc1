#!/usr/bin/env python3
"""Compares the time of the engine's step of two small models (sequence 256, micro batch 4, one thread) with two others.

The models are GPT-2 124M and a Llama of like size (bench/llama_125m.json). Reports for each the ratio of its step to the engine's matrix
products alone, and to eager PyTorch's step. All run in turns on this machine. If PyTorch uses OpenBLAS, it is told
to use the same kernels as the engine: by itself it may choose slower ones.

usage: engine_step.py BUILD_DIR [--rounds 3] [--steps 4] [--python /usr/bin/python3]
Prints one JSON object. The chosen interpreter must have torch (Debian: python3-torch).
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys


def run(command, **variables):
    environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", **variables)
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if done.returncode != 0:
        sys.exit(f"engine_step: {' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def compare(args, model):
    here = os.path.dirname(os.path.abspath(__file__))
    engine, products, torch, version = [], [], [], ""
    for _ in range(args.rounds):
        ours = run([os.path.join(args.build_dir, "bin", "autocfg_engine_bench"), str(args.steps), model])
        theirs = run([args.python, os.path.join(here, "pytorch_step.py"), model, "--steps", str(args.steps + 1)],
                     **({"OPENBLAS_CORETYPE": ours["blas_kernels"]} if ours["blas_kernels"] else {}))
        engine += ours["engine_step_s"]
        products += ours["matrix_products_s"]
        torch += theirs["step_time_s"][1:]
        version = theirs["torch"]
    medians = {name: statistics.median(times)
               for name, times in (("engine", engine), ("matrix_products", products), ("torch", torch))}
    return {
        "torch_version": version,
        "blas_kernels": ours["blas_kernels"],
        "median_s": medians,
        "engine_over_matrix_products": medians["engine"] / medians["matrix_products"],
        "engine_over_torch": medians["engine"] / medians["torch"],
        "engine_step_s": engine, "matrix_products_s": products, "torch_step_s": torch,
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build_dir")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--python", default="/usr/bin/python3")
    args = parser.parse_args()
    if shutil.which(args.python) is None:
        sys.exit(f"engine_step: {args.python} does not exist; name an interpreter that has torch with --python")
    found = subprocess.run([args.python, "-c", "import torch"], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        sys.exit(f"engine_step: {args.python} cannot import torch ({found.stderr.strip().splitlines()[-1]}); install python3-torch, "
                 "or name another interpreter with --python")
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    models = {"gpt2-124m": "search/data/models/gpt2-124m.json", "llama-125m": "bench/llama_125m.json"}
    json.dump({name: compare(args, os.path.join(root, file)) for name, file in models.items()}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
