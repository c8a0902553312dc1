"""Kills a rank in the middle of a run. The job must end within seconds, name the rank, leave no
process behind and free the GPU's memory."""
import json
import os
import re
import signal
import time

from gpu import programs
from gpu.context import seconds_left
from gpu.outcome import Failure, OutOfTime

MODEL, STEPS, GLOBAL_BATCH = "gpt2-check", 10 ** 7, 8
CASES = (("dp=2,mbs=1", 1), ("pp=2,mbs=1,schedule=1f1b", 0))  # plan, rank to kill
AFTER_STEPS = 3             # steps that the run has reported
ENDS_WITHIN_S = 5           # after the kill
WAITS_S = 30                # how long it is watched, so that the report can say how long it took
FREE_WITHIN_S = 10
SLACK_BYTES = 64 << 20      # memory that the driver may keep of a GPU that was just used
EXIT_CODE = 1               # of a failed autocfg run
POLL_S = 0.02
SUPERVISOR = "autocfg-supervi"  # name of the process, which the kernel cuts


def free_bytes(context, deadline):
    """Returns the GPU's free memory, seen from a process that does nothing else."""
    done = context.run("autocfg_gpu_ops_bench", ["--device"], deadline)
    if done.code != 0:
        raise Failure(f"autocfg_gpu_ops_bench --device: exit code {done.code}: {done.last_words()}")
    return json.loads(done.out)["free_bytes"]


def state_of(pid):
    """Returns (state letter, parent, process group), or None if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rsplit(")", 1)[1].split()
    except (OSError, IndexError):
        return None
    return fields[0], int(fields[1]), int(fields[2])


def is_supervisor(pid):
    try:
        with open(f"/proc/{pid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().startswith(SUPERVISOR)
    except OSError:
        return False


def ranks_of(pid):
    """Returns the ranks of a run in rank order: the first rank leads their process group, and the
    supervisor of the job, a child of autocfg, starts ranks in order."""
    found = []
    for name in os.listdir("/proc"):
        state = state_of(name) if name.isdigit() else None
        if not state or state[1] != pid or state[0] in "ZX":
            continue
        if is_supervisor(name):
            return ranks_of(int(name))
        found.append((int(name) != state[2], int(name)))
    return [child for _, child in sorted(found)]


def steps_in(log):
    """Counts the steps in the table of autocfg train: one line per finished step."""
    with open(log, encoding="utf-8", errors="replace") as file:
        return len(re.findall(r"^\s*\d+\s+\S+.*\n", file.read(), re.MULTILINE))


def last_line(log):
    with open(log, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return lines[-1] if lines else "no output"


def watch(process, log, rank, deadline):
    """Kills the rank once steps are running. Returns (seconds until the job had ended, or None; the
    ranks' pids)."""
    while steps_in(log) < AFTER_STEPS:
        if process.poll() is not None:
            raise Failure(f"it ended by itself, exit code {process.returncode}: {last_line(log)}")
        if seconds_left(deadline) <= 0:
            raise OutOfTime("the run reported no step before its rank could be killed")
        time.sleep(POLL_S)
    ranks = ranks_of(process.pid)
    if len(ranks) != 2:
        raise Failure(f"{len(ranks)} ranks were found; expected 2")
    os.kill(ranks[rank], signal.SIGKILL)
    begun = time.monotonic()
    while process.poll() is None:
        if time.monotonic() - begun > WAITS_S or seconds_left(deadline) <= 0:
            return None, ranks
        time.sleep(POLL_S)
    return time.monotonic() - begun, ranks


def free_again(context, before, deadline):
    """Returns (seconds until as much memory is free as before, or None; the free bytes)."""
    begun = time.monotonic()
    while True:
        free = free_bytes(context, deadline)
        took = time.monotonic() - begun
        if free >= before - SLACK_BYTES:
            return took, free
        if took > FREE_WITHIN_S:
            return None, free
        time.sleep(0.2)


def kill_one(context, entry, plan, rank, deadline, **variables):
    """Returns a list of errors."""
    arguments = ["train", "--model", context.model(MODEL), "--plan", plan, "--device", "cuda",
                 "--precision", "bf16", "--steps", str(STEPS), "--global-batch", str(GLOBAL_BATCH),
                 "--seed", str(context.seed)]
    before = free_bytes(context, deadline)
    entry.update(command=context.command("autocfg", arguments, **variables), killed_rank=rank,
                 free_bytes_before=before, ends_within_s=None)
    log = os.path.join(context.work, f"dead-rank-{rank}.log")
    with open(log, "w", encoding="utf-8") as output:
        process = programs.start([context.program("autocfg"), *arguments],
                                 dict(context.environment, **variables), context.work, output)
        try:
            took, ranks = watch(process, log, rank, deadline)
        finally:
            stopped = programs.stop(process)
    words = last_line(log)
    with open(log, encoding="utf-8", errors="replace") as file:
        programs.keep_output(entry["command"], file.read())
    os.remove(log)
    entry.update(ends_within_s=took, exit_code=process.returncode, words=words)
    wrong = []
    if took is None or not stopped:
        return [f"the job did not end within {WAITS_S} s of rank {rank}'s death"]
    if took > ENDS_WITHIN_S:
        wrong.append(f"the job ended {took:.1f} s after rank {rank}'s death, {ENDS_WITHIN_S} s are "
                     "allowed")
    if process.returncode != EXIT_CODE:
        wrong.append(f"exit code {process.returncode} of a run that lost rank {rank}, expected "
                     f"{EXIT_CODE}")
    if f"rank {rank}: killed by signal 9" not in words:
        wrong.append(f"rank {rank} was killed, and the error does not say so: {words}")
    left = [pid for pid in ranks if (state_of(pid) or "Z")[0] not in "ZX"]
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    if left:
        wrong.append(f"ranks outlive the job: {', '.join(map(str, left))}")
    entry["free_again_within_s"], entry["free_bytes_after"] = free_again(context, before, deadline)
    if entry["free_again_within_s"] is None:
        wrong.append(f"{before - entry['free_bytes_after']} bytes of the GPU's memory are not free "
                     f"{FREE_WITHIN_S} s after the job's end")
    return wrong


def kill_each(context, figures, deadline, **variables):
    """Runs every case into `figures`; returns a list of errors."""
    wrong = []
    for plan, rank in CASES:
        try:
            found = kill_one(context, figures.setdefault(plan, {}), plan, rank, deadline,
                             **variables)
        except Failure as failure:
            found = [str(failure)]
        wrong += [f"{plan}: {why}" for why in found]
    return wrong


def run(context, figures, deadline):
    context.needs_gpu()
    wrong = kill_each(context, figures, deadline, AUTOCFG_GPU_TRANSPORT="host")
    if wrong:
        raise Failure("; ".join(wrong))
