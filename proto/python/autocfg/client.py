"""The connection to a coordinator, and its calls."""

from __future__ import annotations

import ipaddress
import itertools
import os
import re
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Optional, Union

import grpc

from . import _convert, credentials
from .errors import FailedPrecondition, Internal, InvalidArgument, SearchFailed, from_rpc
from .types import Answer, Event, Prediction, Question, Recommendation, SearchSpec, Study, StudyState, Trial, TrialLog
from .v1 import study_service_pb2 as messages
from .v1 import study_service_pb2_grpc as services

# The coordinator ends, restarts, or is not there yet.
_AWAY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_CALL_S = 60.0  # limit of one answer
_REPORT_S = 120.0  # limit of a page: the coordinator plans the study again
_PREDICT_S = 600.0  # limit of the answers to one batch of questions
_PREDICT_BATCH = 256
_PAGE_SIZE = 200
_MAX_PORT = 65535
_PAUSE_S = 0.2  # between two attempts
_TRACE_PARENT = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")
_OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 16 << 20),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # despite its name: the time limit of one attempt to connect
    ("grpc.enable_http_proxy", 0),
]


def _is_local(address: str) -> bool:
    """Whether traffic to the address stays on this machine. InvalidArgument if it is none."""
    if address.startswith("unix:"):
        return True
    host, colon, port = address.rpartition(":")
    if host and colon and port.isascii() and port.isdigit() and not 1 <= int(port) <= _MAX_PORT:
        raise InvalidArgument(f"address {address}: {port} is no port; give one from 1 to {_MAX_PORT}")
    if not host or not colon or not (port.isascii() and port.isdigit()):
        raise InvalidArgument(f"address {address}: give unix:PATH, HOST:PORT or [IPV6]:PORT")
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _named(study: Union[str, Search]) -> str:
    if isinstance(study, Search):
        return study.name
    if isinstance(study, str):
        return study
    raise InvalidArgument(f"study: {study!r} is no study; give its name, such as 'studies/3', or what search() returned")


def _trace() -> Optional[tuple[tuple[str, str], ...]]:
    """The metadata that names the trace of the environment variable TRACEPARENT (W3C Trace Context), if it is valid."""
    text = os.environ.get("TRACEPARENT", "")
    return (("traceparent", text),) if _TRACE_PARENT.fullmatch(text) else None


class Search:
    """A study that was started. Iterate over it for its events; `result()` waits for the answer.

    The study belongs to the coordinator: it goes on when this program ends.
    """

    def __init__(self, coordinator: Coordinator, name: str):
        self._coordinator = coordinator
        self._cursor = 0
        self.name = name  # studies/{id}

    def __iter__(self) -> Iterator[Event]:
        """Yields the events that were not yielded yet, until the study ends."""
        for event in self._coordinator.watch(self.name, cursor=self._cursor):
            self._cursor = event.cursor
            yield event

    def result(self) -> Recommendation:
        """Waits until the study ends and returns its answer; where no plan fits, one without `best`.

        Raises SearchFailed if it ended as FAILED or CANCELLED. A paused study has not ended.
        """
        for _ in self:
            pass
        study = self._coordinator.study(self.name)
        if study.state is not StudyState.DONE:
            raise SearchFailed(f"{study.name} ended as {study.state.value}: {study.message or 'it was cancelled'}")
        return self._coordinator.recommendation(self.name)

    def cancel(self) -> Study:
        """Ends the study without an answer."""
        return self._coordinator.cancel(self.name)


