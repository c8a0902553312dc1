"""Tests which errors bench/gpu_step_torch.py treats as "does not fit", so that gpu_check halves the micro
batch for both sides. Replaces PyTorch by a stub."""
import contextlib
import importlib.util
import io
import sys
import types
import unittest
from unittest import mock

import fake_bundle


class OutOfMemory(RuntimeError):
    pass


def stand_in():
    """Returns the modules that the script imports, as far as the tests use them."""
    torch, nn, functional = types.ModuleType("torch"), types.ModuleType("torch.nn"), types.ModuleType("torch.nn.functional")
    nn.Module, nn.functional, torch.nn = object, functional, nn
    torch.cuda = types.SimpleNamespace(OutOfMemoryError=OutOfMemory, empty_cache=lambda: None)
    torch.device = lambda _: contextlib.nullcontext()
    torch.manual_seed = torch.set_float32_matmul_precision = lambda _: None
    torch._dynamo = types.SimpleNamespace(reset=lambda: None)
    return {"torch": torch, "torch.nn": nn, "torch.nn.functional": functional}


def caused_by(error):
    """Wraps an error as the compiler does."""
    wrapped = RuntimeError("backend failed")
    wrapped.__cause__ = error
    return wrapped


TOO_LARGE = (OutOfMemory("CUDA out of memory. Tried to allocate 2 GiB"), caused_by(OutOfMemory("tried to allocate")),
             RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"), RuntimeError("CUDA error: out of memory"))


class DoesNotFit(unittest.TestCase):
    def setUp(self):
        modules = mock.patch.dict(sys.modules, stand_in())
        modules.start()
        self.addCleanup(modules.stop)
        spec = importlib.util.spec_from_file_location("gpu_step_torch", fake_bundle.SOURCE / "bench" / "gpu_step_torch.py")
        self.script = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(self.script)

    def run_main(self, error):
        """Returns (exit code or uncaught error, output)."""
        model = fake_bundle.SOURCE / "search" / "data" / "models" / "gpt2-1.5b.json"
        said = io.StringIO()
        arguments = ["gpu_step_torch.py", "--model", str(model), "--seq-len", "8", "--micro-batch", "2"]
        with mock.patch.object(sys, "argv", arguments), contextlib.redirect_stderr(said), mock.patch.object(self.script, "run", mock.Mock(side_effect=error)):
            try:
                self.script.main()
            except SystemExit as end:
                return end.code, said.getvalue()
            except RuntimeError as through:
                return through, said.getvalue()
        return 0, said.getvalue()

    def test_every_way_to_run_out_of_memory_is_the_same_answer(self):
        for error in TOO_LARGE:
            code, said = self.run_main(error)
            self.assertEqual((code, said.splitlines()), (3, [f"gpu_step_torch: does not fit: {error}"]))

    def test_other_errors_are_not_out_of_memory(self):
        for error in (RuntimeError("CUDA error: an illegal memory access was encountered"), caused_by(ValueError("no"))):
            self.assertEqual(self.run_main(error), (error, ""))

    def test_a_compiler_that_runs_out_of_memory_has_not_failed_to_compile(self):
        for error in TOO_LARGE:
            with mock.patch.object(self.script, "Model", mock.Mock()), self.assertRaises(RuntimeError) as raised:
                self.script.compiled_model(None, "model", mock.Mock(side_effect=error))
            self.assertIs(raised.exception, error)
        with mock.patch.object(self.script, "Model", mock.Mock()), contextlib.redirect_stderr(io.StringIO()):
            _, compiled, why = self.script.compiled_model(None, "model", mock.Mock(side_effect=RuntimeError("no C compiler")))
        self.assertEqual((compiled, why), ("none", "RuntimeError: no C compiler"))


if __name__ == "__main__":
    unittest.main()
