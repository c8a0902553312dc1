"""Loads CUDA's libraries as the engine's programs find them, and prints {library: {"version",
"path"} or why not} as JSON. A program of its own, because a library that is broken may end the
process."""
import ctypes
import json
import sys


def by_pointer(function):
    """Asks a function that returns a status and writes the version to an int."""
    value = ctypes.c_int()
    status = function(ctypes.byref(value))
    if status != 0:
        raise OSError(f"status {status}")
    return value.value


def by_value(function):
    """Asks a function that returns the version."""
    function.restype = ctypes.c_size_t
    return function()


# name: (functions that know its version, how they are asked)
ASKED = {
    "libcuda.so": ("cuDriverGetVersion", by_pointer),
    "libcudart.so": ("cudaRuntimeGetVersion", by_pointer),
    "libcublasLt.so": ("cublasLtGetVersion", by_value),
    "libcudnn.so": ("cudnnGetVersion", by_value),
    "libnccl.so": ("ncclGetVersion", by_pointer),
}


def path_of(name):
    """Returns the file that is loaded under this name."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split(maxsplit=5)[5:]
            if path and path[0].strip().rsplit("/", 1)[-1].startswith(name):
                return path[0].strip()
    return "unknown"


def asked(name):
    """Returns the entry of a library, by the name of its file, e.g. "libnccl.so.2"."""
    known = next((entry for prefix, entry in ASKED.items() if name.startswith(prefix)), None)
    try:
        library = ctypes.CDLL(name)
        version = known[1](getattr(library, known[0])) if known else "not asked"
    except (OSError, AttributeError) as error:
        return {"not_loaded": " ".join(str(error).split())}
    return {"version": version, "path": path_of(name)}


if __name__ == "__main__":
    json.dump({name: asked(name) for name in sys.argv[1:]}, sys.stdout)
