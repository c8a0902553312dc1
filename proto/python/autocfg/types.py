"""The values of the API as dataclasses. Sizes are bytes, times seconds, rates per second.

Fields have the names of the messages in `autocfg/v1`, whose comments describe each. None takes the coordinator's
default in a request; in an answer it means unknown or absent.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Optional

from . import _plan_text


@dataclasses.dataclass(frozen=True, kw_only=True)
class RopeScalingParameters:
    """Those of Model.rope_scaling, as transformers has them. Each scaling has some of them."""

    factor: Optional[float] = None
    original_max_position_embeddings: Optional[int] = None
    low_freq_factor: Optional[float] = None
    high_freq_factor: Optional[float] = None
    beta_fast: Optional[float] = None
    beta_slow: Optional[float] = None
    attention_factor: Optional[float] = None
    mscale: Optional[float] = None
    mscale_all_dim: Optional[float] = None
    truncate: Optional[bool] = None
    short_factor: Sequence[float] = ()
    long_factor: Sequence[float] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class LayerRun:
    """Consecutive layers of one kind."""

    layers: int
    window: Optional[int] = None
    chunk: Optional[int] = None
    rotary: Optional[bool] = None
    rope_theta: Optional[float] = None
    experts: Optional[bool] = None  # not supported yet


@dataclasses.dataclass(frozen=True, kw_only=True)
class Model:
    """A transformer. Required: layers, hidden, heads, vocab; the others default as GPT-2 does."""

    layers: int
    hidden: int
    heads: int
    vocab: int
    name: Optional[str] = None  # a label; it loads no preset
    kv_heads: Optional[int] = None
    head_dim: Optional[int] = None
    ffn_hidden: Optional[int] = None
    max_seq_len: Optional[int] = None
    activation: Optional[str] = None  # gelu, gelu_erf, relu, swiglu, geglu, squared_relu
    norm: Optional[str] = None  # layernorm, rmsnorm
    norm_eps: Optional[float] = None
    position: Optional[str] = None  # learned, rope, alibi, none
    rope_theta: Optional[float] = None
    bias: Optional[bool] = None
    tied_embeddings: Optional[bool] = None
    init_std: Optional[float] = None
    vocab_multiple: Optional[int] = None
    rope_scaling: Optional[str] = None  # none, linear, dynamic, yarn, longrope, llama3
    qkv_bias: Optional[bool] = None
    attention_out_bias: Optional[bool] = None
    mlp_bias: Optional[bool] = None
    qk_norm: Optional[str] = None
    norm_placement: Optional[str] = None
    parallel_residual: Optional[bool] = None
    shared_norm: Optional[bool] = None
    embedding_norm: Optional[bool] = None
    partial_rotary_factor: Optional[float] = None
    embedding_scale: Optional[float] = None
    attention_scale: Optional[float] = None
    residual_scale: Optional[float] = None
    logit_scale: Optional[float] = None
    attention_softcap: Optional[float] = None
    output_softcap: Optional[float] = None
    dropout: Optional[float] = None
    attention_dropout: Optional[float] = None
    undescribed: Optional[str] = None
    sliding_window: Optional[int] = None
    sliding_window_pattern: Optional[int] = None
    no_rope_layer_interval: Optional[int] = None
    rope_scaling_parameters: Optional[RopeScalingParameters] = None
    layer_kinds: Sequence[LayerRun] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DeviceEfficiency:
    """Achieved fractions of a device's peak rates."""

    matmul: Optional[float] = None
    matmul_k_half: Optional[float] = None
    attention_forward: Optional[float] = None
    attention_backward: Optional[float] = None
    memory: Optional[float] = None
    intra_node: Optional[float] = None
    inter_node: Optional[float] = None
    op_overhead_s: Optional[float] = None
    intra_node_message: Optional[float] = None
    inter_node_message: Optional[float] = None
    optimizer: Optional[float] = None
    data_exposed: Optional[float] = None
    attention_head_dim_half: Optional[float] = None
    overlap_contention: Optional[float] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Device:
    """What one rank runs on."""

    kind: str  # cpu, cuda
    memory_bytes: int
    name: Optional[str] = None  # a label; it loads no preset
    memory_bytes_per_s: Optional[float] = None
    flops_per_s: Mapping[str, float] = dataclasses.field(default_factory=dict)  # by precision
    multiprocessors: Optional[int] = None
    fused_attention: Optional[bool] = None
    overhead_bytes: Optional[int] = None
    efficiency: Optional[DeviceEfficiency] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """Equal nodes. Bandwidths are of one rank, in one direction."""

    device: Device
    nodes: int
    gpus_per_node: int
    intra_node_bytes_per_s: Optional[float] = None
    inter_node_bytes_per_s: Optional[float] = None
    intra_node_latency_s: Optional[float] = None
    inter_node_latency_s: Optional[float] = None
    ranks_per_core: Optional[float] = None
    host_op_s: Optional[float] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationFigure:
    """A figure of the cluster, as a fit to measured steps found it."""

    name: str
    prior: float
    value: float
    sigma: float
    known: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationShape:
    """What a fit says of the layers of one shape."""

    hidden: int
    seq_len: int
    micro_batch: int
    tp: int
    log_factor: float
    sigma: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationIrregularShapes:
    """Shapes whose log factors have a common part, with standard deviation sigma."""

    hidden: int
    seq_len: int
    micro_batch: int
    tp: int
    all_micro_batches: bool = False
    sigma: float


