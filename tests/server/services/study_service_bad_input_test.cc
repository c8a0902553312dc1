// StudyService over the wire: malformed requests, and names of missing resources.
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "proto/convert/spec_convert.h"
#include "search/text/cluster_json.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;

TEST_F(StudyServiceTest, MalformedSpecsNameTheField) {
  const auto with = [](const std::function<void(v1::SearchSpec&)>& edit) {
    v1::SearchSpec spec = SmallSpec();
    edit(spec);
    return spec;
  };
  const StatusCode invalid = StatusCode::INVALID_ARGUMENT;
  ExpectRefused(with([](auto& s) { s.clear_model(); }), invalid, "spec.model");
  ExpectRefused(with([](auto& s) { s.clear_cluster(); }), invalid, "spec.cluster");
  ExpectRefused(with([](auto& s) { s.clear_workload(); }), invalid, "spec.workload");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_layers(0); }), invalid, "layers");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_hidden(-64); }), invalid, "hidden");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_vocab(std::numeric_limits<std::int64_t>::max()); }),
                invalid, "vocab");
  ExpectRefused(
      with([](auto& s) { s.mutable_model()->set_activation("tanh"); }), invalid,
      "spec.model: unknown activation 'tanh'; expected gelu, gelu_erf, relu, swiglu, geglu or squared_relu");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_norm("x"); }), invalid,
                "unknown norm 'x'; expected layernorm or rmsnorm");
  ExpectRefused(with([](auto& s) { s.mutable_model()->set_position("x"); }), invalid,
                "unknown position 'x'; expected learned, rope, alibi or none");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_global_batch(0); }), invalid, "global_batch");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_global_batch(1 << 20); }), invalid,
                "global_batch");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_seq_len(-1); }), invalid, "seq_len");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_seq_len(33); }), invalid, "seq_len");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_precision("fp12"); }), invalid, "precision");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->clear_groups();
                  s.mutable_cluster()->set_local(false);
                }),
                invalid, "spec.cluster: it has no node groups");
  ExpectRefused(with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(0); }), invalid,
                "gpus_per_node");
  ExpectRefused(with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(5000); }),
                invalid, "ranks");
  ExpectRefused(
      with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_kind("tpu"); }),
      invalid, "kind");
  ExpectRefused(with([](auto& s) { s.set_max_trials(-1); }), invalid, "max_trials");
  ExpectRefused(with([](auto& s) { s.set_time_budget_s(-1); }), invalid, "time_budget_s");
  ExpectRefused(with([](auto& s) { s.set_time_budget_s(std::nan("")); }), invalid, "time_budget_s");
  ExpectRefused(with([](auto& s) { s.set_time_budget_s(std::numeric_limits<double>::infinity()); }), invalid,
                "spec.time_budget_s is inf; give a finite number of seconds");
  ExpectRefused(with([](auto& s) {
                  auto& axis = *s.add_space();
                  axis.set_name("mbz");
                  axis.add_values(std::string("1"));
                }),
                invalid, "mbz");
  ExpectRefused(with([](auto& s) {
                  for (int i = 0; i < 2; ++i) {
                    auto& axis = *s.add_space();
                    axis.set_name("tp");
                    axis.add_values(std::string("1"));
                  }
                }),
                invalid, "twice");
  const StatusCode later = StatusCode::UNIMPLEMENTED;
  ExpectRefused(with([](auto& s) {
                  s.mutable_model()->set_position("rope");
                  s.mutable_model()->set_rope_scaling("dynamic");
                }),
                later, "can be predicted, not run");
  ExpectRefused(with([](auto& s) { s.mutable_workload()->set_precision("bf16"); }), later,
                "bf16 on the CPU is not supported yet");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->set_local(false);
                  s.mutable_cluster()->mutable_groups(0)->set_nodes(2);
                }),
                invalid, "intra_node_bytes_per_s is missing");
  ExpectRefused(with([](auto& s) { s.set_device("paced"); }), invalid, "paced emulates a described cluster");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->set_local(false);
                  s.set_device("paced");
                }),
                invalid, "flops_per_s");
  ExpectRefused(with([](auto& s) {
                  s.mutable_cluster()->set_local(false);
                  s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_kind("cuda");
                  s.mutable_workload()->set_precision("bf16");
                }),
                invalid, "predict_only");
  ExpectRefused(with([](auto& s) { s.set_device("cuda"); }), invalid, "the cluster's devices are CPUs");
  ExpectRefused(with([](auto& s) { s.set_device("tpu"); }), invalid,
                "unknown device 'tpu'; expected cpu, cuda or paced");
  ExpectRefused(with([](auto& s) { s.set_machine_ranks(-1); }), invalid, "machine_ranks");
  ExpectRefused(
      with([](auto& s) { s.mutable_cluster()->mutable_groups(0)->mutable_device()->clear_memory_bytes(); }),
      invalid, "spec.cluster: groups[0].device.memory_bytes is missing");
  ExpectRefused(with([](auto& s) { s.set_memory_margin(1); }), invalid, "spec.memory_margin is 1");
  ExpectRefused(with([](auto& s) { s.set_memory_margin(std::nan("")); }), invalid,
                "spec.memory_margin is nan");
  const auto axis = [&](const std::string& name, int values, std::size_t bytes) {
    return with([&](auto& s) {
      v1::SpaceAxis& axis = *s.add_space();
      axis.set_name(name);
      for (int i = 1; i <= values; ++i) axis.add_values(fmt::format("{:0>{}}", i, bytes));
    });
  };
  const auto range = [&](const std::string& name, const std::string& value) {
    return with([&](auto& s) {
      v1::SpaceAxis& axis = *s.add_space();
      axis.set_name(name);
      axis.add_values(value);
    });
  };
  ExpectRefused(range("mbs", "4-1"), invalid, "mbs=4-1 holds no value");
  ExpectRefused(range("schedule", "<=2"), invalid, "schedule takes no bound");
  ExpectRefused(axis("tp", 1001, 4), invalid, "axis tp has 1001 values; the limit is 1000");
  ExpectRefused(axis("tp", 100, 1000), invalid,
                "the values of axis tp have 100000 bytes; the limit is 64000");
  ExpectRefused(with([](auto& s) {
                  for (int i = 0; i <= 100; ++i) s.add_space()->set_name(fmt::format("axis{}", i));
                }),
                invalid, "spec.space has 101 axes");
  const std::string long_name(201, 'n');
  ExpectRefused(with([&](auto& s) { s.mutable_model()->set_name(long_name); }), invalid,
                "spec.model.name has 201 bytes");
  ExpectRefused(with([&](auto& s) { s.add_space()->set_name(long_name); }), invalid,
                "spec.space.name has 201 bytes");
  ExpectRefused(with([&](auto& s) { s.mutable_cluster()->set_name(long_name); }), invalid,
                "spec.cluster.name");
  ExpectRefused(
      with([&](auto& s) { s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_name(long_name); }),
      invalid, "device.name");
  const auto on_gpus = [&](const char* precision) {
    return with([precision](auto& s) {
      s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_kind("cuda");
      s.mutable_cluster()->mutable_groups(0)->mutable_device()->set_memory_bytes(std::int64_t{80} << 30);
      s.set_device("cuda");
      s.mutable_workload()->set_precision(precision);
    });
  };
  ExpectRefused(on_gpus("fp64"), invalid, "fp64 is for CPUs only");
  ExpectRefused(on_gpus("fp16"), later, "fp16 on a GPU is not supported yet");
  v1::ListStudiesResponse list;
  EXPECT_TRUE(Call(studies_, &v1::StudyService::Stub::ListStudies, v1::ListStudiesRequest(), &list).ok());
  EXPECT_EQ(list.studies_size(), 0);  // nothing was stored
  v1::Study study;
  EXPECT_EQ(
      Call(studies_, &v1::StudyService::Stub::CreateStudy, v1::CreateStudyRequest(), &study).error_code(),
      invalid);
}

