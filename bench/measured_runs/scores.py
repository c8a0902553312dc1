"""How far predicted step times are from measured ones. Errors are predicted over measured, minus one."""
import dataclasses
import statistics

WORST = 10


@dataclasses.dataclass(frozen=True)
class Pair:
    """A measured step and its prediction; times in seconds."""
    name: str
    measured_s: float
    predicted_s: float
    low_s: float
    high_s: float

    @property
    def error(self):
        return self.predicted_s / self.measured_s - 1


def pair(name, measured_s, answer):
    return Pair(name, measured_s, answer["step_time_s"], answer["step_time_low_s"], answer["step_time_high_s"])


def percent(share, digits=1):
    return round(100 * share, digits)


def worst(pairs, count=WORST):
    """Returns the runs with the largest absolute errors, the largest first. A run that was predicted several times counts
    with the largest of its errors."""
    of_runs = {}
    for one in sorted(pairs, key=lambda one: -abs(one.error)):
        of_runs.setdefault((one.name, one.measured_s), one)
    order = list(of_runs.values())
    return [{"run": one.name, "measured_s": round(one.measured_s, 4), "predicted_s": round(one.predicted_s, 4),
             "error_percent": percent(one.error)} for one in order[:count]]


def score(pairs):
    """Returns the summary of a list of pairs, which must not be empty."""
    absolute = [abs(one.error) for one in pairs]
    below = sum(one.measured_s < one.low_s for one in pairs)
    above = sum(one.measured_s > one.high_s for one in pairs)
    return {"rows": len(pairs),
            "mean_absolute_error_percent": percent(statistics.mean(absolute)),
            "median_absolute_error_percent": percent(statistics.median(absolute)),
            "worst_error_percent": percent(max(absolute)),
            "mean_error_percent": percent(statistics.mean(one.error for one in pairs)),
            "within_interval_percent": percent(1 - (below + above) / len(pairs)),
            "below_interval": below, "above_interval": above,
            "median_high_over_low": round(statistics.median(one.high_s / one.low_s for one in pairs), 2)}


def regret_of(pairs):
    """Returns how much longer the run takes that is predicted to be the fastest than the fastest one."""
    return min(pairs, key=lambda one: one.predicted_s).measured_s / min(one.measured_s for one in pairs) - 1


def regret(groups):
    """Returns how much longer than the best run the run takes that is predicted to be the fastest: the mean over
    the groups with at least two runs, and the largest; None if there is no such group."""
    losses = [regret_of(pairs) for pairs in groups if len(pairs) > 1]
    if not losses:
        return {"groups": 0, "mean_percent": None, "worst_percent": None}
    return {"groups": len(losses), "mean_percent": percent(statistics.mean(losses), 2), "worst_percent": percent(max(losses))}
