"""Tests of bench/accuracy: rows to requests, folds, and figures."""
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from measured_runs import a100_steps, decisions, engine_fits, peak_memory, published, scores, sources


def row(**changes):
    """Returns a row of a table of published runs."""
    cells = {"row_id": "r", "source_table": "llm-foundry benchmarking README: H100 80GB BF16", "model": "MPT-7b", "layers": "32",
             "hidden": "4096", "heads": "32", "kv_heads": "32", "ffn_hidden": "16384", "ffn_mats": "2", "vocab": "50368", "seq_len": "2048",
             "gpu": "H100-80GB-SXM", "gpus": "16", "gpus_per_node": "8", "TP": "1", "PP": "1", "DP": "16", "CP": "1", "EP": "1", "SP": "0",
             "virtual_stages": "1", "micro_batch": "8", "global_batch": "128", "recompute": "full", "zero": "zero3 (FSDP FULL_SHARD)",
             "precision": "amp_bf16 (MP mode DEFAULT)", "iter_time_s": "", "derived_iter_time_s": "2.5", "peak_mem_GB": "", "mem_kind": "",
             "notes": ""}
    return cells | changes


def answer(seconds, total=0, overhead=0, feasible=True):
    return {"step_time_s": seconds, "step_time_low_s": 0.8 * seconds, "step_time_high_s": 1.3 * seconds, "feasible": feasible,
            "memory_bytes": {"total": total, "device_overhead": overhead}, "allocated_bytes_by_pipeline_rank": [1]}


class FakeProgram:
    """Takes the same time for all requests."""

    def __init__(self, seconds=1.0):
        self.seconds, self.fitted_to = seconds, []

    def knows(self, field, value):
        return False

    def predict(self, requests):
        return [answer(self.seconds) for _ in requests]

    def calibrate(self, measurements, cluster, default):
        self.fitted_to.append(set(measurements.splitlines()[1:]))
        return dict(cluster)


class Requests(unittest.TestCase):
    def test_fsdp_is_zero3_that_overlaps(self):
        run = published.run_of(row())
        self.assertEqual(run.request["plan"], {
            "tp": 1, "pp": 1, "dp": 16, "micro_batch": 8, "virtual_stages": 1, "schedule": "1f1b", "recompute": "full", "attention": "fused",
            "sequence_parallel": 0, "zero_stage": 3, "grad_overlap": 1, "param_overlap": 1})
        self.assertEqual(run.request["cluster"], {"device": "h100-sxm", "nodes": 2, "gpus_per_node": 8})
        self.assertEqual((run.seconds, run.request["precision"]), (2.5, "bf16"))

    def test_stages_of_sharding(self):
        for text, stage in (("zero2 (FSDP SHARD_GRAD_OP)", 2), ("BF16_Optimizer (zero1-like)", 1), ("distributed optimizer", 1), ("none (0)", 0),
                            ("zero0", 0), ("FSDP (zero3)", 3)):
            self.assertEqual(published.zero_stage_of(text), stage, text)

    def test_selective_recomputation_needs_scores(self):
        self.assertEqual(published.run_of(row(recompute="selective (op)")).request["plan"]["recompute"], "none")
        korthikanti = published.run_of(row(source_table="Korthikanti 2022, tables 3 and 5", recompute="selective", zero="none (0)", SP="1"))
        plan = korthikanti.request["plan"]
        self.assertEqual((plan["recompute"], plan["attention"], plan["scatter_gather"], plan["sequence_parallel"]), ("selective", "unfused", 1, 1))

    def test_layers_that_do_not_divide_are_balanced(self):
        self.assertEqual(published.run_of(row(layers="70", PP="12", zero="zero1")).request["plan"]["split"], "auto")

    def test_what_cannot_be_expressed_has_a_reason(self):
        for changes, reason in (({"EP": "8"}, "mixture of experts"), ({"CP": "2"}, "context parallelism"), ({"precision": "FP8-CS"}, published.FP8),
                                ({"gpu": "TPU"}, "the figures of TPU are not known"), ({"recompute": "not published"}, "recomputation is not published"),
                                ({"global_batch": "not published (2048 in 5b.yaml)"}, "global_batch is not published"),
                                ({"derived_iter_time_s": ""}, "neither a step time nor a peak of memory is published")):
            with self.assertRaises(published.Unusable) as raised:
                published.run_of(row(**changes))
            self.assertEqual(str(raised.exception), reason)

    def test_what_the_program_knows_is_asked_for(self):
        run = published.run_of(row(source_table="BLOOM chronicles", precision="fp8"), fp8=True, engine=True)
        self.assertEqual((run.request["precision"], run.request["engine"]), ("fp8", "deepspeed"))
        self.assertNotIn("engine", published.run_of(row(source_table="BLOOM chronicles")).request)

    def test_gpus_without_a_preset_have_figures(self):
        for gpu in sources.VARIANTS:
            cluster = sources.cluster_of(gpu, 128, 4, sources.source_of("NeMo"))
            self.assertGreaterEqual(cluster["nodes"] * cluster["gpus_per_node"], 128)
            self.assertEqual(cluster["device"]["memory_bytes_per_s"], sources.VARIANTS[gpu]["memory_bytes_per_s"])

    def test_the_runs_of_the_project(self):
        rows = published.kept_rows()
        self.assertEqual(len(rows), 10 + 6)
        self.assertAlmostEqual(float(rows[0]["iter_time_s"]), 3.528, places=3)
        self.assertAlmostEqual(float(rows[9]["iter_time_s"]), 102.63, places=2)
        for one in rows:
            published.run_of(one)