@dataclasses.dataclass(frozen=True, kw_only=True)
class CalibrationBlock:
    """What a fit says of one kind of layers."""

    prior_sigma: float
    own: float
    octaves: float
    shapes: Sequence[CalibrationShape] = ()
    irregular: Sequence[CalibrationIrregularShapes] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """What a fit to measured steps says beside the figures of a cluster."""

    measurements: int
    one_node_sigma: float
    many_nodes_sigma: float  # of slower steps; faster ones scatter half as far
    figures: Sequence[CalibrationFigure] = ()
    layers: Optional[CalibrationBlock] = None
    output_layers: Optional[CalibrationBlock] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Cluster:
    """`Cluster(local=True)` is all workers of the coordinator; else `groups` has exactly one group of nodes."""

    name: Optional[str] = None  # a label; it loads no preset
    local: bool = False
    groups: Sequence[NodeGroup] = ()
    calibration: Optional[Calibration] = None
    engine: Optional[str] = None  # whose step is predicted; on a local cluster also what measures (docs/engines.md)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Workload:
    """A training step: `global_batch` sequences of `seq_len` tokens."""

    global_batch: int
    seq_len: Optional[int] = None  # default: the model's max_seq_len
    # fp64, fp32, bf16, fp16, fp8; default: bf16 on GPUs, fp32 on CPUs. Types of states may follow:
    # "bf16:grads=bf16,moments=bf16,master=none".
    precision: Optional[str] = None
    optimizer: Optional["Optimizer"] = None  # default: adamw


