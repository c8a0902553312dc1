#!/usr/bin/env python3
"""Lists all options of a training framework, with their kinds, from a checkout of its sources.

    bench/framework_options.py megatron CHECKOUT REVISION... > tests/search/frameworks/options/megatron.txt

A kind is flag, value or list. tests/search/frameworks/option_lists_test.cc proves that autocfg reads, refuses
or knows each of them.
"""
import argparse
import ast
import subprocess
import sys

import yaml


# Constants of DeepSpeed that name values, or keys within an object.
NO_KEYS = {"attention", "dtype", "mode", "params", "type", "activation_checkpointing.activation_checkpointing",
           "lower_precision_safe_modules"}


class Sources:
    """Files of a revision."""

    def __init__(self, checkout, revision):
        self.checkout, self.revision = checkout, revision

    def names(self, under):
        listed = subprocess.run(["git", "-C", self.checkout, "ls-tree", "-r", "--name-only", self.revision, under],
                                check=True, capture_output=True, text=True)
        return listed.stdout.split()

    def text(self, path):
        shown = subprocess.run(["git", "-C", self.checkout, "show", f"{self.revision}:{path}"], capture_output=True,
                               text=True, check=False)
        return shown.stdout if shown.returncode == 0 else ""

    def tree(self, path):
        return ast.parse(self.text(path))


def constant(node):
    return node.value if isinstance(node, ast.Constant) else None


def kind_of_type(annotation):
    text = ast.unparse(annotation) if annotation else ""
    if text.replace("Optional[", "").rstrip("]") == "bool":
        return "flag"
    return "list" if "list[" in text.lower() or "tuple[" in text.lower() else "value"


def fields_of(name, classes):
    """Returns (field, annotation, default) of a dataclass and of those that it inherits from."""
    if name not in classes:
        return []
    fields = []
    for base in classes[name].bases:
        fields += fields_of(ast.unparse(base).split(".")[-1], classes)
    for node in classes[name].body:
        if isinstance(node, ast.AnnAssign) and not ast.unparse(node.annotation).startswith("ClassVar"):
            fields.append((node.target.id, node.annotation, node.value))
    return fields


def classes_of(sources, paths):
    classes = {}
    for path in paths:
        for node in ast.walk(sources.tree(path)):
            if isinstance(node, ast.ClassDef):
                classes.setdefault(node.name, node)
    return classes


def default_of(value):
    if isinstance(value, ast.Call):
        for keyword in value.keywords:
            if keyword.arg == "default":
                return constant(keyword.value)
        return None
    return constant(value) if value else None


def names_in_metadata(value):
    """Returns the names that a field's argparse_meta gives its option."""
    for node in ast.walk(value) if value else []:
        if isinstance(node, ast.Dict):
            for key, item in zip(node.keys, node.values):
                if constant(key) == "arg_names" and isinstance(item, ast.List):
                    return [constant(name) for name in item.elts]
    return []


def megatron(sources):
    """Arguments of megatron/training/arguments.py; newer revisions make some of fields of dataclasses."""
    tree, options = sources.tree("megatron/training/arguments.py"), {}
    places = sources.names("megatron/training") + sources.names("megatron/core")
    classes = None
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = ast.unparse(node.func)
        if called.endswith("add_argument"):
            words = {keyword.arg: constant(keyword.value) for keyword in node.keywords}
            flag = str(words.get("action", "")).startswith("store_")
            kind = "flag" if flag else "list" if words.get("nargs") in ("*", "+") else "value"
            for name in map(constant, node.args):
                if isinstance(name, str) and name.startswith("--"):
                    options[name] = kind
        elif called == "ArgumentGroupFactory":
            if classes is None:
                classes = classes_of(sources, [path for path in places if path.endswith("config.py")])
            excluded = {constant(name) for keyword in node.keywords if keyword.arg == "exclude"
                        and isinstance(keyword.value, ast.List) for name in keyword.value.elts}
            for field, annotation, value in fields_of(ast.unparse(node.args[0]), classes):
                if field in excluded:
                    continue
                kind, dashed = kind_of_type(annotation), field.replace("_", "-")
                negated = kind == "flag" and default_of(value) is True
                names = [f"--no-{dashed}", f"--disable-{dashed}"] if negated else [f"--{dashed}"]
                for name in names_in_metadata(value) or names:
                    options[name] = kind
    return options