class Tables(unittest.TestCase):
    def read(self, text):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory) / "steps.csv"
            path.write_text(text, encoding="utf-8")
            return published.read(path, ("gpus", "tp"))

    def test_comments_are_skipped_and_cells_may_be_missing(self):
        self.assertEqual(self.read("# from a paper\ngpus,tp\n8,2\n4\n"), [{"gpus": "8", "tp": "2"}, {"gpus": "4", "tp": ""}])

    def test_a_table_that_cannot_be_used_is_named(self):
        for text, message in (("gpus\n8\n", "steps.csv lacks the column tp; add it"), ("gpus,tp\n", "steps.csv has no rows")):
            with self.assertRaisesRegex(ValueError, message):
                self.read(text)


class Comparison(unittest.TestCase):
    def test_rows_are_counted_by_source_and_reason(self):
        rows = [row(row_id="a"), row(row_id="b", precision="fp8"), row(row_id="c", source_table="llm.c", derived_iter_time_s="1")]
        result = published.compare(FakeProgram(), rows)
        self.assertEqual((result["rows"], result["expressed"], result["left_out_rows"]), (3, 2, {published.FP8: ["b"]}))
        self.assertEqual(result["sources"]["llm-foundry, H100"]["left_out"], {published.FP8: 1})
        self.assertEqual(result["sources"]["llm-foundry, H100"]["error_percent"], {"a": -60.0})
        self.assertEqual(result["sources"]["llm.c"]["step_time"]["within_interval_percent"], 100.0)

    def test_memory_as_it_was_measured(self):
        both = [(published.run_of(row(peak_mem_GB="10", mem_kind=kind)), answer(1, total=12e9, overhead=2e9))
                for kind in ("nvidia-smi, max over first/last nodes", "peak allocated")]
        out = (published.run_of(row(peak_mem_GB="OOM", derived_iter_time_s="")), answer(1, feasible=False))
        other = (published.run_of(row(row_id="op", peak_mem_GB="10", recompute="selective (op)")), answer(1, total=99e9))
        result = published.memory_of(both + [out, other])
        self.assertEqual(result["recomputed_what_no_option_says"], ["op"])
        self.assertEqual([one["error_percent"] for one in result["runs"]], [20.0, 0.0])
        self.assertEqual((result["rows"], result["ran_out_of_memory"], result["of_them_predicted_not_to_fit"]), (2, 1, 1))