// Returns a described cluster of two GPUs whose figures are all there.
v1::SearchSpec DescribedSpec() {
  v1::SearchSpec spec = SmallSpec();
  *spec.mutable_cluster() = ToProto(*PresetCluster("a100-80gb-sxm:1x2"));
  spec.mutable_workload()->set_precision("bf16");
  return spec;
}

TEST_F(StudyServiceTest, OtherEnginesMeasureOnLocalAndArePredictedElsewhere) {
  v1::SearchSpec spec = DescribedSpec();
  spec.mutable_cluster()->set_engine("megatron");
  for (const char* device : {"cuda", "paced"}) {
    spec.set_device(device);
    ExpectRefused(spec, StatusCode::INVALID_ARGUMENT,
                  "spec.cluster: engine is megatron, which measures whole plans on local alone");
  }
  spec.set_predict_only(true);
  EXPECT_TRUE(CreateStatus(spec).ok());
  v1::SearchSpec local = SmallSpec();
  local.mutable_cluster()->set_engine("megatron");
  local.set_predict_only(true);  // it still measures op times
  ExpectRefused(local, StatusCode::INVALID_ARGUMENT, "only autocfg is predicted on local");
  local.set_predict_only(false);
  EXPECT_TRUE(CreateStatus(local).ok());
  local.mutable_cluster()->set_engine("some-engine");  // of a worker's own files
  EXPECT_TRUE(CreateStatus(local).ok());
  local.mutable_cluster()->set_engine("some engine");
  ExpectRefused(local, StatusCode::INVALID_ARGUMENT, "'some engine' is no engine's name");
}