def torchtitan(sources):
    """Fields of JobConfig's sections."""
    classes = classes_of(sources, ["torchtitan/config/job_config.py"])

    def add(prefix, name, options):
        for field, annotation, _ in fields_of(name, classes):
            inner = ast.unparse(annotation)
            if inner in classes:
                add(f"{prefix}{field}.", inner, options)
            else:
                options[f"{prefix}{field}"] = kind_of_type(annotation)
        return options

    return add("", "JobConfig", {})


def nemo(sources):
    """Leaves of its example configuration of GPT."""
    options = {}

    def add(prefix, value):
        for key, inner in value.items():
            if isinstance(inner, dict) and inner:
                add(f"{prefix}{key}.", inner)
            else:
                kind = "flag" if isinstance(inner, bool) else "list" if isinstance(inner, list) else "value"
                options[f"{prefix}{key}"] = kind

    for name in ("megatron_gpt_config.yaml", "megatron_llama_config.yaml"):
        text = sources.text(f"examples/nlp/language_modeling/conf/{name}")
        if text:
            add("", yaml.safe_load(text))
    return options


def deepspeed(sources):
    """Keys that its configuration names (runtime/constants.py) and fields of its pydantic models."""
    sections = {"deepspeed/runtime/zero/config.py": {"DeepSpeedZeroConfig": "zero_optimization."},
                "deepspeed/runtime/zero/offload_config.py": {
                    "DeepSpeedZeroOffloadParamConfig": "zero_optimization.offload_param.",
                    "DeepSpeedZeroOffloadOptimizerConfig": "zero_optimization.offload_optimizer."},
                "deepspeed/runtime/precision_config.py": {"DeepSpeedFP16Config": "fp16.", "DeepSpeedBF16Config": "bf16."},
                "deepspeed/comm/config.py": {"CommsConfig": "comms_logger."},
                "deepspeed/monitor/config.py": {"TensorBoardConfig": "tensorboard.", "WandbConfig": "wandb.",
                                                "CSVConfig": "csv_monitor.", "CometConfig": "comet."},
                "deepspeed/profiling/config.py": {"DeepSpeedFlopsProfilerConfig": "flops_profiler."},
                "deepspeed/runtime/tensor_parallel/config.py": {"TPTrainingConfig": "tensor_parallel."},
                "deepspeed/compile/config.py": {"CompileConfig": "compile."}}
    options = {}
    for path, names in sections.items():
        classes = classes_of(sources, [path]) if sources.text(path) else {}
        for name, prefix in names.items():
            for field, annotation, _ in fields_of(name, classes):
                if not field.startswith("model_"):
                    options[prefix + field] = kind_of_type(annotation)
    for path, prefix in (("deepspeed/runtime/constants.py", ""),
                         ("deepspeed/runtime/activation_checkpointing/config.py", "activation_checkpointing.")):
        named = {node.targets[0].id: constant(node.value) for node in ast.walk(sources.tree(path))
                 if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)}
        used = " ".join((sources.text("deepspeed/runtime/config.py") + (sources.text(path) if prefix else "")).split())
        for name, value in named.items():
            key = isinstance(value, str) and value.replace("_", "").isalnum() and value == value.lower()
            whole = f"param_dict, {name}" in used or f"param_dict.keys(): {name}" in used or \
                f"{name} in param_dict" in used or f"act_chkpt_config_dict, {name}" in used
            if key and prefix + value not in NO_KEYS and (whole or (prefix and f"{name}_DEFAULT" in named)):
                options[prefix + value] = "value"
    return options


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    frameworks = {"megatron": megatron, "torchtitan": torchtitan, "nemo": nemo, "deepspeed": deepspeed}
    parser.add_argument("framework", choices=frameworks)
    parser.add_argument("checkout")
    parser.add_argument("revisions", nargs="+")
    args = parser.parse_args()
    options = {}
    for revision in args.revisions:
        options |= frameworks[args.framework](Sources(args.checkout, revision))
    print(f"# Options of {args.framework}, from its sources at {', '.join(args.revisions)}, by "
          "bench/framework_options.py.")
    for name, kind in sorted(options.items()):
        print(name, kind)


if __name__ == "__main__":
    sys.exit(main())
