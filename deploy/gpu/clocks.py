"""The GPU's clock, power and temperature while something runs, as nvidia-smi says them: whether both sides of a comparison had the same."""
import contextlib
import statistics
import subprocess
import threading

QUERY = ("clocks.sm", "power.draw", "temperature.gpu", "utilization.gpu")
NAMES = ("sm_mhz", "power_w", "temperature_c")
EVERY_MS = 250
BUSY_PERCENT = 50  # less is the start or the end of a run


def summary(text):
    """Medians over the busy samples of nvidia-smi's lines; what is not a number is left out."""
    samples = []
    for line in text.splitlines():
        try:
            *values, busy = (float(part) for part in line.split(","))
        except ValueError:
            continue
        if len(values) == len(NAMES) and busy >= BUSY_PERCENT:
            samples.append(values)
    if not samples:
        return {"busy_samples": 0}
    return {"busy_samples": len(samples), "sm_mhz_min": min(sample[0] for sample in samples),
            **{f"{name}_median": statistics.median(column) for name, column in zip(NAMES, zip(*samples))}}


@contextlib.contextmanager
def sampled(context, found):
    """While the body runs; adds the summary to the dictionary `found` at its end. Where nvidia-smi is not there, that is said."""
    command = ["nvidia-smi", "--id=0", "--query-gpu=" + ",".join(QUERY), "--format=csv,noheader,nounits", f"--loop-ms={EVERY_MS}"]
    try:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=context.plain_environment,
                                   text=True, errors="replace")
    except OSError as error:
        found["not_sampled"] = f"nvidia-smi: {error.strerror}"
        yield
        return
    lines = []
    reader = threading.Thread(target=lambda: lines.extend(process.stdout), daemon=True)
    reader.start()
    try:
        yield
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
        found.update(summary("".join(lines)))
