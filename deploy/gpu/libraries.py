"""Finds the libraries of CUDA that the machine has: the bundle brings all others. Nothing is loaded here."""
import glob
import os
import re
import site
import subprocess
import sys

# Loaded by name at run time, by CUDA's own libraries or by ours: useful where they are, and no fault where they are not.
AT_RUN_TIME = ("libnvrtc.so", "libnvidia-ml.so.1")
DRIVER = "libcuda.so.1"


def loader_cache(command=("ldconfig", "-p")):
    """{name: path} of what the dynamic loader finds by itself; empty where there is no ldconfig."""
    for program in (command[0], "/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            text = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=10).stdout
        except (OSError, subprocess.TimeoutExpired):
            continue
        return {name: path for name, path in re.findall(r"^\s*(\S+) \(.*x86-64.*\) => (\S+)$", text, re.MULTILINE)}
    return {}


def site_packages(python=None):
    """Where the interpreter keeps its packages; `python` another one than this."""
    if python is None:
        return [*dict.fromkeys([*sys.path, *site.getsitepackages(), site.getusersitepackages()])]
    try:
        text = subprocess.run([python, "-c", "import sys; print('\\n'.join(sys.path))"], capture_output=True, text=True, timeout=20).stdout
    except (OSError, subprocess.TimeoutExpired):
        return []
    return text.split("\n")


def directories(environment, packages, roots=("/usr/local/cuda*", "/opt/cuda*")):
    """Where CUDA's libraries may lie, the likeliest first."""
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
    """({name: path}, [names not found], [directories for LD_LIBRARY_PATH]). A name may be the beginning of a versioned one."""
    found, missing, path = {}, [], []
    for name in needed:
        for place in places:
            matches = sorted(glob.glob(os.path.join(place, name))) or sorted(glob.glob(os.path.join(place, name + ".*")))
            if matches:
                found[name] = matches[0]
                path.append(place)
                break
        else:
            known = cache.get(name) or next((cache[other] for other in sorted(cache) if other.startswith(name + ".")), None)
            if known:
                found[name] = known
            else:
                missing.append(name)
    return found, missing, [*dict.fromkeys(path)]
