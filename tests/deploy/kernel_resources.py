"""Compares the registers, stack, spills, static shared memory and launch bounds of every GPU kernel with tests/golden/kernel_resources.txt, for each
architecture of the build. A kernel that begins to spill, or whose registers change, fails.

usage: kernel_resources.py BUILD_DIRECTORY [--update]

Reads the compile commands of a build with the CUDA engine, and runs them again as far as ptxas. Needs no GPU. --update writes the
file from what was found: look at the difference, and say in the commit why more is worth it. Another version of the compiler than the
file's allocates registers differently: the test is then skipped (exit status 77).
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "kernel_resources.txt"
SKIPPED = 77
# What ptxas -v says of a kernel: its name, then its frame, then the rest.
ENTRY = re.compile(r"Compiling entry function '(\w+)' for '(\w+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
# Of the machine code: the section of a kernel's properties, one of which is the bound on its threads a block.
PROPERTIES, MOST_THREADS, SIZED = ".nv.info.", 0x05, 0x04
NO_BOUND = 1024  # what every GPU allows


def fail(text):
    print(f"kernel_resources: {text}", file=sys.stderr)
    sys.exit(1)


def output_of(command, cwd=None, text=None):
    done = subprocess.run(command, cwd=cwd, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        fail(f"{shlex.join(command)}: status {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def compilations(build):
    """Of each source with kernels: (directory, command without its architectures and its output, architectures)."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        codes = [re.search(r"code=\[?(sm_\w+)", word) for word in words if word.startswith("--generate-code=")]
        if not entry["file"].endswith(".cu") or not codes:  # also those that the emulator compiles as C++
            continue
        kept = [word for word in words if not word.startswith("--generate-code=")]
        at = kept.index("-o")
        del kept[at:at + 2]
        kept.remove("-c")
        found.append((entry["directory"], kept, [code[1] for code in codes]))
    if not found:
        fail(f"{build}: no source of the CUDA engine is compiled there; configure it with -DAUTOCFG_CUDA=ON")
    return found


def compiler_version(command):
    nvcc = next(word for word in command if os.path.basename(word) == "nvcc")
    return re.search(r"release (\d+\.\d+)", output_of([nvcc, "--version"]))[1]


def sections_of(elf):
    """Yields (name, contents) of a 64-bit little-endian ELF file."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, offset + index * size) for index in range(count)]
    for head in heads:
        begin = heads[names][4] + head[0]
        yield elf[begin:elf.index(b"\0", begin)].decode(), elf[head[4]:head[4] + head[5]]


def launch_bounds(cubin):
    """{mangled name: most threads a block} of the kernels that have a bound. A property is a byte for its format, one for its kind,
    and two for its value, or for the size of the value that follows."""
    found = {}
    for name, contents in sections_of(cubin):
        at = 0
        while name.startswith(PROPERTIES) and at < len(contents):
            layout, kind, value = struct.unpack_from("<BBH", contents, at)
            at += 4
            if layout == SIZED:
                if kind == MOST_THREADS:
                    found[name.removeprefix(PROPERTIES)] = math.prod(struct.unpack_from("<III", contents, at))
                at += value
    return found


def resources_of(directory, command, architecture):
    """{(mangled name, architecture): "registers stack spill-stores spill-loads shared threads"}."""
    with tempfile.TemporaryDirectory() as scratch:
        cubin = pathlib.Path(scratch) / "cubin"
        said = output_of(command + ["-cubin", "-arch=" + architecture, "-Xptxas=-v", "-o", str(cubin)], cwd=directory)
        bounds = launch_bounds(cubin.read_bytes())
    found, name = {}, None
    for line in said.splitlines():
        if entry := ENTRY.search(line):
            name, frame = entry.groups(), None
        elif name and (sizes := FRAME.search(line)) and frame is None:
            frame = sizes.groups()
        elif name and (used := USED.search(line)):
            shared = SHARED.search(line)
            found[name] = " ".join([used[1], *frame, shared[1] if shared else "0", str(bounds.get(name[0], NO_BOUND))])
            name = None
    return found


def all_resources(build):
    work = [(directory, command, architecture) for directory, command, architectures in compilations(build) for architecture in architectures]
    found = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for part in pool.map(lambda task: resources_of(*task), work):
            found.update(part)
    mangled = sorted({name for name, _ in found})
    readable = dict(zip(mangled, output_of(["c++filt"], text="\n".join(mangled)).splitlines()))
    by_kernel = {}
    for (name, architecture), sizes in found.items():
        by_kernel.setdefault(readable[name], {})[architecture] = sizes
    return by_kernel, compiler_version(work[0][1])


def text_of(by_kernel, version):
    lines = ["# Written by tests/deploy/kernel_resources.py --update.", f"# CUDA {version}",
             "# kernel, and for each architecture: registers, then bytes of stack, spill stores, spill loads, static shared memory, and the most threads of a block"]
    for kernel in sorted(by_kernel):
        lines.append(kernel)
        lines += [f"  {architecture}: {sizes}" for architecture, sizes in sorted(by_kernel[kernel].items())]
    return "\n".join(lines) + "\n"


def parse(text):
    by_kernel, version, kernel = {}, "", ""
    for line in text.splitlines():
        if line.startswith("# CUDA "):
            version = line.removeprefix("# CUDA ")
        elif line.startswith("  "):
            architecture, sizes = line.strip().split(": ")
            by_kernel[kernel][architecture] = sizes
        elif not line.startswith("#"):
            kernel = line
            by_kernel[kernel] = {}
    return by_kernel, version


def differences(known, found):
    said = []
    for kernel in sorted(known.keys() | found.keys()):
        before, now = known.get(kernel, {}), found.get(kernel, {})
        for architecture in sorted(before.keys() | now.keys()):
            one, other = before.get(architecture, "absent"), now.get(architecture, "absent")
            if one != other:
                said.append(f"{architecture}: {kernel}: {one} -> {other}")
    return said


def main():
    parser = argparse.ArgumentParser(description="Compares what GPU kernels use with tests/golden/kernel_resources.txt.")
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--update", action="store_true", help="write the file")
    arguments = parser.parse_args()
    found, version = all_resources(arguments.build)
    if arguments.update:
        GOLDEN.write_text(text_of(found, version), encoding="utf-8")
        return
    known, known_version = parse(GOLDEN.read_text(encoding="utf-8"))
    if version != known_version:
        print(f"kernel_resources: skipped: this is CUDA {version}, and the figures are of CUDA {known_version}")
        sys.exit(SKIPPED)
    built = {architecture for sizes in found.values() for architecture in sizes}
    known = {kernel: {a: sizes for a, sizes in by.items() if a in built} for kernel, by in known.items()}
    if changed := differences(known, found):
        fail("kernels use other resources than before (registers, bytes of stack, spill stores, spill loads, shared memory, threads of a block):\n"
             + "\n".join(changed) + "\nIf that is intended, repeat it with --update.")
    print(f"kernel_resources: {sum(len(by) for by in found.values())} kernels are as before")


if __name__ == "__main__":
    main()
