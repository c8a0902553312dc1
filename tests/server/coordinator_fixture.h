// Fixture: a coordinator on a Unix socket in its own directory, with clients of both services.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "autocfg/v1/study_service.grpc.pb.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "fmt/format.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "proto/rpc/channel.h"
#include "server/coordinator/coordinator.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/fake_worker.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {

// A small search: 4 ranks, some hundreds of legal plans.
inline v1::SearchSpec SmallSpec() {
  v1::SearchSpec spec;
  v1::ModelSpec& model = *spec.mutable_model();
  model.set_name("tiny");
  model.set_layers(4);
  model.set_hidden(64);
  model.set_heads(4);
  model.set_vocab(512);
  model.set_max_seq_len(32);
  v1::ClusterSpec& cluster = *spec.mutable_cluster();
  cluster.set_name("local");
  cluster.set_local(true);
  v1::NodeGroup& group = *cluster.add_groups();
  group.mutable_device()->set_name("cpu");
  group.mutable_device()->set_kind("cpu");
  group.mutable_device()->set_memory_bytes(std::int64_t{1} << 30);
  group.set_nodes(1);
  group.set_gpus_per_node(4);
  group.set_ranks_per_core(1);
  spec.mutable_workload()->set_global_batch(8);
  spec.mutable_workload()->set_seq_len(32);
  spec.mutable_workload()->set_precision("fp32");
  return spec;
}

// Measures every plan of the small search that leaves overlap and recomputation at their defaults: some
// dozens.
inline v1::SearchSpec ExhaustiveSpec() {
  v1::SearchSpec spec = SmallSpec();
  spec.set_exhaustive(true);
  for (const auto& [option, value] : {std::pair("recompute", "none"),
                                      {"tp_overlap", "1"},
                                      {"grad_overlap", "0"},
                                      {"param_overlap", "0"},
                                      {"p2p_overlap", "0"}}) {
    v1::SpaceAxis& axis = *spec.add_space();
    axis.set_name(option);
    axis.add_values(value);
  }
  return spec;
}

// Returns what a search decided, without the resources it used.
inline std::string Decision(v1::Recommendation answer) {
  answer.clear_wall_s();
  answer.clear_plan_cpu_s();
  answer.clear_device_s();
  answer.clear_exhaustive_device_s();  // it includes the time used
  return answer.DebugString();
}

class CoordinatorFixture : public testing::Test {
 protected:
  void TearDown() override { Close(); }

  void Open(double lease_duration_s = 10, const SqliteOptions& store_options = {}) {
    KeepGrpc();
    auto store = OpenSqliteStore(dir_.File("autocfg.db"), store_options);
    ASSERT_TRUE(store.ok()) << store.status();
    CoordinatorOptions options;
    options.address = "unix:" + dir_.File("s");
    options.lease_duration_s = lease_duration_s;
    options.owner = "tester";
    auto coordinator = Coordinator::Start(*std::move(store), options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
    channel_ = grpc::CreateChannel(coordinator_->address(), grpc::InsecureChannelCredentials());
    studies_ = v1::StudyService::NewStub(channel_);
    workers_ = v1::WorkerService::NewStub(channel_);
  }
  void Close() {
    studies_.reset();
    workers_.reset();
    channel_.reset();
    coordinator_.reset();
  }

  template <typename Stub, typename Request, typename Response>
  static grpc::Status Call(const std::unique_ptr<Stub>& stub,
                           grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&, Response*),
                           const Request& request, Response* response) {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return ((*stub).*method)(&context, request, response);
  }

