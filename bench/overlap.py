"""Step times with and without communication that overlaps compute: on the paced device, whose time is virtual, and on this machine's cores.

usage: bench/overlap.py BUILD_DIR

Writes JSON to standard output.
- "paced": `autocfg train --device paced` of one plan with each number of chunks (tp_overlap). "off" is its step without overlap, "sums" the
  communication of the tensor group in it; that of the embedding and the loss, which nothing hides, too. "saved" is the share of it that the
  step no longer has: (off - on) / sums. Smaller products are slower, which counts against it. "hidden_of_possible" is what chunks hide of
  what they could (bench/chunks_bench.cc): the products of chunks and the sums of others side by side without any loss. "less_of_whole" is the communication that
  the step waits for less, of what products and sums could hide that are as fast in chunks as whole.
- "units": the same for gradients and parameters over the data axis: "comm" is the data communication of the step without overlap, as
  `autocfg predict` counts it, "ideal" the step in which communication and the rest run side by side, max(comm, off - comm). "hidden" is the
  share of the ideal that is reached: (off - on) / (off - ideal). "hidden_of_possible" leaves out what cannot
  be hidden because of the order of the work: the embedding's gradient is complete when nothing is left to compute, its parameters are needed first, and what is reduced or
  gathered once in a step fits into the last backward, from its first layer on, or the first forward alone.
- "cores": `autocfg train` on the CPU, with the option on and off in turn; the ratio of the medians over all rounds.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

PACED = [{"model": "gpt3-175b", "layers": 8, "cluster": cluster, "plan": f"tp=8,pp=1,dp=1,mbs={mbs}"}
         for cluster in ("a100-80gb-sxm:1x8", "h100-sxm:1x8") for mbs in (1, 4)]
UNITS = [{"cluster": cluster, "plan": f"tp=1,pp=1,dp={ranks},mbs={mbs}{zero}", "microbatches": microbatches,
          "on": "grad_overlap=1" + (",param_overlap=1" if zero else "")}
         for cluster, ranks in (("a100-80gb-sxm:1x8", 8), ("h100-sxm:1x8", 8), ("a100-80gb-sxm:4x8", 32))
         for mbs, microbatches in ((1, 4), (4, 1)) for zero in ("", ",zero=1", ",zero=2", ",zero=3")]
UNITS_MODEL = {"layers": 24, "hidden": 2048, "heads": 16, "vocab": 51200, "max_seq_len": 2048}
CORES = [{"plan": "tp=2,pp=1,dp=1,mbs=4", "on": "tp_overlap=2"}, {"plan": "tp=2,pp=1,dp=1,mbs=4", "on": "tp_overlap=4"},
         {"plan": "tp=1,pp=1,dp=2,mbs=4", "on": "grad_overlap=1"}, {"plan": "tp=1,pp=1,dp=2,mbs=4,zero=1", "on": "grad_overlap=1,param_overlap=1"},
         {"plan": "tp=1,pp=1,dp=2,mbs=4,zero=3", "on": "grad_overlap=1,param_overlap=1"}, {"plan": "tp=1,pp=2,dp=1,mbs=2", "on": "p2p_overlap=1"}, {"plan": "tp=1,pp=2,dp=1,mbs=2,schedule=gpipe", "on": "p2p_overlap=1"}]
CORES_MODEL = {"layers": 4, "hidden": 256, "heads": 4, "vocab": 2048, "max_seq_len": 128}
ROUNDS, STEPS = 5, 10


def answer(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"overlap: {' '.join(command)} ended with {done.returncode}")
    return json.loads(done.stdout)


def steps(autocfg, model, plan, *rest):
    return answer(autocfg, "train", "--model", model, "--plan", plan, "--json", *rest)["step_time_s"]


def write(directory, name, document):
    path = pathlib.Path(directory) / f"{name}.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return str(path)


def paced(autocfg, directory):
    rows = []
    for case in PACED:
        model = write(directory, "model", {"layers": case["layers"], "hidden": 12288, "heads": 96, "vocab": 51200, "max_seq_len": 2048})
        step = lambda plan, cluster=case["cluster"]: steps(autocfg, model, plan, "--device", "paced", "--cluster", cluster, "--steps", "2")[1]
        off = step(case["plan"])
        row = {"model": f"{case['model']}, {case['layers']} layers", "cluster": case["cluster"], "plan": case["plan"], "off_s": off}
        predicted = answer(f"{autocfg.rsplit('/', 1)[0]}/autocfg_chunks_bench", case["cluster"], case["plan"].rsplit("=", 1)[1])
        row["sums_s"] = predicted["sums_s"]
        for chunks in (2, 4, 8):
            on = step(f"{case['plan']},tp_overlap={chunks}")
            of_chunks = predicted[str(chunks)]
            row[f"chunks_{chunks}"] = {"on_s": on, "on_over_off": on / off, "saved": (off - on) / row["sums_s"],
                                       "hidden_of_possible": of_chunks["hidden_s"] / of_chunks["possible_s"],
                                       "less_of_whole": of_chunks["less_s"] / of_chunks["whole_s"]}
        rows.append(row)
    return rows


def seconds_of(trace, kind):
    """The durations of a rank's actions of a kind, in their order."""
    events = json.loads(pathlib.Path(trace).read_text(encoding="utf-8"))["traceEvents"]
    rows = sorted((e["ts"], e["dur"]) for e in events if e.get("ph") == "X" and e["pid"] == 0 and e["cat"] == kind)
    return [dur / 1e6 for _, dur in rows]


