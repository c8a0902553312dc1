"""What is known of the frameworks and machines of published runs, and is no column of their table."""
import dataclasses
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
GIB = 2 ** 30


@dataclasses.dataclass(frozen=True)
class Source:
    """Runs whose `source_table` begins with `prefix`.

    engine: the framework by the name that `autocfg --engine` uses; "" if it has none. Requests name it once autocfg
    takes such a field.
    unfused: attention stored its scores (before FlashAttention).
    scatter_gather: messages between stages pass in shares of the tensor group: Megatron-LM's default, and what
    DeepSpeed's pipeline engine does with tensor parallelism (is_pipe_partitioned).
    overlapped: sharded states are gathered and reduced while the ranks compute, the default of PyTorch's FSDP.
    inter_node_bytes_per_s: the links between nodes, per GPU and direction, where the source says that they are not
    those of the device's preset.
    published_with: the name of what publishes several sources; "": the source's own.
    """
    prefix: str
    name: str
    engine: str = ""
    unfused: bool = False
    overlapped: bool = False
    scatter_gather: bool = False
    inter_node_bytes_per_s: float = 0
    published_with: str = ""

    @property
    def publication(self):
        return self.published_with or self.name


# The first one that fits counts.
SOURCES = (
    Source("Narayanan 2021", "Narayanan et al. 2021", "megatron", unfused=True, scatter_gather=True),
    Source("Korthikanti 2022", "Korthikanti et al. 2022", "megatron", unfused=True, scatter_gather=True),
    # Jean Zay: nodes of 8 GPUs with 4 Omni-Path links of 100 Gb/s, 50 Gb/s for each GPU.
    Source("BLOOM", "BLOOM (200B studies, 176B run)", "deepspeed", unfused=True, scatter_gather=True, inter_node_bytes_per_s=6.25e9),
    Source("GLM-130B", "GLM-130B", "deepspeed", unfused=True, scatter_gather=True),
    Source("Black 2022", "GPT-NeoX-20B", "deepspeed", unfused=True, scatter_gather=True),
    Source("Biderman 2023", "Pythia", "deepspeed", scatter_gather=True),
    Source("NeMo-Megatron README", "NeMo-Megatron README (A100)", "nemo", unfused=True),
    Source("NeMo AutoModel", "NeMo AutoModel"),
    Source("NeMo", "NeMo performance summaries", "nemo"),
    Source("Megatron-Bridge", "Megatron-Bridge performance summaries", "nemo"),
    Source("Megatron-LM", "Megatron-LM examples", "megatron"),
    Source("llm-foundry benchmarking README: A100 40GB", "llm-foundry, A100 40 GB", "torchtitan", overlapped=True, published_with="llm-foundry"),
    Source("llm-foundry benchmarking README: A100 80GB", "llm-foundry, A100 80 GB", "torchtitan", overlapped=True, published_with="llm-foundry"),
    Source("llm-foundry", "llm-foundry, H100", "torchtitan", overlapped=True, published_with="llm-foundry"),
    Source("torchtitan", "torchtitan", "torchtitan", overlapped=True),
    Source("nanotron", "nanotron", "nanotron"),
    Source("llm.c", "llm.c"),
)


def source_of(table):
    """Returns the source of a row by its `source_table`."""
    for source in SOURCES:
        if table.startswith(source.prefix):
            return source
    return Source(table, table)


PRESETS = {"A100-80GB-SXM": "a100-80gb-sxm", "A100-40GB-SXM": "a100-40gb-sxm", "H100-80GB-SXM": "h100-sxm",
           "H200-141GB-SXM": "h200-sxm", "B200-180GB": "b200-sxm"}

# GPUs without a preset: the preset that they are like, and what differs. "domain" is the number of GPUs that NVLink
# connects.
VARIANTS = {
    # torchtitan's documentation: H100 with 96 GB of HBM2e, 2.4 TB/s, limited to 500 W; its logs print 95 GiB.
    # Estimate: H100's processor at 500 instead of 700 W runs at (500 / 700)^(1/3) = 0.89 of its rate, because power
    # grows with the cube of the clock.
    "H100-96GB-HBM2e-500W": {"preset": "h100-sxm", "memory_bytes": 95 * GIB, "memory_bytes_per_s": 2.4e12, "rate": 0.89},
    # NVIDIA GB200 NVL72 data sheet (2024), for 72 GPUs: 13.4 TB, 576 TB/s, 360 PFLOP/s in bf16 with sparsity; 1.8 TB/s
    # of NVLink for each GPU in both directions together.
    "GB200": {"preset": "b200-sxm", "memory_bytes": 186_000_000_000, "memory_bytes_per_s": 8e12, "rate": 1.11, "domain": 72},
}


def cluster_of(gpu, gpus, per_node, source):
    """Returns the cluster of a run for a request, or None if the GPU is unknown."""
    variant = VARIANTS.get(gpu)
    preset = variant["preset"] if variant else PRESETS.get(gpu)
    if preset is None:
        return None
    cluster = {"device": preset}
    if variant:
        cluster = json.loads((ROOT / "search" / "data" / "devices" / f"{preset}.json").read_text(encoding="utf-8"))
        cluster.pop("sources", None)
        device = cluster["device"]
        device |= {"name": gpu, "memory_bytes": variant["memory_bytes"], "memory_bytes_per_s": variant["memory_bytes_per_s"]}
        device["flops_per_s"] = {precision: rate * variant["rate"] for precision, rate in device["flops_per_s"].items()}
        per_node = variant.get("domain", per_node)
    cluster |= {"nodes": -(-gpus // per_node), "gpus_per_node": min(gpus, per_node)}
    if source.inter_node_bytes_per_s:
        cluster["inter_node_bytes_per_s"] = source.inter_node_bytes_per_s
    return cluster