  v1::Study Create(const v1::SearchSpec& spec, bool reuse = false) {
    v1::CreateStudyRequest request;
    *request.mutable_spec() = spec;
    request.set_reuse_unfinished(reuse);
    v1::Study study;
    const grpc::Status status = Call(studies_, &v1::StudyService::Stub::CreateStudy, request, &study);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return study;
  }
  grpc::Status CreateStatus(const v1::SearchSpec& spec) {
    v1::CreateStudyRequest request;
    *request.mutable_spec() = spec;
    v1::Study study;
    return Call(studies_, &v1::StudyService::Stub::CreateStudy, request, &study);
  }
  grpc::Status Start(const std::string& name) {
    v1::StartStudyRequest request;
    request.set_name(name);
    v1::Study study;
    return Call(studies_, &v1::StudyService::Stub::StartStudy, request, &study);
  }
  grpc::Status Pause(const std::string& name) {
    v1::PauseStudyRequest request;
    request.set_name(name);
    v1::Study study;
    return Call(studies_, &v1::StudyService::Stub::PauseStudy, request, &study);
  }
  grpc::Status Resume(const std::string& name) {
    v1::ResumeStudyRequest request;
    request.set_name(name);
    v1::Study study;
    return Call(studies_, &v1::StudyService::Stub::ResumeStudy, request, &study);
  }
  grpc::Status Cancel(const std::string& name) {
    v1::CancelStudyRequest request;
    request.set_name(name);
    v1::Study study;
    return Call(studies_, &v1::StudyService::Stub::CancelStudy, request, &study);
  }
  v1::Study Get(const std::string& name) {
    v1::GetStudyRequest request;
    request.set_name(name);
    v1::Study study;
    const grpc::Status status = Call(studies_, &v1::StudyService::Stub::GetStudy, request, &study);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return study;
  }
  v1::Recommendation Recommend(const std::string& name) {
    v1::GetRecommendationRequest request;
    request.set_study(name);
    v1::Recommendation answer;
    const grpc::Status status = Call(studies_, &v1::StudyService::Stub::GetRecommendation, request, &answer);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return answer;
  }
  std::vector<v1::Trial> Trials(const std::string& name) {
    std::vector<v1::Trial> trials;
    v1::ListTrialsRequest request;
    request.set_parent(name);
    do {
      v1::ListTrialsResponse response;
      const grpc::Status status = Call(studies_, &v1::StudyService::Stub::ListTrials, request, &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      trials.insert(trials.end(), response.trials().begin(), response.trials().end());
      request.set_page_token(response.next_page_token());
    } while (!request.page_token().empty());
    return trials;
  }

  // Waits until the worker has a call for work parked: it is then seen whenever one looks.
  void AwaitPoll(const std::string& worker) {
    const auto seen_s = [&] {
      v1::ListWorkersResponse response;
      const grpc::Status status =
          Call(workers_, &v1::WorkerService::Stub::ListWorkers, v1::ListWorkersRequest(), &response);
      EXPECT_TRUE(status.ok()) << status.error_message();
      for (const v1::Worker& each : response.workers()) {
        if (each.name() == worker) return each.last_seen_s();
      }
      return 0.0;
    };
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    const double first_s = seen_s();
    while (seen_s() <= first_s && std::chrono::steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_GT(seen_s(), first_s) << worker << " does not ask for work";
  }

  struct Stream {
    std::vector<v1::StudyEvent> events;
    grpc::Status status;
  };
  // Watches until the stream ends or `until` returns true.
  Stream Watch(const std::string& name, std::int64_t cursor = 0,
               const std::function<bool(const v1::StudyEvent&)>& until = {}) {
    Stream stream;
    v1::WatchStudyRequest request;
    request.set_name(name);
    request.set_resume_cursor(cursor);
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    auto reader = studies_->WatchStudy(&context, request);
    v1::StudyEvent event;
    while (reader->Read(&event)) {
      stream.events.push_back(event);
      if (until && until(event)) {
        context.TryCancel();
        break;
      }
    }
    stream.status = reader->Finish();
    return stream;
  }
  // Watches the study until it ends.
  v1::Study Finish(const std::string& name) {
    const Stream stream = Watch(name);
    EXPECT_TRUE(stream.status.ok()) << stream.status.error_message();
    return Get(name);
  }

  TempDir dir_;
  std::unique_ptr<Coordinator> coordinator_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::StudyService::Stub> studies_;
  std::unique_ptr<v1::WorkerService::Stub> workers_;
};

}  // namespace autocfg::server