@dataclasses.dataclass(frozen=True, kw_only=True)
class Optimizer:
    """An optimizer: adamw, sgd, or predicted only: adafactor, lion, muon, adamw8bit."""

    name: str = "adamw"
    momentum: float = 0.0  # of sgd


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plan:
    """A way of splitting a training run over ranks. What is None takes its default: 1, off, or none."""

    tp: Optional[int] = None
    pp: Optional[int] = None
    dp: Optional[int] = None
    micro_batch: Optional[int] = None
    virtual_stages: Optional[int] = None
    schedule: Optional[str] = None  # gpipe, 1f1b, interleaved, zb-h1
    split: Optional[str] = None  # even, auto, or layers of each stage: "9+8+8+7"
    recompute: Optional[str] = None  # none, selective, selective:mlp+norm, full, full:K
    attention: Optional[str] = None  # fused, unfused
    sequence_parallel: Optional[bool] = None
    zero_stage: Optional[int] = None
    tp_overlap: Optional[int] = None
    grad_overlap: Optional[bool] = None
    param_overlap: Optional[bool] = None
    p2p_overlap: Optional[bool] = None
    scatter_gather: Optional[bool] = None
    dp_shard: Optional[int] = None

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Returns the plan of a text such as "tp=8,pp=4,mbs=2,sp=1", with the words and values of the command line.

        The coordinator checks whether the plan is legal. Raises InvalidArgument, in one line, if an option is unknown or
        named twice, or its value is not one that it can have.
        """
        return cls(**_plan_text.parse(text))  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SpaceAxis:
    """The values that a search tries of one option of plans. No values: all."""

    name: str
    values: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SearchSpec:
    """What to search. Required: model, cluster, workload."""

    model: Model
    cluster: Cluster
    workload: Workload
    space: Sequence[SpaceAxis] = ()
    exhaustive: bool = False  # measure every feasible plan
    predict_only: bool = False  # measure no plan
    max_trials: Optional[int] = None  # the most plans to measure
    time_budget_s: Optional[float] = None
    device: Optional[str] = None  # cpu, cuda, paced
    machine_ranks: Optional[int] = None
    memory_margin: Optional[float] = None  # the fraction of a rank's memory that a plan must leave free
    fresh: bool = False  # measure everything anew, also what earlier studies measured


@dataclasses.dataclass(frozen=True, kw_only=True)
class Question:
    """A plan whose step is to be predicted. The cluster must be described, not local."""

    model: Model
    cluster: Cluster
    workload: Workload
    plan: Plan
    id: Optional[str] = None
    memory_margin: Optional[float] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemoryBytes:
    """Bytes of the worst rank, by use. `total` is their sum, 90% between `total_low` and `total_high`; `capacity` is what
    it may use. `reserved` is `allocated` and the allocator's reserve."""

    parameters: int
    gradients: int
    optimizer: int
    activations: int
    workspace: int
    communication: int
    allocator_reserve: int
    device_overhead: int
    allocated: int
    reserved: int
    total: int
    total_low: int
    total_high: int
    capacity: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Seconds of a step. The parts add up to the whole; hidden_comm is none of them."""

    compute: float
    recompute: float
    tp_comm: float
    pp_comm: float
    dp_comm: float
    bubble: float
    optimizer: float
    overhead: float
    hidden_comm: Optional[float] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Prediction:
    """A predicted step. `step_time_low_s` and `step_time_high_s` bound 90%. Where `feasible` is false, `reason` says
    why; the step is timed all the same."""

    feasible: bool
    reason: str
    step_time_s: float
    step_time_low_s: float
    step_time_high_s: float
    memory_bytes: Optional[MemoryBytes] = None
    breakdown_s: Optional[Breakdown] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Measurement:
    """Timed steps of a plan, with the median and half the width of its 95% interval."""

    step_time_s: Sequence[float]
    median_step_time_s: float
    ci95_s: float
    planned_memory_bytes: int
    peak_memory_bytes: int
    device_overhead_bytes: int
    first_loss: float
    last_loss: float
    build_id: str
    device_fingerprint: str
    ranks_per_core: float
    slice: bool
    device_s: float
    ranks_per_device: float
    engine: str  # empty: autocfg's own, of build_id
    engine_version: str
    breakdown_s: Optional[Breakdown] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Answer:
    """The answer to a question: `prediction`, or else `error`. `notes` say what was assumed."""

    id: str
    error: str
    prediction: Optional[Prediction] = None
    notes: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Candidate:
    """A plan with what is known of it. Without `measured`, it is predicted only."""

    plan: Optional[Plan]
    plan_text: str
    measured: Optional[Measurement] = None
    predicted: Optional[Prediction] = None
    corrected: Optional[Prediction] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counts:
    """Numbers of plans. enumerated = illegal + out_of_memory + predicted."""

    enumerated: int
    illegal: int
    out_of_memory: int
    predicted: int
    evaluated: int
    measured: int
    rejected: Mapping[str, int]  # by reason


class StudyState(str, enum.Enum):
    """DONE, FAILED and CANCELLED are ends."""

    UNSPECIFIED = "UNSPECIFIED"
    CREATED = "CREATED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    DONE = "DONE"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"


class TrialState(str, enum.Enum):
    """How a trial stands or ended. INFEASIBLE: out of memory. LOST: its worker disappeared."""

    UNSPECIFIED = "UNSPECIFIED"
    QUEUED = "QUEUED"
    RUNNING = "RUNNING"
    MEASURED = "MEASURED"
    INFEASIBLE = "INFEASIBLE"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CANCELLED = "CANCELLED"
    LOST = "LOST"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Study:
    """A search, with its state and its best plan so far. `waiting` says why it makes no progress."""

    name: str  # studies/{id}
    state: StudyState
    message: str
    fingerprint: str
    create_time_s: float  # Unix time
    end_time_s: float  # Unix time; 0 until it ends
    owner: str
    phase: str
    eta_s: float  # 0: unknown
    waiting: str
    calibration_ops_passed: int
    calibration_ops: int
    round: int
    weight: float  # its share of the workers among its owner's studies; 0: an older coordinator's, which is 1
    trace_parent: str  # W3C traceparent of the call that created or started it; "" if it had none
    without_plans: bool  # it failed before its plans were known, so it has no recommendation
    spec: Optional[SearchSpec] = None
    counts: Optional[Counts] = None
    best: Optional[Candidate] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Attempt:
    """One run of a trial."""

    number: int
    state: TrialState
    worker: str
    message: str
    start_time_s: float  # Unix time
    end_time_s: float  # Unix time; 0 while it runs
    workers: Sequence[str] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Trial:
    """A plan that a study measures, or has measured."""

    name: str  # studies/{id}/trials/{n}
    plan: Optional[Plan]
    plan_text: str
    state: TrialState
    message: str
    repeat: int
    reused_from: str  # the trial of an earlier study that `measured` is copied from; empty: measured by itself
    predicted: Optional[Prediction] = None
    measured: Optional[Measurement] = None
    attempts: Sequence[Attempt] = ()


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrialLog:
    """The last lines that an attempt of a trial, or of a calibration, printed, as its worker sent them."""

    trial: str  # studies/{id}/trials/{n}, or studies/{id}/calibration
    attempt: int
    text: str  # empty: there is no log
    left_out_bytes: int  # of the beginning


@dataclasses.dataclass(frozen=True, kw_only=True)
class Event:
    """A study after a change; `trial` is the trial that changed, None if the study did."""

    cursor: int
    study: Study
    trial: Optional[Trial] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class OptionEffect:
    """What it costs to give up one option of the best plan: a step takes `costs` longer, as a fraction."""

    option: str
    chosen: str
    instead: str
    costs: float
    because: str
    only_this_changed: bool
    plan: Optional[Plan] = None
    costs_alone: Optional[float] = None
    plan_alone: Optional[Plan] = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recommendation:
    """The answer of a search. Without `best`, `nothing_fits` says why. `provenance`: measured or predicted."""

    study: str
    provenance: str
    wall_s: float
    plan_cpu_s: float
    device_s: float
    exhaustive_device_s: float
    nothing_fits: str
    stopped: str
    plans_left: int
    left_out: str
    reused_op_times: int
    reused_trials: int  # whose measurements come from earlier studies
    memory_margin: float
    estimated_op_times: int
    measured_op_times: int
    measured_not_shown: int
    tied_not_shown: int
    best: Optional[Candidate] = None
    runners_up: Sequence[Candidate] = ()
    counts: Optional[Counts] = None
    matters_most: Optional[OptionEffect] = None
    pareto_memory: Sequence[Candidate] = ()
    chance_of_better: Optional[float] = None