TEST_F(StudyServiceTest, AMissingMemoryOfADescribedClusterIsNamed) {
  v1::SearchSpec spec = DescribedSpec();
  spec.set_predict_only(true);
  v1::DeviceSpec& device = *spec.mutable_cluster()->mutable_groups(0)->mutable_device();
  device.set_memory_bytes(0);
  ExpectRefused(spec, StatusCode::INVALID_ARGUMENT, "spec.cluster: memory_bytes is 0; a GPU has at least");
  device.set_kind("cpu");
  device.clear_overhead_bytes();
  ExpectRefused(spec, StatusCode::INVALID_ARGUMENT,
                "spec.cluster: groups[0].device.memory_bytes is missing; give the bytes");
}

TEST_F(StudyServiceTest, AnEmulatedClusterHasNoMachineRanks) {
  v1::SearchSpec spec = DescribedSpec();
  spec.set_device("paced");
  EXPECT_TRUE(CreateStatus(spec).ok());
  spec.set_machine_ranks(1);
  ExpectRefused(spec, StatusCode::INVALID_ARGUMENT,
                "spec.machine_ranks is 1, but device paced emulates all 2 ranks at once; leave it out");
}

TEST_F(StudyServiceTest, ErrorsNameTheirFieldOnce) {
  const auto message = [&](const std::function<void(v1::SearchSpec&)>& edit) {
    v1::SearchSpec spec = SmallSpec();
    edit(spec);
    return CreateStatus(spec).error_message();
  };
  EXPECT_THAT(message([](auto& s) { s.mutable_workload()->set_global_batch(0); }),
              testing::StartsWith("spec.workload: global_batch is 0"));
  EXPECT_THAT(message([](auto& s) { s.mutable_cluster()->mutable_groups(0)->set_gpus_per_node(0); }),
              testing::StartsWith("spec.cluster: gpus_per_node"));
  EXPECT_THAT(message([](auto& s) { s.mutable_model()->set_layers(0); }),
              testing::StartsWith("spec.model: layers"));
  EXPECT_THAT(message([](auto& s) {
                s.add_space()->set_name("tp");
                s.mutable_space(0)->add_values("x");
              }),
              testing::StartsWith("spec.space: tp"));
}

TEST_F(StudyServiceTest, NamesOfAnAxisAreTheSameAxis) {
  const auto fingerprint = [&](const char* name) {
    v1::SearchSpec spec = SmallSpec();
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(name);
    axis.add_values("1");
    return Create(spec).fingerprint();
  };
  EXPECT_EQ(fingerprint("micro_batch"), fingerprint("mbs"));
  EXPECT_NE(fingerprint("mbs"), fingerprint("tp"));
  v1::SearchSpec twice = SmallSpec();
  for (const char* name : {"micro_batch", "mbs"}) {
    v1::SpaceAxis& axis = *twice.add_space();
    axis.set_name(name);
    axis.add_values("1");
  }
  ExpectRefused(twice, StatusCode::INVALID_ARGUMENT, "axis mbs is named twice");
}

TEST_F(StudyServiceTest, MalformedNamesAreInvalidArguments) {
  for (const std::string name :
       {"", "studies/", "studies/x", "studies/-1", "studies/0", "studies/01", "studies/1/", "study/1",
        "studies/99999999999999999999999", "studies/1/trials/1\n"}) {
    v1::GetStudyRequest get;
    get.set_name(name);
    v1::Study study;
    EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetStudy, get, &study).error_code(),
              StatusCode::INVALID_ARGUMENT)
        << name;
    EXPECT_EQ(Start(name).error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Cancel(name).error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(Watch(name).status.error_code(), StatusCode::INVALID_ARGUMENT);
    v1::GetTrialRequest trial;
    trial.set_name(name);
    v1::Trial answer;
    EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetTrial, trial, &answer).error_code(),
              StatusCode::INVALID_ARGUMENT);
  }
}

TEST_F(StudyServiceTest, MissingResourcesAreNotFound) {
  v1::GetStudyRequest get;
  get.set_name("studies/7");
  v1::Study study;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetStudy, get, &study).error_code(),
            StatusCode::NOT_FOUND);
  EXPECT_EQ(Start("studies/7").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Pause("studies/7").error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(Watch("studies/7").status.error_code(), StatusCode::NOT_FOUND);
  v1::ListTrialsRequest list;
  list.set_parent("studies/7");
  v1::ListTrialsResponse trials;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::ListTrials, list, &trials).error_code(),
            StatusCode::NOT_FOUND);
  v1::GetRecommendationRequest recommend;
  recommend.set_study("studies/7");
  v1::Recommendation answer;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetRecommendation, recommend, &answer).error_code(),
            StatusCode::NOT_FOUND);
  v1::GetTrialRequest trial;
  trial.set_name("studies/7/trials/1");
  v1::Trial one;
  EXPECT_EQ(Call(studies_, &v1::StudyService::Stub::GetTrial, trial, &one).error_code(),
            StatusCode::NOT_FOUND);
}

}  // namespace
}  // namespace autocfg::server
