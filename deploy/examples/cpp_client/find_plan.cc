// Predicts a plan, then searches the fastest plan of a small model on the workers of a coordinator, and
// prints it as a file.
// usage: find_plan ADDRESS FORMAT
//   ADDRESS  unix:PATH or HOST:PORT
//   FORMAT   megatron, megatron-bridge, nemo, deepspeed, torchtitan or autocfg
#include <iostream>
#include <string>

#include "autocfg/client/study_client.h"
#include "autocfg/client/study_watcher.h"
#include "autocfg/v1/study_service.pb.h"

namespace {

namespace v1 = autocfg::v1;

v1::ModelSpec SmallModel() {
  v1::ModelSpec model;
  model.set_name("small");
  model.set_layers(2);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_vocab(256);
  return model;
}

v1::PredictRequest Question() {
  v1::PredictRequest request;
  *request.mutable_model() = SmallModel();
  v1::NodeGroup& group = *request.mutable_cluster()->add_groups();
  group.set_nodes(1);
  group.set_gpus_per_node(2);
  group.set_intra_node_bytes_per_s(3e11);
  group.mutable_device()->set_kind("cuda");
  group.mutable_device()->set_memory_bytes(80LL << 30);
  group.mutable_device()->set_memory_bytes_per_s(2e12);
  (*group.mutable_device()->mutable_flops_per_s())["bf16"] = 3e14;
  request.mutable_workload()->set_global_batch(8);
  request.mutable_workload()->set_seq_len(32);
  request.mutable_plan()->set_dp(2);
  return request;
}

v1::CreateStudyRequest Search() {
  v1::CreateStudyRequest request;
  v1::SearchSpec& spec = *request.mutable_spec();
  *spec.mutable_model() = SmallModel();
  spec.mutable_cluster()->set_local(true);  // all workers of the coordinator
  spec.mutable_workload()->set_global_batch(8);
  spec.mutable_workload()->set_seq_len(32);
  v1::SpaceAxis& axis = *spec.add_space();
  axis.set_name("recompute");
  axis.add_values("none");
  spec.set_max_trials(2);
  return request;
}

int Fail(const std::string& text) {
  std::cerr << "find_plan: " << text << "\n";
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return Fail("give an address and a format");
  const std::string address = argv[1];
  autocfg::StudyClient client(address);

  const auto answers = client.Predict({Question()});
  if (!answers.ok()) return Fail(std::string(answers.status().message()));
  if (!answers->front().has_prediction()) return Fail(answers->front().error());
  std::cerr << "dp=2 is predicted to take " << answers->front().prediction().step_time_s() << " s a step\n";

  auto study = client.CreateStudy(Search());
  if (study.ok()) study = client.StartStudy(study->name());
  if (!study.ok()) return Fail(std::string(study.status().message()));
  autocfg::StudyWatcher watcher(address, study->name());  // goes on if the coordinator restarts
  while (!watcher.WaitForEnd(1)) std::cerr << watcher.Latest().phase() << "\n";
  if (!watcher.status().ok()) return Fail(std::string(watcher.status().message()));

  const auto answer = client.GetRecommendation(study->name());
  if (!answer.ok()) return Fail(std::string(answer.status().message()));
  if (!answer->has_best()) return Fail("no plan: " + answer->nothing_fits());
  std::cerr << "best: " << answer->best().plan_text() << ", " << answer->provenance() << "\n";
  const auto file = client.ExportConfig(study->name(), argv[2]);
  if (!file.ok()) return Fail(std::string(file.status().message()));
  std::cout << *file;
  return 0;
}
