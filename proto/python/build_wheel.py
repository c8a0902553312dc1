#!/usr/bin/env python3
"""Builds the wheel of the Python package: generates the messages and stubs from the .proto files beside this directory, and packs them
with autocfg/. Needs protoc, its plugin for gRPC, pip, setuptools and wheel, no network.

The CMake target python_wheel runs it. Exit status: 0 done; 1 a tool failed or is missing; 2 wrong usage.
"""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PROTOS = HERE.parent
# The oldest runtime that can load what protoc generates, unless the generated code names another one.
OLDEST_PROTOBUF = "4.21"
PROJECT = """\
[build-system]
requires = ["setuptools>=61", "wheel"]
build-backend = "setuptools.build_meta"

[project]
name = "autocfg"
version = "{version}"
description = "Client of an autocfg coordinator: the fastest way of splitting LLM training"
requires-python = ">=3.10"
dependencies = ["grpcio>=1.51", "protobuf>={protobuf}"]

[tool.setuptools]
packages = ["autocfg", "autocfg.v1"]

[tool.setuptools.package-data]
autocfg = ["py.typed", "v1/*.pyi"]
"""


def fail(text):
    print(f"autocfg: build_wheel: {text}", file=sys.stderr)
    sys.exit(1)


def run(command, **options):
    try:
        done = subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **options)
    except FileNotFoundError:
        fail(f"{command[0]} is missing; install protobuf-compiler")
    if done.returncode != 0:
        fail(f"{command[0]} failed: {done.stdout.strip()}")


def version_in(text):
    """The version in the header of the build's identity, which cmake/BuildId.cmake writes."""
    found = re.search(r'^#define AUTOCFG_VERSION "([0-9.]+)"$', text, re.M)
    if not found:
        fail("the build's identity names no version; build autocfg first")
    return found.group(1)


def oldest_protobuf(generated):
    """Newer generated code refuses a runtime that is older than its protoc, and says so in its head."""
    found = [re.search(r"^# Protobuf Python Version: (\d+\.\d+)", path.read_text(encoding="utf-8"), re.M) for path in generated]
    return next((one.group(1) for one in found if one), OLDEST_PROTOBUF)


def main():
    parser = argparse.ArgumentParser(description="Builds the wheel of the Python package.")
    parser.add_argument("--output", required=True, type=pathlib.Path, help="the directory for the wheel; older wheels in it are removed")
    parser.add_argument("--build-id", required=True, type=pathlib.Path, help="build_id_generated.h of the build, which has the version")
    parser.add_argument("--protoc", default="protoc")
    parser.add_argument("--plugin", default=shutil.which("grpc_python_plugin"), help="grpc_python_plugin")
    arguments = parser.parse_args()
    if not arguments.plugin:
        fail("grpc_python_plugin is missing; install protobuf-compiler-grpc")
    version = version_in(arguments.build_id.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="autocfg_wheel_") as scratch:
        tree = pathlib.Path(scratch)
        package = tree / "autocfg"
        shutil.copytree(HERE / "autocfg", package, ignore=shutil.ignore_patterns("__pycache__"))
        run([arguments.protoc, "-I", PROTOS, f"--python_out={tree}", f"--pyi_out={tree}", f"--grpc_python_out={tree}",
             f"--plugin=protoc-gen-grpc_python={arguments.plugin}", *sorted((PROTOS / "autocfg" / "v1").glob("*.proto"))])
        (package / "v1" / "__init__.py").write_text('"""Generated from the .proto files of autocfg.v1: messages and stubs."""\n', encoding="utf-8")
        (package / "version.py").write_text(f'"""The version of autocfg that this package was built with."""\n__version__ = "{version}"\n',
                                            encoding="utf-8")
        shutil.copy(PROTOS.parent / "LICENSE", tree)
        needed = oldest_protobuf(sorted((package / "v1").glob("*_pb2.py")))
        (tree / "pyproject.toml").write_text(PROJECT.format(version=version, protobuf=needed), encoding="utf-8")
        wheels = tree / "wheels"
        run([sys.executable, "-m", "pip", "wheel", "--no-build-isolation", "--no-deps", "--no-index", "--quiet",
             "--disable-pip-version-check", "--wheel-dir", wheels, tree], cwd=tree)
        arguments.output.mkdir(parents=True, exist_ok=True)
        for old in arguments.output.glob("autocfg-*.whl"):
            old.unlink()
        for wheel in wheels.glob("autocfg-*.whl"):
            shutil.copy(wheel, arguments.output)
            print(arguments.output / wheel.name)


if __name__ == "__main__":
    main()
