"""Installs the wheel of the build into a virtual environment."""

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from services import BIN

WHEELS = os.path.join(os.path.dirname(BIN), "python")


def install(at_end):
    """Returns the Python of the environment, which `at_end` (as addCleanup) removes. SkipTest where the build has no wheel."""
    wheels = [name for name in os.listdir(WHEELS) if name.endswith(".whl")] if os.path.isdir(WHEELS) else []
    if not wheels:
        raise unittest.SkipTest("the build has no wheel (the target python_wheel)")
    if len(wheels) != 1:
        raise AssertionError(f"the build has several wheels: {wheels}")
    home = tempfile.mkdtemp(prefix="autocfg_venv_")
    at_end(shutil.rmtree, home)
    # gRPC is the system's, so that nothing is downloaded.
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", home], check=True)
    python = os.path.join(home, "bin", "python")
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--disable-pip-version-check",
                    os.path.join(WHEELS, wheels[0])], check=True)
    return python


def imported(python, at_end):
    """Returns the package of the environment, imported into this process."""
    home = os.path.dirname(os.path.dirname(python))
    found = subprocess.run([python, "-c", "import autocfg, os; print(os.path.dirname(autocfg.__path__[0]))"], check=True,
                           capture_output=True, text=True, cwd=home)
    site = found.stdout.strip()
    assert site.startswith(home), site
    sys.path.insert(0, site)
    at_end(sys.path.remove, site)
    at_end(_forget)
    return importlib.import_module("autocfg")


def _forget():
    """Lets the next module import the package from an environment of its own."""
    for name in [name for name in sys.modules if name == "autocfg" or name.startswith("autocfg.")]:
        del sys.modules[name]