class Nanotron(unittest.TestCase):
    def test_runs_and_what_ran_out(self):
        cells = {"row_id": "r", "model": "nanotron-llama 80B", "status": "Success", "after_pp_fix": "True", "gpu": "H100-80GB-SXM", "gpus": "16",
                 "gpus_per_node": "8", "TP": "8", "PP": "2", "DP": "1", "SP": "1", "zero": "zero1", "micro_batch": "1", "global_batch": "8",
                 "seq_len": "4096", "layers": "80", "hidden": "8192", "heads": "64", "kv_heads": "8", "ffn_hidden": "28672", "vocab": "131072",
                 "peak_reserved_GB": "50"}
        request = peak_memory.nanotron_request(cells)
        self.assertEqual((request["engine"], request["plan"]["zero_stage"], request["model"]["tied_embeddings"]), ("nanotron", 1, False))
        self.assertTrue(peak_memory.nanotron_request(cells | {"model": "nanotron-llama 1.34B"})["model"]["tied_embeddings"])
        with self.assertRaisesRegex(published.Unusable, "before its fault"):
            peak_memory.nanotron_request(cells | {"after_pp_fix": "False"})

        class Answers(FakeProgram):
            def predict(self, requests):
                # Of the first rank, which is not the fullest.
                one = {"feasible": True, "memory_bytes": {"reserved": 66 * 2 ** 30}, "allocated_bytes_by_pipeline_rank": [60, 66]}
                return [one for _ in requests]

        result = peak_memory.compare_nanotron(Answers(), [cells, cells | {"status": "OOM", "peak_reserved_GB": ""}])
        self.assertEqual(result["reserved"]["median_error_percent"], 20.0)
        self.assertEqual(result["predicted_to_fit"], {"Success": {"rows": 1, "right_percent": 100.0}, "OOM": {"rows": 1, "right_percent": 0.0}})


class RateProgram(FakeProgram):
    """Takes the longer, the less the device reaches in products of fp8: 1 s at `rate`."""

    def __init__(self, rate):
        super().__init__()
        self.rate = rate

    def predict(self, requests):
        return [answer(self.rate / request["cluster"]["device"]["flops_per_s"]["fp8"]) for request in requests]


class EngineFits(unittest.TestCase):
    def runs_of(self, seconds_by_table):
        runs = []
        for table, seconds in seconds_by_table.items():
            one = row(row_id=table, source_table=table, derived_iter_time_s=str(seconds), zero="distributed optimizer")
            runs.append((sources.source_of(table), published.run_of(one, engine=True)))
        return runs

    def test_figures_come_from_the_other_publications(self):
        fitted = engine_fits.fitted_figures("nemo")
        self.assertEqual(list(fitted), ["narrow_matmul"])
        # One publication ran at 1.08 of the device's rate, the other one at 1.35 of it.
        base = engine_fits.data_of("devices", "h100-sxm")["device"]["flops_per_s"]["fp8"] / fitted["narrow_matmul"]
        results = engine_fits.left_out_publications(RateProgram(base), self.runs_of({"NeMo 25.02": 1 / 1.08, "Megatron-Bridge": 1 / 1.35}))
        by_source = {name: (one["figures"], one["step_time"]["worst_error_percent"]) for name, one in results.items()}
        self.assertEqual(by_source["NeMo performance summaries"], ({"narrow_matmul": 1.35}, 20.0))
        self.assertEqual(by_source["Megatron-Bridge performance summaries"], ({"narrow_matmul": 1.08}, 25.0))

    def test_one_publication_says_nothing_of_itself(self):
        tables = {"llm-foundry benchmarking README: H100 80GB BF16": 1, "llm-foundry benchmarking README: A100 40GB": 1}
        self.assertEqual(engine_fits.left_out_publications(RateProgram(1), self.runs_of(tables)), {})

    def test_engines_that_documents_call_unfitted_are(self):
        for engine in ("autocfg", "megatron", "nanotron"):
            self.assertEqual(engine_fits.fitted_figures(engine), {})

    def test_the_values_of_the_files_are_emulated(self):
        for engine in ("deepspeed", "nemo", "torchtitan"):
            fitted = engine_fits.fitted_figures(engine)
            self.assertTrue(fitted)
            request = {"cluster": {"device": "a100-80gb-sxm", "nodes": 2, "gpus_per_node": 8}}
            same = engine_fits.with_figures(request, fitted, fitted)["cluster"]
            self.assertEqual(same["device"]["efficiency"], engine_fits.data_of("devices", "a100-80gb-sxm")["device"]["efficiency"])
            self.assertEqual((same["nodes"], request["cluster"]["device"]), (2, "a100-80gb-sxm"))


