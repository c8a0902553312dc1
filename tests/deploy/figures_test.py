"""Tests what the sections parse from other programs' output, and what they compute from it."""
import json
import math
import types
import unittest

import fake_bundle  # noqa: F401: the path to deploy/
from gpu import bench_ops, bench_steps, clocks, first_loss, kernel_profile, layouts, ops, rates, sanitizer, step_ops
from gpu.context import worst_relative


class Comparison(unittest.TestCase):
    def test_the_worst_step_counts(self):
        self.assertAlmostEqual(worst_relative([7.0, 6.3], [7.0, 6.0]), 0.05)

    def test_incomparable_values_differ_infinitely(self):
        for measured, reference in (([], []), ([1.0], [1.0, 2.0]), ([None], [1.0]), ([1.0], [None]), ([math.nan], [1.0]), ([math.inf], [1.0]), ([1.0], [0.0])):
            self.assertEqual(worst_relative(measured, reference), math.inf)


class GoogleTest(unittest.TestCase):
    def test_skipped_and_unfinished_tests_did_not_pass(self):
        result = {"testsuites": [{"name": "S", "testsuite": [{"name": "a", "result": "COMPLETED"}, {"name": "b", "result": "SKIPPED"},
                                                             {"name": "c", "result": "COMPLETED", "failures": [{"failure": "x\ny"}]},
                                                             {"name": "d", "result": "SUPPRESSED"}]}]}
        self.assertEqual(ops.outcomes(result), {"S.a": "passed", "S.b": "skipped", "S.c": "failed: x y", "S.d": "not run (SUPPRESSED)"})

    def test_the_crashed_test_is_named(self):
        text = "[ RUN      ] S.a\n[       OK ] S.a (3 ms)\n[ RUN      ] S.b/0\n[  FAILED  ] S.b/0, where GetParam() = x (1 ms)\n[ RUN      ] S.c\n"
        self.assertEqual(ops.started_tests(text), {"S.a": "passed", "S.b/0": "failed", "S.c": "did not end"})


class Sanitizer(unittest.TestCase):
    def test_lists_the_suites_tests(self):
        text = "Gpu.\n  IsThere\nGpu/OpsSuite.\n  Fill/cuda_fp32  # GetParam() = cuda_fp32\n  Fill/cuda_bf16\n"
        own = "Forced/GpuAttention.\n  MatchesTheReference/own  # GetParam() = 4\n  MatchesTheReference/cudnn\n"
        self.assertEqual(sanitizer.tests_of(own), ["Forced/GpuAttention.MatchesTheReference/own"])
        self.assertEqual(sanitizer.tests_of(text), ["Gpu/OpsSuite.Fill/cuda_fp32", "Gpu/OpsSuite.Fill/cuda_bf16"])

    def test_reads_the_summary(self):
        self.assertEqual(sanitizer.errors_in("========= ERROR SUMMARY: 0 errors"), 0)
        self.assertEqual(sanitizer.errors_in("========= RACECHECK SUMMARY: 2 hazards displayed (2 errors, 0 warnings)"), 2)
        self.assertIsNone(sanitizer.errors_in("========= Error: Device not supported"))


class ModelFlops(unittest.TestCase):
    def test_gpt_is_equation_7_of_korthikanti(self):
        model = {"hidden": 1600, "layers": 48, "heads": 25, "vocab": 50257}
        batch, s, h, layers, vocab = 16, 1024, 1600, 48, 50257
        expected = 72 * batch * s * layers * h * h * (1 + s / (6 * h) + vocab / (12 * h * layers))
        self.assertAlmostEqual(rates.model_flops(model, batch * s, s)[0] / expected, 1, places=12)

    def test_llama_counts_grouped_heads_and_three_matrices(self):
        model = {"hidden": 4096, "layers": 8, "heads": 32, "kv_heads": 8, "ffn_hidden": 14336, "vocab": 128256, "activation": "swiglu"}
        tokens, s = 4096, 4096
        weights = 8 * (4096 * (4096 + 2 * 1024) + 4096 * 4096 + 3 * 4096 * 14336) + 4096 * 128256
        full, causal = rates.model_flops(model, tokens, s)
        self.assertAlmostEqual(full / (6 * tokens * weights + 12 * tokens * 8 * s * 4096), 1, places=12)
        self.assertAlmostEqual((full - causal) / (6 * tokens * 8 * s * 4096), 1, places=9)


class Floors(unittest.TestCase):
    def test_by_kind(self):
        attention = rates.floors({"kind": "attention", "batch": 1, "heads": 2, "seq": 4, "head_dim": 8, "kv_heads": 1}, 1.0, 1.0)
        self.assertEqual(attention, {"forward_s": 2.0 * 2 * 16 * 8, "backward_s": 5.0 * 2 * 16 * 8})
        self.assertEqual(rates.floors({"kind": "layer_norm", "tokens": 3, "width": 5}, 1.0, 2.0), {"forward_s": 30.0, "backward_s": 45.0})
        self.assertEqual(rates.floors({"kind": "cross_entropy", "tokens": 3, "vocab": 5}, 1.0, 1.0), {"both_s": 60})
        self.assertEqual(rates.floors({"kind": "adamw", "elements": 10}, 1.0, 1.0), {"step_s": 300})
        self.assertEqual(rates.floors({"kind": "copy", "bytes": 10}, 1.0, 1.0), {})


