"""The report of a check: its sections, each with an outcome and its figures. Written to a file
after each section and every few seconds in between."""
import contextlib
import itertools
import json
import math
import os
import threading
import time

from gpu import programs, repeat
from gpu.outcome import FAILED, NOT_POSSIBLE, NOT_RUN, PASSED, Failure, NotPossible, OutOfTime

WRITE_EVERY_S = 5
OF_A_CHECK = ("command", "time", "seed", "libraries")


class Section:
    """A section of the check. `run(context, figures, deadline)` fills the dictionary `figures` as
    it proceeds; it returns, or raises an exception of gpu/outcome.py. `limit_s` is its time limit;
    it gets more if the whole check has time to spare. `optional`: "not possible" does not fail the
    whole check. `repeats`: a run of the GPU that fails in it, or gives wrong results, is repeated
    (repeat.py). Consecutive sections with a `lane` run in parallel, those of one lane in order; a
    section without a lane has the machine to itself. `part`: the part of the check that it belongs
    to, None for all."""

    def __init__(self, name, limit_s, run, optional=False, lane=None, part=None, repeats=False):
        self.name, self.limit_s, self.run, self.optional = name, limit_s, run, optional
        self.lane, self.part, self.repeats = lane, part, repeats


def one_line(text):
    return " ".join(str(text).split())


def plain(value):
    """Replaces infinities and NaN, which JSON lacks, by text."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


class Report:
    def __init__(self, path, header):
        self.path = path
        self.content = dict(header, passed=False, sections={})
        self.lock = threading.Lock()

    def write(self):
        """Replaces the file atomically, so that an interrupted run leaves a complete one."""
        with self.lock:
            text = json.dumps(self.now(), indent=1, allow_nan=False) + "\n"
            partial = f"{self.path}.partial"
            with open(partial, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(partial, self.path)

    def now(self):
        """Returns a copy of the content while running sections add to theirs."""
        while True:
            try:
                return plain(self.content)
            except RuntimeError:  # it grew meanwhile
                time.sleep(0.01)

    def put(self, name, outcome, why, seconds, figures, notes=None):
        notes = notes or programs.Notes()
        # Records the check that it belongs to: a report may combine several.
        entry = {"outcome": outcome, "why": why, "seconds": round(seconds, 3),
                 "check": {field: self.content.get(field) for field in OF_A_CHECK},
                 "figures": figures, "failed_commands": notes.failures, "choices": notes.choices}
        with self.lock:
            self.content["sections"][name] = entry

    def keep(self, earlier):
        """Takes over an earlier report of the same programs on the same device. Passed results
        stay; all others stay until they are run again. Returns the names of the passed sections."""
        kept = []
        for name, entry in earlier.get("sections", {}).items():
            if name == "device" or entry.get("outcome") == NOT_RUN:
                continue
            passed = entry.get("outcome") == PASSED
            self.content["sections"][name] = dict(entry, kept=passed)
            kept += [name] if passed else []
        runs = [*earlier.get("earlier_runs", []),
                {field: earlier.get(field) for field in (*OF_A_CHECK, "seconds")}]
        self.content["earlier_runs"] = runs
        return kept


def run_section(report, section, todo, context, end, total_s, say, now):
    """Runs one section and reports its outcome. `todo` are the sections that have not ended,
    including this one; `end` is the time at which the whole check ends."""
    if report.content["sections"][section.name].get("kept"):
        say(f"{section.name}: {report.content['sections'][section.name]['outcome']}, kept from an "
            "earlier run")
        return
    begun = now()
    left = end - begun
    if left < 1:
        if report.content["sections"][section.name]["outcome"] == NOT_RUN:
            report.put(section.name, NOT_RUN, f"the {total_s:.0f} s of the whole check were over",
                       0, {})
        say(f"{section.name}: {NOT_RUN}")
        return
    share = left * section.limit_s / sum(other.limit_s for other in todo)
    limit = min(max(section.limit_s, share), left)
    figures, outcome, why = {}, PASSED, ""
    notes = programs.take_notes(section.name)
    report.put(section.name, NOT_RUN, "the check ended while it was under way", 0, figures, notes)
    try:
        section.run(context, figures, begun + limit)
    except NotPossible as reason:
        outcome, why = NOT_POSSIBLE, one_line(reason)
    except Failure as reason:
        outcome, why = FAILED, one_line(reason)
    except OutOfTime as reason:
        outcome, why = FAILED, f"not done within its {limit:.0f} s: {one_line(reason)}"
    except Exception as error:  # noqa: BLE001: a fault of one section must not cost the others
        outcome, why = FAILED, f"the check itself broke: {type(error).__name__}: {one_line(error)}"
    report.put(section.name, outcome, why, now() - begun, figures, notes)
    if section.repeats and outcome == FAILED and notes.suspect:
        try:
            repeat.failed_run(context, figures, notes.suspect, end)
        except Exception as error:  # noqa: BLE001: as above
            figures[
                "repeated"] = f"the check itself broke: {type(error).__name__}: {one_line(error)}"
    report.write()
    say(f"{section.name}: {outcome}{': ' + why if why else ''} ({now() - begun:.0f} s)")


def run_lanes(sections, run_one):
    """Runs the lanes in parallel, each in its order."""
    lanes = {}
    for section in sections:
        lanes.setdefault(section.lane, []).append(section)
    threads = [threading.Thread(target=lambda lane=lane: [run_one(section) for section in lane],
                                daemon=True) for lane in lanes.values()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@contextlib.contextmanager
def written_every(report, seconds):
    """Writes the report periodically, so that results of running sections survive if the check is
    killed."""
    stop = threading.Event()

    def work():
        while not stop.wait(seconds):
            report.write()

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
        report.write()


def run_sections(report, sections, context, total_s, say, now=time.monotonic, optional=()):
    """Runs the sections in order within `total_s` seconds and writes the report after each. Returns
    True if every outcome in the report is good, including those of earlier runs. `optional` names
    sections that are optional in addition to those of this run."""
    started = now()
    for section in sections:
        if section.name not in report.content["sections"]:
            report.put(section.name, NOT_RUN, "the check ended before it", 0, {})
    report.write()

    ended = set()

    def run_one(section):
        todo = [other for other in sections if other not in ended
                and not report.content["sections"][other.name].get("kept")]
        run_section(report, section, todo, context, started + total_s, total_s, say, now)
        ended.add(section)

    with written_every(report, WRITE_EVERY_S):
        for in_lanes, stretch in itertools.groupby(
                sections, lambda section: section.lane is not None):
            if in_lanes:
                run_lanes(list(stretch), run_one)
            else:
                for section in stretch:
                    run_one(section)
    entries = {name: entry["outcome"] for name, entry in report.content["sections"].items()}
    optional = {*optional, *(section.name for section in sections if section.optional)}
    good = all(outcome == PASSED or (name in optional and outcome == NOT_POSSIBLE) for name,
               outcome in entries.items())
    report.content["passed"] = good
    report.content["seconds"] = round(now() - started, 3)
    report.write()
    return good
