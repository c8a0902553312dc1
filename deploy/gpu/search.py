"""A whole search on the GPU, twice on one database: the machine's inventory, the calibration and
its reuse, measured plans and their memory."""
import json
import os
import threading

from gpu import programs
from gpu.context import seconds_left
from gpu.outcome import Failure, NotPossible, OutOfTime

MODEL, GLOBAL_BATCH, MAX_TRIALS, MAX_TRIALS_AGAIN = "gpt2-124m", 8, 3, 1
TIME_BUDGET = "45s"  # per search: no trial begins after it
NAMES_NO_BUILD = ("-dirty", "+unknown")  # suffixes of build ids without reuse of op times
INVENTORY_EVERY_S = 0.3
WITHIN = 0.01  # relative to the memory that nvidia-smi reports


class Wrong(list):
    """Collects the errors of a section, which all go into its outcome."""

    def unless(self, good, text):
        if not good:
            self.append(text)


def answer(context, arguments, deadline):
    """Returns a command's JSON; raises Failure if there is none."""
    done = context.run("autocfg", [*arguments, "--json"], deadline)
    if done.code != 0:
        raise Failure(f"autocfg {arguments[0]}: exit code {done.code}: {done.last_words()}")
    try:
        return json.loads(done.out)
    except ValueError:
        raise Failure(f"autocfg {arguments[0]} printed no JSON: {done.out[:200]!r}") from None


def search_arguments(database, trials):
    return ["search", "--model", MODEL, "--cluster", "local", "--global-batch", str(GLOBAL_BATCH),
            "--device", "cuda", "--max-trials", str(trials), "--time-budget", TIME_BUDGET, "--db",
            database]


def workers_meanwhile(context, database, deadline, over):
    """Returns what the search's own coordinator knows about its worker. Polls until it answers or
    the search is `over`."""
    command = [context.program("autocfg"), "workers", "--db", database, "--json"]
    while not over.is_set() and seconds_left(deadline) > 0:
        # It fails until the search listens.
        done = programs.run(command, deadline, context.environment, context.work, noted=False)
        if done.code == 0 and json.loads(done.out):
            return json.loads(done.out)
        over.wait(INVENTORY_EVERY_S)
    return None


def search_and_inventory(context, database, deadline):
    """Returns (the first search's answer, the workers while it ran or None)."""
    over = threading.Event()

    def work(task):
        if task == "workers":
            return workers_meanwhile(context, database, deadline, over)
        try:
            return answer(context, search_arguments(database, MAX_TRIALS), deadline)
        finally:
            over.set()

    results = dict(programs.in_parallel(2, ["search", "workers"], work))
    if isinstance(results["search"], Exception):
        raise results["search"]
    if isinstance(results["workers"], Exception):
        return results["search"], None
    return results["search"], results["workers"]


def check_inventory(context, figures, workers, wrong):
    """Checks that the worker offers the GPU that the driver shows."""
    figures["workers"] = workers
    gpus = [gpu for worker in workers or [] for gpu in worker["gpus"]]
    if not gpus:
        wrong.append("autocfg workers: no GPU is in the inventory while the search runs")
        return
    first, driver = gpus[0], workers[0]["driver"]
    wrong.unless(first["name"] == context.device_name,
                 f"the inventory names {first['name']!r}, the driver {context.device_name!r}")
    wrong.unless(abs(first["memory_bytes"] / context.memory_bytes - 1) <= WITHIN,
                 f"the inventory has {first['memory_bytes']} bytes, the device "
                 f"{context.memory_bytes}")
    wrong.unless(driver and driver == (context.driver or driver),
                 f"the inventory's driver is {driver!r}, nvidia-smi's {context.driver!r}")
    wrong.unless(first["uuid"] and not first["left_out"],
                 f"the GPU {first['uuid']!r} is left out: {first['left_out']}")


def check_doctor(context, figures, database, deadline, wrong):
    """Checks that autocfg doctor sees the GPU and runs a step on it; records its other findings
    about the machine."""
    found = answer(context, ["doctor", "--db", database], deadline)["checks"]
    checks = {check["name"]: check for check in found}
    figures["doctor"] = {name: f"{check['state']}: {check['found']}"
                         for name, check in checks.items()}
    for name in ("gpu driver", "gpu 0", "cuda engine"):
        found = checks.get(name, {"state": "missing", "found": "it is not among the checks"})
        wrong.unless(found["state"] == "ok", f"autocfg doctor: {name}: {found['found']}")