class Coordinator:
    """A connection to a coordinator. Its calls may be made from several threads.

    `address` is unix:PATH, HOST:PORT or [IPV6]:PORT. `tls_ca` is a PEM file: calls are encrypted, and the coordinator
    must show a certificate of the authorities in it. `tls_cert` and `tls_key` are the files of this client's own
    certificate, for a coordinator that asks for one. Calls in plain text are refused at an address that leaves this
    machine, unless `insecure` says that the network between is trusted. `token` is the text of a token
    (`autocfg token create`). A call goes on over a restart of the coordinator; `patience_s` is how long it waits for
    one that does not answer. `channel` is one of your own, with other credentials; it is not closed.

    Every method raises an AutocfgError.
    """

    def __init__(self, address: str, *, insecure: bool = False, patience_s: float = 60.0, channel: Any = None,
                 tls_ca: Optional[str] = None, tls_cert: Optional[str] = None, tls_key: Optional[str] = None,
                 token: Optional[str] = None):
        encrypted = tls_ca is not None and not address.startswith("unix:")
        if channel is None and not _is_local(address) and not encrypted and not insecure:
            raise InvalidArgument(f"{address} is on another machine, and calls are not encrypted: anyone on the network path can read and "
                                  "change them; give tls_ca for a coordinator with a certificate, or insecure=True to accept that")
        if (tls_cert is None) != (tls_key is None) or (tls_cert is not None and tls_ca is None):
            raise InvalidArgument("tls_cert and tls_key go together, and with tls_ca; give all of them")
        self.address = address
        self._patience_s = patience_s
        self._owned = channel is None
        self._channel: Any = channel
        if channel is None:
            self._channel = (grpc.secure_channel(address, credentials.encrypted(str(tls_ca), tls_cert, tls_key), options=_OPTIONS)
                             if encrypted else grpc.insecure_channel(address, options=_OPTIONS))
            if token is not None:
                self._channel = grpc.intercept_channel(self._channel, credentials.ShowToken(token))
        stub_of: Callable[[Any], Any] = services.StudyServiceStub
        self._calls = stub_of(self._channel)
        self._closed = False

    def __enter__(self) -> Coordinator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connection: later calls raise FailedPrecondition. Studies go on."""
        self._closed = True
        if self._owned:
            self._channel.close()

    @property
    def _stub(self) -> Any:
        self._check_open()
        return self._calls

    def _check_open(self) -> None:
        if self._closed:
            raise FailedPrecondition(f"{self.address}: this connection was closed; make another Coordinator")

    def predict(self, question: Question) -> Prediction:
        """Predicts one step of a plan. Raises InvalidArgument if the question is wrong or its plan illegal. A plan that
        does not fit in memory is an answer: `feasible` is false."""
        (answer,) = self.predict_all([question])
        if answer.prediction is None:
            raise InvalidArgument(answer.error)
        return answer.prediction

    def predict_all(self, questions: Iterable[Question]) -> Iterator[Answer]:
        """Yields the answer to each question, in their order. A wrong one gets an answer with `error`; the others go
        on. Takes up to 256 questions before it yields the first answer."""
        rest = iter(questions)
        while batch := [_convert.fill(messages.PredictRequest(), one) for one in itertools.islice(rest, _PREDICT_BATCH)]:
            end = time.monotonic() + self._patience_s
            while batch:
                stream = self._stub.Predict(iter(list(batch)), timeout=_PREDICT_S)
                try:
                    for message in stream:
                        batch.pop(0)
                        end = time.monotonic() + self._patience_s
                        yield _convert.read(Answer, message)
                    if batch:
                        raise Internal(f"{self.address}: the coordinator left {len(batch)} questions unanswered")
                except grpc.RpcError as error:
                    self._pause_or_raise(error, end)
                finally:
                    stream.cancel()

    def search(
        self,
        spec: SearchSpec,
        *,
        request_id: Optional[str] = None,
        reuse_unfinished: bool = False,
        weight: Optional[float] = None,
    ) -> Search:
        """Creates and starts a study. With the `request_id` of an earlier call, the same study. `reuse_unfinished`:
        joins an unfinished study of the same specification, if there is one. `weight`: the study's share of the workers
        among its owner's studies; default: 1."""
        request = messages.CreateStudyRequest(
            request_id=request_id or str(uuid.uuid4()), reuse_unfinished=reuse_unfinished, weight=weight
        )
        _convert.fill(request.spec, spec)
        study = _convert.read(Study, self._call(self._stub.CreateStudy, request))
        if study.state is StudyState.CREATED:
            self._call(self._stub.StartStudy, messages.StartStudyRequest(name=study.name, request_id=str(uuid.uuid4())))
        return Search(self, study.name)

    def watch(self, study: Union[str, Search], *, cursor: int = 0) -> Iterator[Event]:
        """Yields the events of a study after `cursor` until the study ends. Resumes after a lost connection."""
        end = None  # when the patience with the coordinator ends; None while it answers
        while True:
            stream = self._stub.WatchStudy(messages.WatchStudyRequest(name=_named(study), resume_cursor=cursor))
            try:
                for message in stream:
                    end = None
                    cursor = message.cursor
                    yield _convert.read(Event, message)
                return
            except grpc.RpcError as error:
                end = time.monotonic() + self._patience_s if end is None else end
                self._pause_or_raise(error, end)
            finally:
                stream.cancel()

    def export(self, study: Union[str, Search], format: str) -> str:
        """Returns the best plan of a study as the file of a training framework: megatron, megatron-bridge, nemo,
        deepspeed, torchtitan or autocfg. Raises FailedPrecondition where the framework cannot express the plan, or where there is
        none yet."""
        return str(self._call(self._stub.ExportConfig, messages.ExportConfigRequest(study=_named(study), format=format)).content)

    def report(self, study: Union[str, Search]) -> str:
        """Returns a page in HTML about a study, which opens without a network. Raises FailedPrecondition if the study was
        not started."""
        return str(self._call(self._stub.GetReport, messages.GetReportRequest(study=_named(study)), limit_s=_REPORT_S).page)

    def recommendation(self, study: Union[str, Search]) -> Recommendation:
        """Returns the answer of a study; while it runs, the best plan so far."""
        return _convert.read(Recommendation, self._call(self._stub.GetRecommendation, messages.GetRecommendationRequest(study=_named(study))))

    def study(self, study: Union[str, Search]) -> Study:
        """Returns a study as it is now."""
        return _convert.read(Study, self._call(self._stub.GetStudy, messages.GetStudyRequest(name=_named(study))))

    def studies(self) -> Iterator[Study]:
        """Yields all studies, newest first."""
        request = messages.ListStudiesRequest(page_size=_PAGE_SIZE)
        while True:
            page = self._call(self._stub.ListStudies, request)
            for one in page.studies:
                yield _convert.read(Study, one)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def trials(self, study: Union[str, Search]) -> Iterator[Trial]:
        """Yields the trials of a study, by number."""
        request = messages.ListTrialsRequest(parent=_named(study), page_size=_PAGE_SIZE)
        while True:
            page = self._call(self._stub.ListTrials, request)
            for one in page.trials:
                yield _convert.read(Trial, one)
            if not page.next_page_token:
                return
            request.page_token = page.next_page_token

    def log(self, trial: str, *, attempt: int = 0, max_bytes: int = 0) -> TrialLog:
        """Returns the log of an attempt of a trial (`studies/3/trials/7`) or a calibration (`studies/3/calibration`); of the
        last one if `attempt` is 0. Its end alone if it is longer than `max_bytes` (0: 64 KiB)."""
        request = messages.GetTrialLogRequest(name=trial, attempt=attempt, max_bytes=max_bytes)
        return _convert.read(TrialLog, self._call(self._stub.GetTrialLog, request))

    def cancel(self, study: Union[str, Search]) -> Study:
        """Ends a study without an answer. No effect on a cancelled one."""
        return _convert.read(Study, self._call(self._stub.CancelStudy, messages.CancelStudyRequest(name=_named(study), request_id=str(uuid.uuid4()))))

    def _call(self, method: Callable[..., Any], request: Any, limit_s: float = _CALL_S) -> Any:
        """Calls until the coordinator answers. A write has a request_id, which makes a repetition harmless."""
        end = time.monotonic() + self._patience_s
        while True:
            try:
                return method(request, timeout=limit_s, metadata=_trace())
            except grpc.RpcError as error:
                self._pause_or_raise(error, end)

    def _pause_or_raise(self, error: Any, end: float) -> None:
        self._check_open()  # another thread may have closed it, which cancels the call
        if error.code() not in _AWAY or time.monotonic() > end:
            raise from_rpc(error, self.address) from None
        time.sleep(_PAUSE_S)
