"""The report of a check: sections that run one after another, each with an outcome and its figures, written to a file after each."""
import json
import math
import os
import time

PASSED, FAILED, NOT_POSSIBLE, NOT_RUN = "passed", "failed", "not possible", "not run"


class Failure(Exception):
    """What a section found wrong, in one line."""


class NotPossible(Exception):
    """Why a section proves nothing on this machine, in one line."""


class OutOfTime(Exception):
    """A section's time has run out; what it has so far is kept."""


class Section:
    """`run(context, figures, deadline)` fills the dictionary `figures` as it goes, and ends, or raises one of the above. `limit_s` is what it may take.
    `optional`: that it is not possible does not make the whole check fail."""

    def __init__(self, name, limit_s, run, optional=False):
        self.name, self.limit_s, self.run, self.optional = name, limit_s, run, optional


def one_line(text):
    return " ".join(str(text).split())


def plain(value):
    """JSON knows no infinities and no NaN: they become words."""
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

    def write(self):
        """Replaces the file in one step, so that a cut-off run leaves a whole one."""
        text = json.dumps(plain(self.content), indent=1, allow_nan=False) + "\n"
        partial = f"{self.path}.partial"
        with open(partial, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, self.path)

    def put(self, name, outcome, why, seconds, figures):
        self.content["sections"][name] = {"outcome": outcome, "why": why, "seconds": round(seconds, 3), "figures": figures}

    def keep(self, earlier):
        """Takes over what passed, or was not possible, in an earlier report of the same programs on the same device. Returns the sections' names."""
        kept = []
        for name, entry in earlier.get("sections", {}).items():
            if entry.get("outcome") in (PASSED, NOT_POSSIBLE) and name != "device":
                self.content["sections"][name] = dict(entry, kept=True)
                kept.append(name)
        return kept


def run_sections(report, sections, context, total_s, say, now=time.monotonic):
    """Runs the sections in order within `total_s` seconds; writes the report after each. True where every outcome is a good one."""
    started = now()
    names = [section.name for section in sections]
    for section in sections:
        if section.name not in report.content["sections"]:
            report.put(section.name, NOT_RUN, "the check ended before it", 0, {})
    report.write()
    for section in sections:
        if report.content["sections"][section.name].get("kept"):
            say(f"{section.name}: {report.content['sections'][section.name]['outcome']}, kept from an earlier run")
            continue
        left = total_s - (now() - started)
        if left < 1:
            report.put(section.name, NOT_RUN, f"the {total_s:.0f} s of the whole check were over", 0, {})
            say(f"{section.name}: {NOT_RUN}")
            continue
        begun, limit = now(), min(section.limit_s, left)
        figures, outcome, why = {}, PASSED, ""
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
        report.put(section.name, outcome, why, now() - begun, figures)
        report.write()
        say(f"{section.name}: {outcome}{': ' + why if why else ''} ({now() - begun:.0f} s)")
    entries = {section.name: report.content["sections"][section.name]["outcome"] for section in sections}
    optional = {section.name for section in sections if section.optional}
    good = all(entries[name] == PASSED or (name in optional and entries[name] == NOT_POSSIBLE) for name in names)
    report.content["passed"] = good
    report.content["seconds"] = round(now() - started, 3)
    report.write()
    return good
