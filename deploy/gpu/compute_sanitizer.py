"""NVIDIA's compute-sanitizer: where it is installed, and how it is asked for errors of our own
kernels alone, or of every kernel. Failing calls of the CUDA API are left out: libraries probe the
driver, and our own code checks every call."""
import glob
import os
import shutil

PLACES = ("/usr/local/cuda*/bin/compute-sanitizer",
          "/usr/local/cuda*/compute-sanitizer/compute-sanitizer", "/opt/nvidia/*/compute-sanitizer")
EVERY = ("--report-api-errors", "no")
OURS = ("--kernel-name", "kns=autocfg", *EVERY)  # kernels in our namespace


def find():
    """Returns its path, or None."""
    found = shutil.which("compute-sanitizer")
    return found or next((path for place in PLACES
                          for path in sorted(glob.glob(place), reverse=True)
                          if os.access(path, os.X_OK)), None)