class FirstLoss(unittest.TestCase):
    def test_is_that_of_initial_weights(self):
        gpt2 = {"vocab": 50257, "hidden": 768}
        self.assertEqual(first_loss.why_wrong(gpt2, 10.9255), "")  # a run of GPT-2 124M on a CPU
        self.assertEqual(first_loss.why_wrong({"vocab": 2000, "hidden": 256}, 7.69), "")  # of llama-check
        for wrong in (0.0, 10.6, 11.6):
            self.assertIn("initial weights give 10.725 to 11.479", first_loss.why_wrong(gpt2, wrong))
        for wrong in (None, float("nan"), float("inf")):
            self.assertIn("not finite", first_loss.why_wrong(gpt2, wrong))


class Targets(unittest.TestCase):
    def test_missed_ones_are_named(self):
        figures = {}
        missed = bench_steps.judge("m", {"ours_over_torch": 1.01, "utilisation": 0.6}, figures)
        self.assertEqual(missed, ["m: step time over PyTorch's"])
        self.assertEqual([target["passed"] for target in figures["targets"]], [False, True])
        self.assertEqual(bench_steps.judge("m", {"utilisation": 0.49}, {}), ["m: model FLOPs over the measured matrix-product rate"])


class Rates(unittest.TestCase):
    """The rate of products that utilisation is measured by."""

    def setUp(self):
        self.context = types.SimpleNamespace(rates={}, rate_of="")
        self.figures = {"rates": {"matmul_flops_per_s": 2e12, "copy_bytes_per_s": 1e12}}

    def test_the_better_of_both_sides_counts(self):
        best = {"matmul_flops_per_s": 3e12, "copy_bytes_per_s": 1e12}
        bench_ops.take_rates(self.context, self.figures, best)
        self.assertEqual((self.context.rates, self.context.rate_of), (best, "matmul_8192, PyTorch's, of bench_ops"))
        bench_ops.take_rates(self.context, self.figures, dict(self.figures["rates"]))
        self.assertEqual((self.context.rates, self.context.rate_of), (self.figures["rates"], "matmul_8192, ours, of bench_ops"))

    def test_an_earlier_calls_rates_are_taken(self):
        bench_ops.take_rates(self.context, self.figures, dict(self.figures["rates"]))
        later = types.SimpleNamespace(rates={}, rate_of="")
        bench_ops.take_kept_rates(later, {})
        self.assertEqual(later.rates, {})
        bench_ops.take_kept_rates(later, json.loads(json.dumps(self.figures)))
        self.assertEqual((later.rates, later.rate_of), (self.context.rates, self.context.rate_of))
        self.assertEqual(bench_ops.measure_rates(later, 0), self.context.rates)


class StepOps(unittest.TestCase):
    RATES = {"matmul_flops_per_s": 100.0, "copy_bytes_per_s": 10.0}

    def test_a_floor_is_that_of_flops_or_of_bytes(self):
        self.assertEqual(step_ops.floor_s({"op": "matmul bf16", "flops": 400.0, "bytes": 20.0}, self.RATES), 4)
        self.assertEqual(step_ops.floor_s({"op": "matmul bf16", "flops": 400.0, "bytes": 50.0}, self.RATES), 5)
        self.assertEqual(step_ops.floor_s({"op": "attention_forward bf16", "flops": 400.0, "bytes": 0.0}, self.RATES), 2, "causal")

    def test_what_takes_most_of_a_step_comes_first(self):
        ops = [{"op": "rope bf16", "flops": 0, "bytes": 20, "times_a_step": 1, "median_s": 4.0}, {"op": "fill", "flops": 0, "bytes": 0, "times_a_step": 1},
               {"op": "swiglu", "flops": 0, "bytes": 10, "times_a_step": 8, "median_s": 1.0}]
        rows = step_ops.table(ops, self.RATES)
        self.assertEqual([(row["op"], row["a_step_s"], row["over_floor"]) for row in rows], [("swiglu", 8, 1), ("rope bf16", 4, 2)])


class KernelProfile(unittest.TestCase):
    COLUMNS = ("ID", "Kernel Name", kernel_profile.TIME, kernel_profile.BYTES, kernel_profile.BUSY, kernel_profile.REGISTERS)

    def text(self, *rows):
        return "\n".join(["==PROF== Connected", *(",".join(f'"{cell}"' for cell in row) for row in (self.COLUMNS, ("", "", "ns", "byte", "%", ""), *rows)),
                          '{"losses": [1.0]}'])

    def test_launches_of_a_kernel_are_added(self):
        found = kernel_profile.by_kernel(self.text(("0", "rope", "1,000", "500", "10.5", "32"), ("1", "gemm", "9000", "100", "90", "168"),
                                                   ("2", "rope", "3000", "1500", "20", "32")))
        self.assertEqual(list(found), ["gemm", "rope"])
        self.assertEqual({name: found["rope"][name] for name in ("launches", "dram_bytes", "sm_busy_percent", "registers")},
                         {"launches": 2, "dram_bytes": 2000, "sm_busy_percent": 20, "registers": 32})
        self.assertAlmostEqual(found["rope"]["time_s"], 4e-6)
        self.assertAlmostEqual(found["rope"]["dram_bytes_per_s"], 5e8)

    def test_text_without_a_table_has_no_kernels(self):
        self.assertEqual(kernel_profile.by_kernel("==ERROR== ERR_NVGPUCTRPERM"), {})


