"""No kernel is launched with more threads a block than its __launch_bounds__ allow, which a GPU would refuse. The bounds are in
tests/golden/kernel_resources.txt, from the machine code; the launches are those of the tests of the kernels on the emulator.

usage: launch_bounds.py LAUNCHES

LAUNCHES: what tests/cuda_emulated_test wrote, to the file that AUTOCFG_EMULATED_LAUNCHES names. ctest runs it first.
"""
import pathlib
import sys

import kernel_resources

THREADS = 3  # the place of the bound among a kernel's figures


def fail(text):
    print(f"launch_bounds: {text}", file=sys.stderr)
    sys.exit(1)


def kernels_of(library):
    """{offset in the library: demangled name}."""
    named = kernel_resources.output_of(["nm", "--demangle", "--defined-only", library])
    found = {}
    for line in named.splitlines():
        offset, _, name = line.split(" ", 2)
        found[int(offset, 16)] = name
    return found


def comparable(name):
    """A kernel's name without its result's type, which is not in every demangled name."""
    return name.removeprefix("void ")


def launched(lines, kernels=kernels_of):
    """{kernel: most threads a block}."""
    libraries, most = {}, {}
    for line in lines:
        library, offset, threads = line.rsplit(" ", 2)
        if library not in libraries:
            libraries[library] = kernels(library)
        name = libraries[library].get(int(offset, 16), f"{library}+{offset}")
        most[comparable(name)] = max(most.get(comparable(name), 0), int(threads))
    return most


def problems(launches, golden):
    """What is wrong, one line a kernel."""
    bounds = {comparable(kernel): min(int(sizes.split()[THREADS]) for sizes in by.values()) for kernel, by in golden.items()}
    found = []
    for kernel, threads in sorted(launches.items()):
        if kernel not in bounds:
            found.append(f"{kernel}: launched, but no kernel of the golden file")
        elif threads > bounds[kernel]:
            found.append(f"{kernel}: launched with {threads} threads a block; its bound is {bounds[kernel]}")
    return found + [f"{kernel}: never launched" for kernel in sorted(bounds.keys() - launches.keys())]


def main():
    if len(sys.argv) != 2:
        fail("usage: launch_bounds.py LAUNCHES")
    file = pathlib.Path(sys.argv[1])
    if not file.is_file():
        fail(f"{file}: not found; cuda_emulated_test writes it when AUTOCFG_EMULATED_LAUNCHES names it")
    launches = launched(file.read_text(encoding="utf-8").splitlines())
    golden, _ = kernel_resources.parse(kernel_resources.GOLDEN.read_text(encoding="utf-8"))
    if found := problems(launches, golden):
        fail(f"{len(found)} kernels:\n" + "\n".join(found))
    print(f"launch_bounds: {len(launches)} kernels are launched within their bounds")


if __name__ == "__main__":
    main()
