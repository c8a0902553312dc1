"""Compares the registers, stack, static shared memory and launch bounds of every GPU kernel with tests/golden/kernel_resources.txt, for each
architecture of the build. A kernel that begins to spill (spilled registers are on its stack), or whose registers change, fails.

usage: kernel_resources.py BUILD_DIRECTORY [--update]

Reads the machine code in the objects of a build with the CUDA engine. Needs no GPU. --update writes the file from what was found: look
at the difference, and say in the commit why more is worth it. Another version of the compiler than the file's allocates registers
differently: the test is then skipped (exit status 77).
"""
import argparse
import json
import math
import os
import pathlib
import re
import shlex
import struct
import subprocess
import sys

GOLDEN = pathlib.Path(__file__).resolve().parent.parent / "golden" / "kernel_resources.txt"
SKIPPED = 77
# nvcc puts the code of all architectures of a source into one section of its object: a header of 16 bytes, then for each architecture a
# header, whose fields are its kind, its own size, the size of what follows, and the architecture, and a cubin, which is an ELF file.
FAT_BINARY, FAT_HEADER, IS_CUBIN = ".nv_fatbin", 16, 2
FAT_MAGIC = 0xBA55ED50
# Sections of a cubin: the code of a kernel, its static shared memory, if any, and its properties (of all kernels where no name follows).
CODE, SHARED, PROPERTIES = ".text.", ".nv.shared.", ".nv.info"
RESERVED = 8  # the type of a section that has no contents in the file
# A property is a byte for its format, one for its kind, and two for its value, or for the size of the value that follows.
SIZED, MOST_THREADS, FRAME, REGISTERS = 0x04, 0x05, 0x11, 0x2F
NO_BOUND = 1024  # what every GPU allows
DRIVERS = 1024  # bytes of shared memory that the driver reserves from sm_90 on, and that the size of the section includes


def fail(text):
    print(f"kernel_resources: {text}", file=sys.stderr)
    sys.exit(1)


def output_of(command, cwd=None, text=None):
    done = subprocess.run(command, cwd=cwd, input=text, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode != 0:
        fail(f"{shlex.join(command)}: status {done.returncode}: {done.stdout.strip()}")
    return done.stdout


def compilations(build):
    """Of each source with kernels: (object, nvcc, {number of an architecture: its name})."""
    found = []
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        words = shlex.split(entry["command"])
        codes = [re.search(r"code=\[?sm_((\d+)\w*)", word) for word in words if word.startswith("--generate-code=")]
        if not entry["file"].endswith(".cu") or not codes:  # also those that the emulator compiles as C++
            continue
        compiled = pathlib.Path(entry["directory"]) / words[words.index("-o") + 1]
        if not compiled.is_file():
            fail(f"{compiled}: not built; run `./dev build`")
        nvcc = next(word for word in words if os.path.basename(word) == "nvcc")
        found.append((compiled, nvcc, {int(code[2]): "sm_" + code[1] for code in codes}))
    if not found:
        fail(f"{build}: no source of the CUDA engine is compiled there; configure it with -DAUTOCFG_CUDA=ON")
    return found


def compiler_version(nvcc):
    return re.search(r"release (\d+\.\d+)", output_of([nvcc, "--version"]))[1]


def sections_of(elf):
    """(name, contents, size) of the sections of a 64-bit little-endian ELF file. One that is only reserved has a size and no contents."""
    offset, = struct.unpack_from("<Q", elf, 0x28)
    size, count, names = struct.unpack_from("<HHH", elf, 0x3A)
    heads = [struct.unpack_from("<IIQQQQ", elf, offset + index * size) for index in range(count)]
    found = []
    for head in heads:
        begin = heads[names][4] + head[0]
        found.append((elf[begin:elf.index(b"\0", begin)].decode(), b"" if head[1] == RESERVED else elf[head[4]:head[4] + head[5]], head[5]))
    return found


def cubins_of(compiled):
    """Yields (number of the architecture, cubin) of an object."""
    for name, contents, _ in sections_of(compiled):
        at = 0
        while name == FAT_BINARY and at < len(contents):
            magic, _, _, size = struct.unpack_from("<IHHQ", contents, at)
            if magic != FAT_MAGIC:
                at += 8  # they are aligned
                continue
            at += FAT_HEADER
            end = at + size
            while at < end:
                kind, _, header, size = struct.unpack_from("<HHIQ", contents, at)
                architecture, = struct.unpack_from("<I", contents, at + 28)
                cubin = contents[at + header:at + header + size]
                if kind == IS_CUBIN:
                    if not cubin.startswith(b"\x7fELF"):
                        fail("a cubin is compressed; this reads those of nvcc's default for machine code, which are not")
                    yield architecture, cubin
                at += header + size


def properties_of(contents):
    """Yields (kind, value) of the properties that have a value of their own size."""
    at = 0
    while at < len(contents):
        layout, kind, size = struct.unpack_from("<BBH", contents, at)
        at += 4
        if layout == SIZED:
            yield kind, contents[at:at + size]
            at += size


def resources_of(cubin, architecture):
    """{mangled name: "registers stack shared threads"} of a cubin's kernels."""
    sections = {name: contents for name, contents, _ in sections_of(cubin)}
    reserved = DRIVERS if architecture >= 90 else 0
    shared = {name.removeprefix(SHARED): size - reserved for name, _, size in sections_of(cubin) if name.startswith(SHARED)}
    symbols, names = sections[".symtab"], sections[".strtab"]
    known = {FRAME: {}, REGISTERS: {}}
    for kind, value in properties_of(sections[PROPERTIES]):
        if kind in known:
            symbol, number = struct.unpack("<II", value)
            begin, = struct.unpack_from("<I", symbols, 24 * symbol)
            known[kind][names[begin:names.index(b"\0", begin)].decode()] = number
    found = {}
    for section in sections:
        if not section.startswith(CODE):
            continue
        kernel = section.removeprefix(CODE)
        bounds = [math.prod(struct.unpack("<III", value)) for kind, value in properties_of(sections[f"{PROPERTIES}.{kernel}"]) if kind == MOST_THREADS]
        found[kernel] = f"{known[REGISTERS][kernel]} {known[FRAME][kernel]} {shared.get(kernel, 0)} {bounds[0] if bounds else NO_BOUND}"
    return found


def all_resources(build):
    found, compiled_by = {}, ""
    for compiled, nvcc, architectures in compilations(build):
        compiled_by = nvcc
        for number, cubin in cubins_of(compiled.read_bytes()):
            found.update({(kernel, architectures[number]): sizes for kernel, sizes in resources_of(cubin, number).items()})
    mangled = sorted({name for name, _ in found})
    readable = dict(zip(mangled, output_of(["c++filt"], text="\n".join(mangled)).splitlines()))
    by_kernel = {}
    for (name, architecture), sizes in found.items():
        by_kernel.setdefault(readable[name], {})[architecture] = sizes
    return by_kernel, compiler_version(compiled_by)


def text_of(by_kernel, version):
    lines = ["# Written by tests/deploy/kernel_resources.py --update.", f"# CUDA {version}",
             "# kernel, and for each architecture: registers, then bytes of stack and of static shared memory, and the most threads of a block"]
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
        fail("kernels use other resources than before (registers, bytes of stack and shared memory, threads of a block):\n"
             + "\n".join(changed) + "\nIf that is intended, repeat it with --update.")
    print(f"kernel_resources: {sum(len(by) for by in found.values())} kernels are as before")


if __name__ == "__main__":
    main()