class Clocks(unittest.TestCase):
    def test_idle_and_non_numeric_samples_are_skipped(self):
        text = "1980, 650.0, 60, 99\n345, 80.0, 40, 0\n1900, [N/A], 61, 100\n1920, 690.0, 64, 100\n19"
        self.assertEqual(clocks.summary(text), {"busy_samples": 2, "sm_mhz_min": 1920, "sm_mhz_median": 1950, "power_w_median": 670, "temperature_c_median": 62})
        self.assertEqual(clocks.summary(""), {"busy_samples": 0})


class Torch(unittest.TestCase):
    def test_the_last_whole_line_counts(self):
        self.assertEqual(bench_ops.last_json('{"a": 1}\n{"a": 2}\n{"a": 3'), {"a": 2})
        self.assertIsNone(bench_ops.last_json("Traceback\n"))


class MicroBatch(unittest.TestCase):
    class Planner:
        def __init__(self, memory, fixed, each):
            self.memory_bytes, self.fixed, self.each = memory, fixed, each

        def planned_bytes(self, _model, _plan, _precision, _deadline, global_batch, seq_len):
            return self.fixed + self.each * global_batch

    def choose(self, *sizes, seq_len=8192):
        return bench_steps.choose_micro_batch(self.Planner(*sizes), "m", seq_len, 0)

    def test_the_largest_comfortable_power_of_two(self):
        self.assertEqual(self.choose(100, 20, 5), (8, 60))
        self.assertEqual(self.choose(100, 20, 6), (4, 44))

    def test_a_large_model_gets_batch_one(self):
        self.assertEqual(self.choose(100, 60, 10), (1, 70))
        self.assertIsNone(self.choose(100, 80, 10))

    def test_a_step_of_few_tokens_gets_more_of_the_memory(self):
        self.assertEqual(self.choose(100, 59, 7, seq_len=4096), (2, 73), "one sequence would be 4096 tokens")
        self.assertEqual(self.choose(100, 59, 7), (1, 66))
        self.assertEqual(self.choose(100, 59, 11, seq_len=4096), (1, 70), "two would be more than 80%")
        self.assertEqual(self.choose(100, 20, 7, seq_len=2048), (4, 48), "8192 tokens are enough: eight sequences would need 76%")
        self.assertEqual(self.choose(100, 20, 7, seq_len=1024), (8, 76), "four would be 4096 tokens")


class Cases(unittest.TestCase):
    def test_every_schedule_axis_and_pair_is_covered(self):
        plans = {plan for _, plan, precision in layouts.cases() if precision == "fp32"}
        for words in (["tp=2"], ["tp=4"], ["dp=2"], ["dp=4"], ["schedule=gpipe"], ["schedule=1f1b"], ["schedule=interleaved"], ["tp=2", "pp=2"], ["tp=2", "dp=2"],
                      ["pp=2", "dp=2"], ["recompute=full"], ["recompute=full:1"], ["split=3+2+2+1"], ["attention=unfused"],
                      ["zero=3"], ["dp=2", "grad_overlap=1"], ["zero=1", "grad_overlap=1", "param_overlap=1"], ["zero=3", "grad_overlap=1", "param_overlap=1"],
                      ["pp=2", "dp=2", "grad_overlap=1", "param_overlap=1"],
                      ["tp=2", "pp=2", "attention=unfused", "recompute=selective:core_attn+mlp+norm"]):
            self.assertTrue(any(all(word in plan.split(",") for word in words) for plan in plans), words)
        for model in layouts.MODELS:
            self.assertEqual({plan for name, plan, precision in layouts.cases() if name == model and precision == "fp32"}, plans)
        over_nccl = {plan for _, plan, _ in layouts.nccl_cases()}
        self.assertLessEqual(over_nccl, plans - set(layouts.ONE_RANK))
        for words in (["tp=2", "sp=1"], ["pp=2"], ["tp=2", "pp=2"], ["pp=2", "dp=2"], ["zero=3"], ["dp_shard=2"], ["tp_overlap=4"], ["p2p_overlap=1"],
                      ["grad_overlap=1", "param_overlap=1"], ["scatter_gather=1"], ["schedule=interleaved"]):
            self.assertTrue(any(all(word in plan.split(",") for word in words) for plan in over_nccl), words)
        self.assertEqual({model for model, _, _ in layouts.nccl_cases()}, set(layouts.MODELS))


if __name__ == "__main__":
    unittest.main()