def check_candidate(name, candidate, estimate, entry, wrong):
    """Checks a measured plan: its memory, and the device's share of it."""
    measured, predicted = candidate["measured"], candidate["predicted"]["memory_bytes"]
    overhead = predicted["device_overhead"]
    arena = predicted["total"] - overhead
    entry.update(planned_bytes=measured["planned_memory_bytes"],
                 peak_bytes=measured["peak_memory_bytes"], predicted_arena_bytes=arena,
                 predicted_overhead_bytes=overhead,
                 measured_overhead_bytes=measured["device_overhead_bytes"])
    wrong.unless(0 < measured["peak_memory_bytes"] <= measured["planned_memory_bytes"],
                 f"{name}: {measured['peak_memory_bytes']} bytes used, "
                 f"{measured['planned_memory_bytes']} planned")
    wrong.unless(measured["planned_memory_bytes"] == arena,
                 f"{name}: an arena of {measured['planned_memory_bytes']} bytes, {arena} predicted")
    wrong.unless(measured["device_overhead_bytes"] > 0,
                 f"{name}: the run measured no device overhead")
    wrong.unless(overhead > 0 and overhead != estimate,
                 f"{name}: predicted with a device overhead of {overhead} bytes, which calibration "
                 "did not measure")


def check_search(context, figures, found, database, deadline, wrong):
    """Checks one study: its best plan is measured, and every trial's time is recorded with its
    prediction."""
    figures.update({field: found["search"][field]
                    for field in ("wall_s", "device_s", "reused_op_times")}, study=found["study"],
                   counts=found["counts"], build_id=found["versions"]["build_id"])
    estimate = found["cluster"]["device"]["overhead_bytes"]
    figures["overhead_estimate_bytes"] = estimate
    best = found["best"]
    if best is None:
        wrong.append(f"the search found no plan: {found.get('reason')}")
        return
    wrong.unless(best["provenance"] == "measured",
                 f"the best plan {best['plan_text']} is {best['provenance']}, not measured")
    for candidate in (best, *found["runners_up"]):
        if candidate["measured"]:
            entry = figures.setdefault("plans", {}).setdefault(candidate["plan_text"], {})
            check_candidate(f"{found['study']}: {candidate['plan_text']}", candidate, estimate,
                            entry, wrong)
    trials = answer(context, ["trials", "--study", found["study"].split("/")[-1], "--db", database],
                    deadline)
    for trial in trials:
        entry = {"plan": trial["plan_text"], "repeat": trial["repeat"], "state": trial["state"],
                 "message": trial["message"]}
        if trial["measured"]:
            measured_s = trial["measured"]["step_time_s"]
            predicted_s = trial["predicted"]["step_time_s"]
            entry.update(measured_s=measured_s, predicted_s=predicted_s,
                         measured_over_predicted=measured_s / predicted_s)
        figures.setdefault("trials", {})[trial["trial"]] = entry
    wrong.unless(any("measured_over_predicted" in entry
                     for entry in figures.get("trials", {}).values()),
                 f"{found['study']}: no trial was measured")


def run(context, figures, deadline):
    context.needs_gpu()
    database = os.path.join(context.work, "search.db")
    wrong = Wrong()
    first, again = figures.setdefault("first", {}), figures.setdefault("again", {})
    first["command"] = context.command("autocfg",
                                       [*search_arguments(database, MAX_TRIALS), "--json"])
    found, workers = search_and_inventory(context, database, deadline)
    check_inventory(context, figures, workers, wrong)
    check_search(context, first, found, database, deadline, wrong)
    wrong.unless(first["reused_op_times"] == 0,
                 f"the first search reused {first['reused_op_times']} op times from a new database")
    unkept = ""
    if first["build_id"].endswith(NAMES_NO_BUILD):
        # Not an error of the engine: op times are only kept for a build that has a commit id.
        unkept = ("that op times are kept was not shown: the bundle's programs are build "
                  f"{first['build_id']}, which names no commit; make the bundle from "
                  "a clean checkout")
        again["not_run"] = unkept
    else:
        again["command"] = context.command("autocfg",
                                           [*search_arguments(database, MAX_TRIALS_AGAIN),
                                            "--json"])
        try:
            found = answer(context, search_arguments(database, MAX_TRIALS_AGAIN), deadline)
            check_search(context, again, found, database, deadline, wrong)
            wrong.unless(again["reused_op_times"] > 0,
                         "the second search timed every op again, although the first one used the "
                         "same database")
        except OutOfTime as late:
            if not wrong:
                raise
            again["not_run"] = str(late)
    check_doctor(context, figures, database, deadline, wrong)
    if wrong:
        raise Failure("; ".join([*wrong, *([unkept] if unkept else [])]))
    if unkept:
        raise NotPossible(unkept)