class Scores(unittest.TestCase):
    def test_errors_and_coverage(self):
        pairs = [scores.pair("exact", 1, answer(1)), scores.pair("slow", 2, answer(1)), scores.pair("fast", 0.5, answer(1))]
        result = scores.score(pairs)
        self.assertEqual(result["mean_absolute_error_percent"], 50.0)
        self.assertEqual((result["below_interval"], result["above_interval"]), (1, 1))
        self.assertEqual(result["median_high_over_low"], 1.62)
        self.assertEqual([one["run"] for one in scores.worst(pairs, 2)], ["fast", "slow"])
        again = [scores.pair("exact", 1, answer(4)), scores.pair("slow", 3, answer(3))]  # "slow" is also the name of another run
        self.assertEqual([(one["run"], one["error_percent"]) for one in scores.worst(pairs + again)],
                         [("exact", 300.0), ("fast", 100.0), ("slow", -50.0), ("slow", 0.0)])

    def test_regret_is_of_the_first_pick(self):
        picked_second = [scores.pair("a", 1.0, answer(3)), scores.pair("b", 1.1, answer(2))]
        alone = [scores.pair("c", 1.0, answer(9))]
        self.assertEqual(scores.regret([picked_second, alone]), {"groups": 1, "mean_percent": 10.0, "worst_percent": 10.0})

    def test_no_regret_without_a_choice(self):
        self.assertEqual(scores.regret([[scores.pair("c", 1.0, answer(9))]])["mean_percent"], None)


