"""Samples the GPU's clock, power and temperature with nvidia-smi during a run, to show that both
sides of a comparison had the same."""
import contextlib
import statistics
import tempfile

from gpu import programs

QUERY = ("clocks.sm", "power.draw", "temperature.gpu", "utilization.gpu")
NAMES = ("sm_mhz", "power_w", "temperature_c")
EVERY_MS = 250
BUSY_PERCENT = 50  # less means the start or the end of a run


def summary(text):
    """Returns medians over the busy samples of nvidia-smi's lines; skips lines with values that are
    not numbers."""
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
            **{f"{name}_median": statistics.median(column) for name,
               column in zip(NAMES, zip(*samples))}}


@contextlib.contextmanager
def sampled(context, found):
    """Samples while the body runs and adds the summary to the dictionary `found` at its end. If
    nvidia-smi is absent or ends early, records its message instead."""
    command = ["nvidia-smi", "--id=0", "--query-gpu=" + ",".join(QUERY),
               "--format=csv,noheader,nounits", f"--loop-ms={EVERY_MS}"]
    # Into a file, so that nothing waits for its output if it hangs in the driver.
    with tempfile.TemporaryFile() as output:
        try:
            process = programs.start(command, context.plain_environment, None, output)
        except OSError as error:
            found["not_sampled"] = f"nvidia-smi: {error.strerror}"
            yield
            return
        try:
            yield
        finally:
            code = process.poll()
            ended = programs.stop(process)
            output.seek(0)
            text = output.read().decode(errors="replace")
            found.update(summary(text))
            if code is not None:
                words = next((line.strip() for line in reversed(text.splitlines()) if line.strip()),
                             "no output")
                found["not_sampled"] = f"nvidia-smi ended by itself, exit code {code}: {words}"
            elif not ended:
                found["not_sampled"] = "nvidia-smi was killed, but it does not end"
