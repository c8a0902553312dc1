#!/usr/bin/env python3
"""A training engine of its own for the tests of engines (docs/engines.md): trains a GPT on the CPU with PyTorch, over data and
tensor parallel ranks that torch.distributed (gloo) connects. It reads a plan as autocfg exports it, in autocfg's own form or as
flags of Megatron-LM, and prints a line for each step.

The weights of every parameter follow from the seed and its name, and each rank keeps its part. So every layout of a model
starts the same, and its losses must agree.

--fault makes it fail in the ways that real runs fail. It is injected on --fault-rank, at the second step unless said otherwise.
"""
import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time

FAULTS = {
    "crash": "raise an error",
    "killed": "end by SIGKILL",
    "oom": "ask for more memory than there is",
    "oom-status": "end with status 17 and no word",
    "hang": "do nothing any more",
    "stubborn": "ignore SIGTERM, start a process in a session of its own, and hang",
    "garbage": "write megabytes of bytes and lines that look like steps to the log, then train",
    "mute": "train, and print no step",
    "never": "do not start: sleep before anything else",
}


def parse_arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--plan", help="best.json, as autocfg writes it")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--log", choices=["json", "text"], default="json")
    parser.add_argument("--log-rank", type=int, default=0, help="that prints the steps; -1 is the last")
    parser.add_argument("--fault", choices=sorted(FAULTS), default=os.environ.get("TORCH_ENGINE_FAULT") or None)
    parser.add_argument("--fault-rank", type=int, default=int(os.environ.get("TORCH_ENGINE_FAULT_RANK") or 0))
    parser.add_argument("--spawn", type=int, help="start this many ranks, from --rank on, in processes of their own")
    # Those that torchrun sets.
    parser.add_argument("--rank", type=int, default=os.environ.get("RANK", "0"))
    parser.add_argument("--world", type=int, default=os.environ.get("WORLD_SIZE", "1"))
    parser.add_argument("--master-address", default=os.environ.get("MASTER_ADDR", "127.0.0.1"))
    parser.add_argument("--master-port", type=int, default=os.environ.get("MASTER_PORT", "29500"))
    # What it reads of Megatron-LM's flags, where there is no --plan.
    for name in ("tensor-model-parallel-size", "pipeline-model-parallel-size", "micro-batch-size", "global-batch-size",
                 "num-layers", "hidden-size", "ffn-hidden-size", "num-attention-heads", "seq-length",
                 "max-position-embeddings", "vocab-size"):
        parser.add_argument("--" + name, type=int)
    args, rest = parser.parse_known_args()
    if args.plan and rest:
        parser.error("unknown arguments: " + " ".join(rest))
    return args


class Run:
    """Model, workload and layout of the run."""

    def __init__(self, args):
        if args.plan:
            self.from_plan(args.plan)
        else:
            self.layers, self.hidden, self.heads = args.num_layers, args.hidden_size, args.num_attention_heads
            self.ffn, self.vocab = args.ffn_hidden_size or 4 * args.hidden_size, args.vocab_size
            self.positions, self.length = args.max_position_embeddings, args.seq_length
            self.batch, self.micro_batch = args.global_batch_size, args.micro_batch_size
            self.tp, pp = args.tensor_model_parallel_size or 1, args.pipeline_model_parallel_size or 1
            self.refuse("pipeline stages", pp > 1)
            self.dp = args.world // self.tp
            self.double = False
        if self.tp * self.dp != args.world:
            raise ValueError(f"tp={self.tp} times dp={self.dp} is not the {args.world} ranks that were started")
        if self.heads % self.tp or self.batch % (self.dp * self.micro_batch):
            raise ValueError("heads or batch do not divide")

    def from_plan(self, path):
        with open(path, encoding="utf-8") as file:
            answer = json.load(file)
        model, workload, plan = answer["model"], answer["workload"], answer["best"]["plan"]
        self.layers, self.hidden, self.heads = model["layers"], model["hidden"], model["heads"]
        self.ffn, self.vocab, self.positions = model["ffn_hidden"], model["vocab"], model["max_seq_len"]
        self.length, self.batch = workload["seq_len"], workload["global_batch"]
        self.double = workload["precision"] == "fp64"
        self.tp, self.dp, self.micro_batch = plan["tp"], plan["dp"], plan["micro_batch"]
        self.refuse("pipeline stages", plan["pp"] > 1)
        self.refuse("sequence parallelism", bool(plan["sequence_parallel"]))
        self.refuse("sharded states", plan["zero_stage"] > 0)
        self.refuse("recomputation", plan["recompute"] != "none")
        self.refuse("this kind of model", (model["activation"], model["norm"], model["position"]) !=
                    ("gelu", "layernorm", "learned") or model["kv_heads"] != model["heads"])
        self.refuse("this precision", workload["precision"] not in ("fp32", "fp64"))

    @staticmethod
    def refuse(what, wrong):
        if wrong:
            raise ValueError(f"{what} are not supported by this engine")