def possible(case, comm, trace):
    """The seconds of communication that the order of the work allows to hide. Shares of `comm` are those of bytes: gradients have 4 bytes, parameters
    2; an all-reduce moves twice what a reduce-scatter does."""
    zero = int(case["plan"].rsplit("zero=", 1)[1]) if "zero" in case["plan"] else 0
    model = UNITS_MODEL
    table = model["vocab"] * model["hidden"]
    hides = 1 - table / (table + 12 * model["layers"] * model["hidden"] ** 2)
    microbatches = case["microbatches"]
    reduced = 8 if zero == 0 else 4 if zero == 1 else 4 * microbatches
    gathered = {0: 0, 1: 2, 2: 2, 3: 2 * microbatches}[zero]  # for forwards
    again = 2 * microbatches if zero == 3 else 0  # for backwards
    share = comm / (reduced + gathered + again)
    forwards, backwards = seconds_of(trace, "forward"), seconds_of(trace, "backward")
    forward = sum(forwards) if zero == 3 else forwards[0]
    # The output layer comes first in a backward; its gradient is the embedding's, so that nothing can be reduced beside it.
    tokens_flops = model["layers"] * (24 * model["hidden"] ** 2 + 4 * model["max_seq_len"] * model["hidden"])
    layers = tokens_flops / (2 * table + tokens_flops)
    backward = sum(backwards) if zero >= 2 else backwards[-1] * layers
    return min(share * reduced * hides + share * again, backward) + min(share * gathered * hides, forward)


def units(autocfg, directory):
    model = write(directory, "model", UNITS_MODEL)
    rows = []
    for case in UNITS:
        ranks, mbs = (int(case["plan"].split(name)[1].split(",")[0]) for name in ("dp=", "mbs="))
        batch = str(ranks * mbs * case["microbatches"])
        step = lambda plan, case=case, batch=batch: steps(autocfg, model, plan, "--device", "paced", "--cluster", case["cluster"],
                                                          "--global-batch", batch, "--steps", "2")[1]
        off, on = step(case["plan"]), step(f"{case['plan']},{case['on']}")
        predicted = answer(autocfg, "predict", "--model", model, "--cluster", case["cluster"], "--global-batch", batch, "--plan", case["plan"], "--json",
                           "--trace", f"{directory}/trace.json")
        comm = predicted["breakdown_s"]["dp_comm"]
        ideal = max(comm, off - comm)
        rows.append({**case, "off_s": off, "comm_s": comm, "ideal_s": ideal, "on_s": on, "on_over_off": on / off, "hidden": (off - on) / (off - ideal),
                     "hidden_of_possible": (off - on) / possible(case, comm, f"{directory}/trace.json")})
    return rows


def cores(autocfg, directory):
    model = write(directory, "model", CORES_MODEL)
    rows = []
    for case in CORES:
        times = {"off": [], "on": []}
        for _ in range(ROUNDS):
            for name, plan in (("off", case["plan"]), ("on", f"{case['plan']},{case['on']}")):
                times[name] += steps(autocfg, model, plan, "--global-batch", "8", "--steps", str(STEPS))[2:]
        medians = {name: statistics.median(values) for name, values in times.items()}
        rows.append({**case, "off_s": medians["off"], "on_s": medians["on"], "on_over_off": medians["on"] / medians["off"]})
    return rows


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench/overlap.py BUILD_DIR")
    autocfg = str(pathlib.Path(sys.argv[1]) / "bin" / "autocfg")
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps({"paced": paced(autocfg, directory), "units": units(autocfg, directory), "cores": cores(autocfg, directory)}))


if __name__ == "__main__":
    main()
