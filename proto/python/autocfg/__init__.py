"""Clients of an autocfg coordinator: predict and search the fastest way of splitting LLM training.

    import autocfg

    with autocfg.Coordinator("head:5000", insecure=True) as coordinator:
        search = coordinator.search(autocfg.SearchSpec(model=..., cluster=autocfg.Cluster(local=True), workload=...))
        for event in search:
            print(event.study.phase)
        print(search.result().best)

`predict()`, `search()`, `watch()` and `export()` are the methods of Coordinator as functions. The generated messages
and stubs of the whole API are in `autocfg.v1`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Optional, Union

from .client import Coordinator, Search
from .errors import (AlreadyExists, AutocfgError, FailedPrecondition, Internal, InvalidArgument, NotFound, NotSupported,
                     PermissionDenied, ResourceExhausted, SearchFailed, Unavailable)
from .types import (Answer, Attempt, Breakdown, Calibration, CalibrationBlock, CalibrationFigure, CalibrationIrregularShapes,
                    CalibrationShape, Candidate, Cluster, Counts, Device, DeviceEfficiency, Event, LayerRun, Measurement, MemoryBytes,
                    Model, NodeGroup, Optimizer, OptionEffect, Plan, Prediction, Question, Recommendation, RopeScalingParameters,
                    SearchSpec, SpaceAxis, Study, StudyState, Trial, TrialLog, TrialState, Workload)
from .version import __version__

__all__ = [
    "AlreadyExists", "Answer", "Attempt", "AutocfgError", "Breakdown", "Calibration", "CalibrationBlock", "CalibrationFigure",
    "CalibrationIrregularShapes", "CalibrationShape", "Candidate", "Cluster", "Coordinator", "Counts", "Device",
    "DeviceEfficiency", "Event", "FailedPrecondition", "Internal", "InvalidArgument", "LayerRun", "Measurement", "MemoryBytes", "Model",
    "NodeGroup", "NotFound", "NotSupported", "Optimizer", "OptionEffect", "PermissionDenied", "Plan", "Prediction", "Question",
    "Recommendation", "ResourceExhausted", "RopeScalingParameters", "Search", "SearchFailed", "SearchSpec", "SpaceAxis", "Study",
    "StudyState", "Trial", "TrialLog", "TrialState", "Unavailable", "Workload", "__version__", "export", "predict", "search",
    "watch",
]


def predict(coordinator: Coordinator, question: Question) -> Prediction:
    """See Coordinator.predict."""
    return coordinator.predict(question)


def search(
    coordinator: Coordinator,
    spec: SearchSpec,
    *,
    request_id: Optional[str] = None,
    reuse_unfinished: bool = False,
    weight: Optional[float] = None,
) -> Search:
    """See Coordinator.search."""
    return coordinator.search(spec, request_id=request_id, reuse_unfinished=reuse_unfinished, weight=weight)


def watch(coordinator: Coordinator, study: Union[str, Search], *, cursor: int = 0) -> Iterator[Event]:
    """See Coordinator.watch."""
    return coordinator.watch(study, cursor=cursor)


def export(coordinator: Coordinator, study: Union[str, Search], format: str) -> str:
    """See Coordinator.export."""
    return coordinator.export(study, format)