def write_garbage():
    """Bytes that no rule expects, and lines that some rule nearly expects."""
    noise = random.Random(7)
    out = sys.stdout.buffer
    for _ in range(64):
        out.write(noise.randbytes(64 << 10).replace(b"\n", b"\r"))
    out.write(b"\n" + b"x" * (4 << 20) + b"\n")
    for value in ("nan", "-1", "1e999", "1e300", "0", '"7"', "null", "[]", "{}"):
        out.write(f'{{"step": 1, "step_time_s": {value}, "loss": {value}}}\n'.encode())
        out.write(f"step {value}/9 | time {value} ms | loss {value} | peak {value} MiB\n".encode())
    out.write(b'{"step": ' + b"[" * 7000 + b"\n" + b'{"step_time_s"\n')
    out.flush()


def inject(fault, torch):
    """Fails. Returns only after garbage."""
    if fault == "crash":
        raise RuntimeError("injected crash of the test engine")
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "oom":
        torch.empty(1 << 50, dtype=torch.uint8)
    if fault == "oom-status":
        os._exit(17)
    if fault in ("hang", "stubborn"):
        if fault == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            child = subprocess.Popen(["/bin/sh", "-c", "trap '' TERM; while :; do sleep 1; done"], start_new_session=True,
                                     stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            print(f"hanging with pids {os.getpid()} {child.pid}", flush=True)
        while True:
            time.sleep(1)


def build(torch, run, tensor_rank, group, seed):
    """Returns the parameters of this rank by name and a function of tokens and targets that returns the sum of the losses."""
    functional = torch.nn.functional
    dtype = torch.float64 if run.double else torch.float32

    class CopyToRanks(torch.autograd.Function):
        """The input of products whose columns the ranks share: their gradients add up."""

        @staticmethod
        def forward(ctx, x):
            return x

        @staticmethod
        def backward(ctx, grad):
            grad = grad.contiguous()
            torch.distributed.all_reduce(grad, group=group)
            return grad

    class SumOverRanks(torch.autograd.Function):
        """The output of products whose rows the ranks share."""

        @staticmethod
        def forward(ctx, x):
            x = x.contiguous()
            torch.distributed.all_reduce(x, group=group)
            return x

        @staticmethod
        def backward(ctx, grad):
            return grad

    def split(x):
        return CopyToRanks.apply(x) if run.tp > 1 else x

    def joined(x):
        return SumOverRanks.apply(x) if run.tp > 1 else x

    parameters = {}

    def add(name, shape, std, parts=1, dim=0):
        """The part of a parameter that this rank keeps: of `parts` blocks along `dim`, the same share of each."""
        generator = torch.Generator().manual_seed(seed * 1000003 + sum(ord(c) * 31**i for i, c in enumerate(name)) % 2**31)
        whole = torch.randn(shape, generator=generator, dtype=torch.float64) * std
        if parts > 0 and run.tp > 1:
            blocks = torch.chunk(whole, parts, dim)
            whole = torch.cat([torch.chunk(block, run.tp, dim)[tensor_rank] for block in blocks], dim)
        parameters[name] = torch.nn.Parameter(whole.to(dtype).contiguous())

    h, f = run.hidden, run.ffn
    add("tokens", (run.vocab, h), 0.02, 0)
    add("positions", (run.positions, h), 0.02, 0)
    for i in range(run.layers):
        for norm in ("norm1", "norm2"):
            add(f"{i}.{norm}.weight", (h,), 0, 0)
            parameters[f"{i}.{norm}.weight"].data += 1
            add(f"{i}.{norm}.bias", (h,), 0, 0)
        add(f"{i}.qkv.weight", (3 * h, h), 0.02, 3)
        add(f"{i}.qkv.bias", (3 * h,), 0, 3)
        add(f"{i}.out.weight", (h, h), 0.02 / (2 * run.layers) ** 0.5, 1, 1)
        add(f"{i}.out.bias", (h,), 0, 0)
        add(f"{i}.up.weight", (f, h), 0.02, 1)
        add(f"{i}.up.bias", (f,), 0, 1)
        add(f"{i}.down.weight", (h, f), 0.02 / (2 * run.layers) ** 0.5, 1, 1)
        add(f"{i}.down.bias", (h,), 0, 0)
    add("norm.weight", (h,), 0, 0)
    parameters["norm.weight"].data += 1
    add("norm.bias", (h,), 0, 0)

    def norm(x, name):
        return functional.layer_norm(x, (h,), parameters[name + ".weight"], parameters[name + ".bias"])

    def linear(x, name):
        return functional.linear(x, parameters[name + ".weight"], parameters[name + ".bias"])

    def attention(x, i):
        b, s, _ = x.shape
        q, k, v = linear(split(x), f"{i}.qkv").chunk(3, -1)
        q, k, v = (t.view(b, s, run.heads // run.tp, -1).transpose(1, 2) for t in (q, k, v))
        scores = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        mask = torch.ones(s, s, dtype=torch.bool).triu(1)
        mixed = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        mixed = mixed.transpose(1, 2).reshape(b, s, -1)
        return joined(functional.linear(mixed, parameters[f"{i}.out.weight"])) + parameters[f"{i}.out.bias"]

    def mlp(x, i):
        up = functional.gelu(linear(split(x), f"{i}.up"), approximate="tanh")
        return joined(functional.linear(up, parameters[f"{i}.down.weight"])) + parameters[f"{i}.down.bias"]

    def loss_of(tokens, targets):
        x = parameters["tokens"][tokens] + parameters["positions"][: tokens.shape[1]]
        for i in range(run.layers):
            x = x + attention(norm(x, f"{i}.norm1"), i)
            x = x + mlp(norm(x, f"{i}.norm2"), i)
        logits = functional.linear(norm(x, "norm"), parameters["tokens"])
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="sum")

    return parameters, loss_of


def train(args, torch):
    torch.set_num_threads(1)
    distributed = torch.distributed
    run = Run(args)
    distributed.init_process_group("gloo", init_method=f"tcp://{args.master_address}:{args.master_port}", rank=args.rank,
                                   world_size=args.world)
    # Ranks of a tensor group are neighbours. Every rank takes part in making every group.
    tensor_groups = [distributed.new_group(range(first, first + run.tp)) for first in range(0, args.world, run.tp)]
    data_groups = [distributed.new_group(range(first, args.world, run.tp)) for first in range(run.tp)]
    data_rank, tensor_rank = divmod(args.rank, run.tp)
    tensor_group, data_group = tensor_groups[data_rank], data_groups[tensor_rank]
    parameters, loss_of = build(torch, run, tensor_rank, tensor_group, args.seed)
    optimizer = torch.optim.AdamW(parameters.values(), lr=3e-4, weight_decay=0.1)
    tokens = torch.randint(run.vocab, (run.batch, run.length + 1), generator=torch.Generator().manual_seed(args.seed))
    mine = tokens[data_rank * run.batch // run.dp : (data_rank + 1) * run.batch // run.dp]
    printing = args.rank == args.log_rank % args.world
    faulty = args.fault if args.rank == args.fault_rank else None
    count = run.batch * run.length
    for step in range(1, args.steps + 1):
        distributed.barrier()
        begin = time.monotonic()
        if step == 2:
            inject(faulty, torch)
        total = torch.zeros((), dtype=torch.float64)
        for micro in mine.split(run.micro_batch):
            loss = loss_of(micro[:, :-1], micro[:, 1:])
            (loss / count).backward()
            total += loss.detach()
        if run.dp > 1:
            for parameter in parameters.values():
                distributed.all_reduce(parameter.grad, group=data_group)
            distributed.all_reduce(total, group=data_group)
        optimizer.step()
        optimizer.zero_grad()
        seconds = time.monotonic() - begin
        if printing and args.fault != "mute":
            report(args, step, seconds, total.item() / count)
    distributed.barrier()


def report(args, step, seconds, loss):
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if args.log == "json":
        line = json.dumps({"step": step, "step_time_s": seconds, "loss": loss, "memory": {"peak_bytes": peak}})
    else:
        line = f"\x1b[32mstep {step}/{args.steps} | time {1e3 * seconds:,.3f} ms | loss {loss:.9f} | peak {peak / 2**20:,.1f} MiB\x1b[0m"
    print(line, flush=True)


def spawn(args):
    """Starts the ranks of this node, as torchrun does; Debian 12's fails under its own Python. The first that fails ends the
    others."""
    words = sys.argv[1:]
    for option in ("--spawn", "--rank"):
        if option in words:
            del words[words.index(option) : words.index(option) + 2]
    ranks = [subprocess.Popen([sys.executable, "-B", __file__, *words, "--rank", str(args.rank + i)]) for i in range(args.spawn)]
    while any(rank.poll() is None for rank in ranks) and not any(rank.poll() for rank in ranks):
        time.sleep(0.02)
    failed = [rank.poll() for rank in ranks if rank.poll()]
    for rank in ranks:
        if rank.poll() is None:
            rank.terminate()
    for rank in ranks:
        rank.wait()
    sys.exit(abs(failed[0]) if failed else 0)


def main():
    args = parse_arguments()
    if args.spawn:
        spawn(args)
    mine = args.rank == args.fault_rank
    if args.fault == "never" and mine:
        time.sleep(3600)
    if args.fault == "garbage" and mine:
        write_garbage()
    import torch
    train(args, torch)


if __name__ == "__main__":
    main()
