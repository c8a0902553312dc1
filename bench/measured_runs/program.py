"""Calls the program `autocfg`."""
import json
import pathlib
import subprocess
import tempfile

# A request that every version answers.
PROBE = {"model": "gpt2-124m", "cluster": "h100-sxm:1x8", "global_batch": 8, "plan": {"dp": 8}}


class Program:
    """`autocfg` of a build directory."""

    def __init__(self, build):
        self._path = pathlib.Path(build) / "bin" / "autocfg"
        if not self._path.is_file():
            raise FileNotFoundError(f"{self._path} does not exist; build the target autocfg first")

    def predict(self, requests):
        """Returns the answers of `predict --requests`, in the order of the requests."""
        if not requests:
            return []
        lines = "".join(json.dumps(request) + "\n" for request in requests)
        done = subprocess.run([self._path, "predict", "--requests", "-"], input=lines, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, check=False)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        if done.returncode != 0 or len(answers) != len(requests):
            raise RuntimeError(f"autocfg predict answered {len(answers)} of {len(requests)} requests: {done.stderr.strip()}")
        return answers

    def knows(self, field, value):
        """Returns true if a request may have this field with this value."""
        return "error" not in self.predict([PROBE | {field: value}])[0]

    def calibrate(self, measurements, cluster, default):
        """Returns the cluster that `calibrate` fits to the text of a CSV file of measurements."""
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            (directory / "steps.csv").write_text(measurements, encoding="utf-8")
            (directory / "cluster.json").write_text(json.dumps(cluster), encoding="utf-8")
            done = subprocess.run([self._path, "calibrate", "--measurements", directory / "steps.csv", "--cluster", directory / "cluster.json",
                                   "--default", default, "--output", directory / "fitted.json"],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"autocfg calibrate failed: {done.stderr.strip()}")
            return json.loads((directory / "fitted.json").read_text(encoding="utf-8"))
