"""Finds CUDA's libraries on the machine; the bundle contains all others. Loads nothing."""
import glob
import os
import re
import site
import subprocess
import sys

# Loaded by name at run time, by CUDA's own libraries or by ours. Used if present; optional.
AT_RUN_TIME = ("libnvrtc.so", "libnvidia-ml.so.1")
DRIVER = "libcuda.so.1"


def loader_cache(command=("ldconfig", "-p")):
    """Returns {name: path} of libraries that the dynamic loader knows; empty if there is no
    ldconfig."""
    for program in (command[0], "/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            text = subprocess.run([program, *command[1:]], capture_output=True, text=True,
                                  timeout=10).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        return {
            name: path for name, path in re.findall(
                r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", text, re.MULTILINE)}
    return {}


def site_packages(python=None):
    """Returns the package directories of this interpreter, or of the interpreter `python`."""
    if python is None:
        return [*dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()])]
    try:
        text = subprocess.run([python, "-c", "import sys; print('\\n'.join(sys.path))"],
                              capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return text.split("\n")


def directories(environment, packages, roots=("/usr/local/cuda*", "/opt/cuda*")):
    """Returns directories that may contain CUDA's libraries, the most likely first."""
    found = [path for path in environment.get("LD_LIBRARY_PATH", "").split(":") if path]
    for root in roots:
        for ending in ("lib64", "lib", "targets/x86_64-linux/lib"):
            found += sorted(glob.glob(os.path.join(root, ending)), reverse=True)
    found += ["/usr/local/nvidia/lib64", "/usr/local/nvidia/lib"]
    for package in packages:
        if package:
            found += sorted(glob.glob(os.path.join(package, "nvidia", "*", "lib")))
            found += glob.glob(os.path.join(package, "torch", "lib"))
    return [path for path in dict.fromkeys(found) if os.path.isdir(path)]


def find(needed, cache, places):
    """Returns ({name: path}, [names not found], [directories for LD_LIBRARY_PATH]). A name may be a
    prefix of a versioned name."""
    found, missing, path = {}, [], []
    for name in needed:
        for place in places:
            matches = sorted(glob.glob(os.path.join(place, name))) or sorted(
                glob.glob(os.path.join(place, name + ".*")))
            if matches:
                found[name] = matches[0]
                path.append(place)
                break
        else:
            known = cache.get(name) or next((cache[other] for other in sorted(cache)
                                             if other.startswith(name + ".")), None)
            if known:
                found[name] = known
            else:
                missing.append(name)
    return found, missing, [*dict.fromkeys(path)]