class Folds(unittest.TestCase):
    def setUp(self):
        self.rows = [{"layers": "24", "hidden": "1024", "heads": "16", "seq_len": "1024", "global_batch": str(batch), "micro_batch": "1", "tp": tp,
                      "pp": "1", "dp": "1", "gpus": "8", "iter_time_ms": "1000"} for batch in (8, 16, 32, 64) for tp in ("1", "2")]

    def test_steps_of_one_group_cannot_be_left_out(self):
        with self.assertRaisesRegex(ValueError, "too alike"):
            a100_steps.folds_of(self.rows[:2], a100_steps.group_of, 3, 1)

    def test_no_fold_is_predicted_by_a_fit_to_its_own_groups(self):
        test = self

        class Watched(FakeProgram):
            """Its clusters know the batches that they were fitted to."""

            def calibrate(self, measurements, cluster, default):
                fitted = super().calibrate(measurements, cluster, default)
                return fitted | {"batches": {int(line.split(",")[4]) for line in measurements.splitlines()[1:]}}

            def predict(self, requests):
                for request in requests:
                    test.assertNotIn(request["global_batch"], request["cluster"]["batches"])
                return super().predict(requests)

        program = Watched()
        repeats = [a100_steps.folds_of(self.rows, a100_steps.group_of, 3, seed) for seed in (1, 2)]
        results = a100_steps.left_out(program, self.rows, repeats, 1)
        self.assertEqual([(len(folds), len(order), len(pairs)) for folds, (order, pairs) in zip(repeats, results)], [(3, 8, 8)] * 2)
        batches_of_fits = sorted(sorted({line.split(",")[4] for line in lines}) for lines in program.fitted_to)
        batches_of_folds = [{one["global_batch"] for one in fold} for folds in repeats for fold in folds]
        self.assertEqual(batches_of_fits, sorted(sorted({"8", "16", "32", "64"} - batches) for batches in batches_of_folds))
        for folds, (order, pairs) in zip(repeats, results):
            self.assertEqual(order, [row for fold in folds for row in fold])
            self.assertEqual([pair.name for pair in pairs], [a100_steps.name_of(row) for row in order])

    def test_summary_is_of_all_repeats(self):
        group = self.rows[:2]
        results = [(group, [scores.pair("a", 1, answer(1)), scores.pair("b", 2, answer(2))]),
                   (group, [scores.pair("a", 1, answer(3)), scores.pair("b", 2, answer(2))])]
        summary = a100_steps.summary(results, "words")
        self.assertEqual((summary["rows"], summary["mean_absolute_error_percent"]), (4, 50.0))
        self.assertEqual(summary["mean_absolute_error_percent_by_repeat"], [0.0, 100.0])
        self.assertEqual(summary["regret"], {"groups": 2, "mean_percent": 50.0, "worst_percent": 100.0})
        self.assertEqual([(one["run"], one["error_percent"]) for one in summary["worst"]], [("a", 200.0), ("b", 0.0)])
        self.assertNotIn("mean_absolute_error_percent_by_repeat", a100_steps.summary(results[:1], "words"))


def megatron_row(**changes):
    """Returns a row of Megatron-LM's functional tests."""
    cells = dict.fromkeys(peak_memory.MEGATRON_COLUMNS, "") | {
        "test_case": "gpt/t", "environment": "dev", "gpu": "H100-80GB-SXM", "gpus": "8", "gpus_per_node": "8", "TP": "1", "PP": "4", "CP": "1", "DP": "2",
        "vpp_layers_per_stage": "1", "SP": "0", "micro_batch": "4", "global_batch": "32", "seq_len": "1024", "layers": "12", "hidden": "512", "heads": "8",
        "swiglu": "0", "untied": "0", "mla": "0", "bf16": "1", "dist_opt": "1", "mfsdp": "0", "attention_backend": "unfused",
        "transformer_impl": "transformer_engine", "overlap_grad_reduce": "1", "overlap_param_gather": "0", "optimizer": "adam",
        "mem_max_allocated_GiB": "1"}
    return cells | changes


class PeakMemory(unittest.TestCase):
    def test_what_a_row_leaves_out_is_the_default(self):
        request = peak_memory.megatron_request(megatron_row())
        self.assertEqual((request["model"]["vocab"], request["model"]["dropout"], request["model"]["ffn_hidden"]), (50257, 0.1, 2048))
        self.assertEqual((request["plan"]["virtual_stages"], request["plan"]["zero_stage"], request["plan"]["attention"]), (3, 1, "unfused"))
        self.assertEqual(request["precision"], "bf16")

    def test_local_layers_store_scores_and_fp16_keeps_its_gradients(self):
        request = peak_memory.megatron_request(megatron_row(transformer_impl="local", attention_backend="", bf16="0"))
        self.assertEqual((request["plan"]["attention"], request["precision"]), ("unfused", "fp16:grads=fp16"))

    def test_what_is_not_predicted_is_named(self):
        for changes, reason in (({"gpus": ""}, "GPUs"), ({"CP": "2"}, "context"), ({"experts": "8"}, "experts"), ({"optimizer": "muon"}, "muon"),
                                ({"extra_args": "--hybrid-layer-pattern=M*"}, "attention")):
            with self.assertRaisesRegex(published.Unusable, reason):
                peak_memory.megatron_request(megatron_row(**changes))

    def test_summary_has_the_worst_first(self):
        summary = peak_memory.summary([("a", 10, 11), ("b", 10, 7), ("c", 10, 10)])
        self.assertEqual((summary["median_absolute_error_percent"], summary["90_percent_within_percent"], summary["median_error_percent"]),
                         (10.0, 30.0, 0.0))
        self.assertEqual([one["run"] for one in summary["worst"]], ["b", "a", "c"])

    def test_the_rank_that_writes_the_figures_is_compared(self):
        class Ranks(FakeProgram):
            def predict(self, requests):
                return [answer(1.0) | {"allocated_bytes_by_pipeline_rank": [4 << 30, 2 << 30]} for _ in requests]

        result = peak_memory.compare(Ranks(), [megatron_row(mem_max_allocated_GiB="2", iter_time_median_s="1.2")])
        self.assertEqual(result["tiny"]["median_absolute_error_percent"], 0.0)
        self.assertEqual((result["step_time"]["rows"], result["step_time"]["within_interval_percent"]), (1, 100.0))

    def test_splits_and_losses_that_the_table_lacks(self):
        uneven = peak_memory.megatron_request(megatron_row(test_case="gpt/a_uneven_pipeline", vpp_layers_per_stage=""))
        self.assertEqual((uneven["plan"]["split"], uneven["engine"]), ("2+4+4+2", "megatron"))
        fused = peak_memory.megatron_request(megatron_row(test_case="gpt/a_cross_entropy_loss_fusion_1node"))
        self.assertEqual(fused["engine"], "megatron:logit_bytes=8")
        self.assertNotIn("split", fused["plan"])


def decided(plan, seconds, micro_batch=1, model="m"):
    request = {"model": {"layers": 4}, "global_batch": 8, "plan": {"tp": 1, "pp": 1, "dp": 1, "micro_batch": micro_batch, "name": plan}}
    return decisions.Run("source", model, 8, "batch 8", request, seconds)


class Decisions(unittest.TestCase):
    def test_a_run_that_takes_ten_times_as_long_as_its_like_is_an_outlier(self):
        runs = [decided("a", 1.0), decided("b", 1.2), decided("c", 12.1), decided("d", 90.0, micro_batch=2)]
        kept, outliers = decisions.without_outliers(runs)
        self.assertEqual(([run.request["plan"]["name"] for run in kept], outliers), (["a", "b", "d"], 1))
        self.assertEqual(runs[0].seconds_of_layer, 1.0 / 4 / 8)

    def test_regret_order_and_interval(self):
        class Times(FakeProgram):
            def predict(self, requests):
                return [answer({"a": 1.0, "b": 1.5, "c": 2.0}[request["plan"]["name"]]) for request in requests]

        runs = [decided("a", 2.0), decided("b", 1.6, micro_batch=2), decided("c", 4.0, micro_batch=4), decided("a", 5.0, model="alone")]
        result = decisions.compare(Times(), {"source": runs})["source"]
        self.assertEqual(result["runs"], 4)
        self.assertEqual(result["regret"], {"groups": 1, "mean_percent": 25.0})
        self.assertEqual(result["regret_of_large_groups"], {"groups": 0, "mean_percent": None, "worst_percent": None})
        self.assertEqual(result["right_pairs_percent"], 66.7)
        (group,) = result["groups"]
        self.assertIn("name=a", group["picked"])
        self.assertIn("name=b", group["best"])
        self.assertEqual(group["within_interval_percent"], 33.3)

    def test_nothing_is_right_about_runs_that_are_alike(self):
        pairs = [scores.Pair("a", 1.0, 2.0, 1, 3), scores.Pair("b", 1.005, 1.0, 1, 3)]
        self.assertEqual(decisions.right_order(pairs), (0, 0))


if __name__ == "__main__":
    unittest.main()
