// Who may call a coordinator: tokens, roles, owners, and the audit log.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "autocfg/v1/access_service.grpc.pb.h"
#include "autocfg/v1/study_service.grpc.pb.h"
#include "autocfg/v1/worker_service.grpc.pb.h"
#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "proto/rpc/channel.h"
#include "server/access/audit_log.h"
#include "server/access/rights.h"
#include "server/access/token_table.h"
#include "server/coordinator/coordinator.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

// Returns the methods of the API, each as "/package.Service/Method".
std::vector<std::string> AllMethods() {
  std::vector<std::string> methods;
  for (const char* service :
       {"autocfg.v1.StudyService", "autocfg.v1.WorkerService", "autocfg.v1.AccessService"}) {
    const auto* found = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(service);
    if (found == nullptr) {
      ADD_FAILURE() << service;
      continue;
    }
    for (int i = 0; i < found->method_count(); ++i)
      methods.push_back("/" + std::string(service) + "/" + found->method(i)->name());
  }
  return methods;
}

std::vector<nlohmann::json> JsonLines(const std::string& path) {
  std::vector<nlohmann::json> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

AuditEntry Entry(const std::string& method) {
  return {
      .principal = "", .token = "", .role = "", .peer = "", .method = method, .subject = "", .status = {}};
}

TEST(AuditLog, RefusedCallsHaveAFileOfTheirOwnAndAreCountedBeyondALimit) {
  const TempDir dir;
  const std::string path = dir.File("audit.jsonl");
  EXPECT_EQ(AuditLog::RefusedPath("a/audit.jsonl"), "a/audit.refused.jsonl");
  EXPECT_EQ(AuditLog::RefusedPath("a.d/audit"), "a.d/audit.refused");
  const absl::Time start = absl::FromUnixSeconds(1000);
  {
    auto log = AuditLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    (*log)->Write(Entry("/changes"));
    for (int i = 0; i < 1000; ++i) (*log)->WriteRefused(Entry("/refused"), start + absl::Microseconds(i));
    (*log)->WriteRefused(Entry("/later"), start + absl::Seconds(2));
    for (int i = 0; i < 20; ++i) (*log)->WriteRefused(Entry("/refused"), start + absl::Seconds(2));
  }
  ASSERT_EQ(JsonLines(path).size(), 1u);
  EXPECT_EQ(JsonLines(path)[0]["method"], "/changes");
  constexpr std::size_t kMost = AuditLog::kMostRefusedLines;
  const auto refused = JsonLines(AuditLog::RefusedPath(path));
  ASSERT_EQ(refused.size(), 2 * kMost + 2);
  EXPECT_EQ(refused[0]["time"], "1970-01-01T00:16:40.000Z");
  EXPECT_EQ(refused[kMost]["not_written"], 1000 - kMost);
  EXPECT_EQ(refused[kMost + 1]["method"], "/later");
  EXPECT_EQ(refused.back()["not_written"], 21 - kMost) << "the end writes the last count";
}

TEST(AuditLog, BeginsAFileAnewThatWasRemoved) {
  const TempDir dir;
  std::filesystem::create_directory(dir.File("logs"));
  const std::string path = dir.File("logs") + "/audit.jsonl";
  const auto log = AuditLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  (*log)->Write(Entry("/first"));
  std::filesystem::remove_all(dir.File("logs"));
  (*log)->Write(Entry("/second"));
  ASSERT_EQ(JsonLines(path).size(), 1u);
  EXPECT_EQ(JsonLines(path)[0]["method"], "/second");
}

TEST(AuditLog, IsARegularFile) {
  const auto log = AuditLog::Open("/dev/full");
  EXPECT_EQ(log.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(log.status().message()),
              ::testing::HasSubstr("/dev/full: is no regular file, and its rotation would rename it"));
}

TEST(Rights, EachMethodHasItsRight) {
  const std::set<std::string> administers = {
      "/autocfg.v1.WorkerService/DrainWorker", "/autocfg.v1.AccessService/CreateToken",
      "/autocfg.v1.AccessService/ListTokens", "/autocfg.v1.AccessService/DeleteToken"};
  for (const std::string& method : AllMethods()) {
    EXPECT_EQ(RightOf(method) == Right::kAdminister, administers.contains(method))
        << method << ": decide who may call it in server/access/rights.cc";
    EXPECT_NE(RightOf(method), Right::kPublic) << method;
    EXPECT_TRUE(CheckRight(v1::ROLE_ADMIN, method).ok());
    EXPECT_FALSE(CheckRight(v1::ROLE_UNSPECIFIED, method).ok());
    if (CheckRight(v1::ROLE_READ, method).ok()) {
      EXPECT_TRUE(CheckRight(v1::ROLE_SUBMIT, method).ok());
    }
  }
  EXPECT_TRUE(absl::IsPermissionDenied(CheckRight(v1::ROLE_SUBMIT, "/autocfg.v1.Unknown/Method")));
  EXPECT_FALSE(CheckRight(v1::ROLE_WORKER, "/autocfg.v1.StudyService/ListStudies").ok());
  EXPECT_FALSE(CheckRight(v1::ROLE_SUBMIT, "/autocfg.v1.WorkerService/LeaseWork").ok());
  EXPECT_THAT(std::string(CheckRight(v1::ROLE_READ, "/autocfg.v1.StudyService/CancelStudy").message()),
              HasSubstr("the role read may not call it; use one with the role submit or admin"));
}

class TokenTableTest : public testing::Test {
 protected:
  static v1::Token Token(const std::string& id, v1::Role role = v1::ROLE_READ) {
    v1::Token token;
    token.set_name("tokens/" + id);
    token.set_role(role);
    return token;
  }

  std::unique_ptr<Store> store_ = *OpenMemoryStore();
  double now_s_ = 1000;
  TokenTable table_{*store_, [this] { return now_s_; }};
};

TEST_F(TokenTableTest, TokensAreFoundByTheirTextAfterARestartToo) {
  const auto made = table_.Create(Token("ci"));
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_EQ(made->token().owner(), "ci");
  EXPECT_EQ(made->token().create_time_s(), 1000);
  EXPECT_EQ(made->text().size(), 8u + 64u);
  EXPECT_EQ(table_.Find(made->text())->name(), "tokens/ci");
  EXPECT_FALSE(table_.Find(made->text() + "0"));
  EXPECT_FALSE(table_.Find(""));
  TokenTable again(*store_, [] { return 1001.0; });
  EXPECT_FALSE(again.Find(made->text()));
  ASSERT_TRUE(again.Load().ok());
  EXPECT_EQ(again.Find(made->text())->name(), "tokens/ci");
  const auto records = store_->ListTokens();
  ASSERT_TRUE(records.ok()) << records.status();
  ASSERT_EQ(records->size(), 1u);
  for (const TokenRecord& record : *records) {
    EXPECT_EQ(record.hash.find(made->text()), std::string::npos);
    EXPECT_EQ(record.token.DebugString().find(made->text()), std::string::npos) << "only the hash is kept";
  }
}

TEST_F(TokenTableTest, ExpiredAndDeletedTokensAreNotFound) {
  v1::Token short_lived = Token("guest");
  short_lived.set_expire_time_s(1060);
  const auto guest = table_.Create(short_lived);
  const auto ci = table_.Create(Token("ci"));
  ASSERT_TRUE(guest.ok() && ci.ok());
  EXPECT_TRUE(table_.Find(guest->text()));
  now_s_ = 1060;
  EXPECT_FALSE(table_.Find(guest->text()));
  EXPECT_TRUE(table_.Find(ci->text()));
  ASSERT_TRUE(table_.Delete("tokens/ci").ok());
  EXPECT_FALSE(table_.Find(ci->text()));
  EXPECT_TRUE(absl::IsNotFound(table_.Delete("tokens/ci")));
  ASSERT_EQ(table_.List().size(), 1u);
}

TEST_F(TokenTableTest, WhatATokenCannotBeIsRejected) {
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Create(Token("")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Create(Token("a b")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Create(Token(std::string(101, 'a'))).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Create(Token("a", v1::ROLE_UNSPECIFIED)).status()));
  v1::Token past = Token("a");
  past.set_expire_time_s(999);
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Create(past).status()));
  v1::Token owned = Token("a");
  owned.set_owner("a\nb");
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Create(owned).status()));
  ASSERT_TRUE(table_.Create(Token("a")).ok());
  EXPECT_TRUE(absl::IsAlreadyExists(table_.Create(Token("a")).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(table_.Delete("a")));
}

// A coordinator that asks for tokens on loopback, with a Unix socket beside it, and an audit log.
class AccessTest : public testing::Test {
 protected:
  void SetUp() override {
    KeepGrpc();
    CoordinatorOptions options;
    options.address = "127.0.0.1:0";
    options.more_addresses = {"unix:" + dir_.File("s")};
    options.tokens = true;
    options.audit_log = dir_.File("audit.jsonl");
    auto coordinator = Coordinator::Start(*OpenMemoryStore(), options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
  }

  std::shared_ptr<grpc::Channel> Channel(const std::string& token) const {
    return NewChannel({.target = coordinator_->address(), .token = token});
  }
  std::shared_ptr<grpc::Channel> Socket() const {
    return NewChannel({.target = coordinator_->addresses().at(1)});
  }
  std::string Token(const std::string& id, v1::Role role) const {
    v1::CreateTokenRequest request;
    request.mutable_token()->set_name("tokens/" + id);
    request.mutable_token()->set_role(role);
    v1::CreateTokenResponse response;
    grpc::ClientContext context;
    const auto stub = v1::AccessService::NewStub(Socket());
    const grpc::Status status = stub->CreateToken(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response.text();
  }
  // Calls a method with an empty message.
  static grpc::Status Raw(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
    grpc::GenericStub stub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    grpc::CompletionQueue queue;
    const grpc::Slice nothing("", 0);
    const grpc::ByteBuffer request(&nothing, 1);
    grpc::ByteBuffer response;
    grpc::Status status;
    const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
    call->StartCall();
    int tag_of_call = 0;
    call->Finish(&response, &status, &tag_of_call);
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return status;
  }
  template <typename Request, typename Response, typename Method>
  static grpc::Status Ask(const std::shared_ptr<grpc::Channel>& channel, Method method,
                          const Request& request, Response* response) {
    const auto stub = v1::StudyService::NewStub(channel);
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
    return ((*stub).*method)(&context, request, response);
  }
  // Returns the name of a new study.
  static std::string Created(const std::shared_ptr<grpc::Channel>& channel) {
    v1::CreateStudyRequest request;
    *request.mutable_spec() = SmallSpec();
    v1::Study study;
    const grpc::Status status = Ask(channel, &v1::StudyService::Stub::CreateStudy, request, &study);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return study.name();
  }
  static grpc::Status Cancel(const std::shared_ptr<grpc::Channel>& channel, const std::string& name) {
    v1::CancelStudyRequest request;
    request.set_name(name);
    v1::Study study;
    return Ask(channel, &v1::StudyService::Stub::CancelStudy, request, &study);
  }
  std::vector<nlohmann::json> Audited(const std::string& file = "audit.jsonl") const {
    return JsonLines(dir_.File(file));
  }
  void Delete(const std::string& id) const {
    v1::DeleteTokenRequest request;
    request.set_name("tokens/" + id);
    v1::DeleteTokenResponse response;
    grpc::ClientContext context;
    const grpc::Status status =
        v1::AccessService::NewStub(Socket())->DeleteToken(&context, request, &response);
    EXPECT_TRUE(status.ok()) << status.error_message();
  }

  const TempDir dir_;
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(AccessTest, NoMethodIsAnsweredWithoutAToken) {
  const auto none = Channel("");
  const auto unknown = Channel("autocfg_" + std::string(64, '0'));
  for (const std::string& method : AllMethods()) {
    const grpc::Status status = Raw(none, method);
    EXPECT_EQ(status.error_code(), StatusCode::UNAUTHENTICATED) << method << status.error_message();
    EXPECT_THAT(status.error_message(), HasSubstr("--token-file"));
    EXPECT_EQ(Raw(unknown, method).error_code(), StatusCode::UNAUTHENTICATED) << method;
  }
  EXPECT_TRUE(Raw(none, "/grpc.health.v1.Health/Check").ok()) << "probes need none";
}

TEST_F(AccessTest, EachRoleCallsItsMethodsAndNoOther) {
  const std::map<v1::Role, std::string> names = {{v1::ROLE_READ, "reader"},
                                                 {v1::ROLE_SUBMIT, "submitter"},
                                                 {v1::ROLE_WORKER, "worker"},
                                                 {v1::ROLE_ADMIN, "admin"}};
  for (const auto& [role, name] : names) {
    const auto channel = Channel(Token(name, role));
    for (const std::string& method : AllMethods()) {
      // A stream of requests does not end with one message; roles that may call it are left out.
      const bool allowed = CheckRight(role, method).ok();
      if (allowed && method.ends_with("/Predict")) continue;
      const grpc::Status status = Raw(channel, method);
      EXPECT_EQ(status.error_code() == StatusCode::PERMISSION_DENIED, !allowed)
          << name << " " << method << " " << status.error_message();
      EXPECT_NE(status.error_code(), StatusCode::UNAUTHENTICATED) << name << " " << method;
    }
  }
}

TEST_F(AccessTest, StudiesBelongToTheirTokensOwner) {
  const auto alice = Channel(Token("alice", v1::ROLE_SUBMIT));
  const auto bob = Channel(Token("bob", v1::ROLE_SUBMIT));
  const auto admin = Channel(Token("root", v1::ROLE_ADMIN));
  const std::string hers = Created(alice);
  v1::GetStudyRequest get;
  get.set_name(hers);
  v1::Study study;
  ASSERT_TRUE(Ask(bob, &v1::StudyService::Stub::GetStudy, get, &study).ok()) << "everyone reads";
  EXPECT_EQ(study.owner(), "alice");
  const grpc::Status refused = Cancel(bob, hers);
  EXPECT_EQ(refused.error_code(), StatusCode::PERMISSION_DENIED);
  EXPECT_THAT(refused.error_message(), HasSubstr(hers + " belongs to alice"));
  v1::DeleteStudyRequest gone;
  gone.set_name(hers);
  v1::DeleteStudyResponse deleted;
  EXPECT_EQ(Ask(bob, &v1::StudyService::Stub::DeleteStudy, gone, &deleted).error_code(),
            StatusCode::PERMISSION_DENIED);
  v1::RetryTrialRequest retry;
  retry.set_name(hers + "/trials/1");
  v1::Trial trial;
  EXPECT_EQ(Ask(bob, &v1::StudyService::Stub::RetryTrial, retry, &trial).error_code(),
            StatusCode::PERMISSION_DENIED);
  v1::UpdateStudyRequest update;
  update.mutable_study()->set_name(hers);
  update.mutable_study()->set_weight(2);
  EXPECT_EQ(Ask(bob, &v1::StudyService::Stub::UpdateStudy, update, &study).error_code(),
            StatusCode::PERMISSION_DENIED);
  EXPECT_TRUE(Ask(alice, &v1::StudyService::Stub::UpdateStudy, update, &study).ok());
  std::vector<nlohmann::json> updates = Audited();
  std::erase_if(updates,
                [](const auto& line) { return line["method"] != "/autocfg.v1.StudyService/UpdateStudy"; });
  ASSERT_EQ(updates.size(), 2u);
  EXPECT_EQ(updates[0]["principal"], "bob");
  EXPECT_EQ(updates[0]["subject"], hers) << "also of a call that is refused";
  EXPECT_EQ(updates[1]["status"], "OK");
  EXPECT_TRUE(Cancel(alice, hers).ok());
  EXPECT_TRUE(Cancel(admin, Created(alice)).ok());
  EXPECT_TRUE(Cancel(Socket(), Created(alice)).ok()) << "the socket is an administrator's";
  EXPECT_EQ(Cancel(bob, "studies/999").error_code(), StatusCode::NOT_FOUND);
}

TEST_F(AccessTest, TheAuditLogSaysWhoChangedWhat) {
  const auto alice = Channel(Token("alice", v1::ROLE_SUBMIT));
  const std::string hers = Created(alice);
  const auto bob = Channel(Token("bob", v1::ROLE_READ));
  EXPECT_FALSE(Cancel(bob, hers).ok());
  EXPECT_TRUE(Cancel(alice, hers).ok());
  v1::ListStudiesResponse listed;
  EXPECT_TRUE(Ask(alice, &v1::StudyService::Stub::ListStudies, v1::ListStudiesRequest(), &listed).ok());
  v1::ListTokensResponse tokens;
  grpc::ClientContext context;
  ASSERT_TRUE(
      v1::AccessService::NewStub(Socket())->ListTokens(&context, v1::ListTokensRequest(), &tokens).ok());
  const std::vector<nlohmann::json> lines = Audited();
  ASSERT_EQ(lines.size(), 4u) << "two tokens, a study, a cancellation; no reads";
  EXPECT_EQ(lines[0]["method"], "/autocfg.v1.AccessService/CreateToken");
  EXPECT_EQ(lines[0]["subject"], "tokens/alice");
  EXPECT_EQ(lines[0]["role"], "admin");
  EXPECT_EQ(lines[1]["method"], "/autocfg.v1.StudyService/CreateStudy");
  EXPECT_EQ(lines[1]["principal"], "alice");
  EXPECT_EQ(lines[1]["token"], "tokens/alice");
  EXPECT_EQ(lines[1]["subject"], hers);
  EXPECT_EQ(lines[1]["status"], "OK");
  EXPECT_EQ(lines[3]["subject"], hers);
  EXPECT_THAT(lines[3]["peer"].get<std::string>(), HasSubstr("127.0.0.1"));
  EXPECT_THAT(lines[3]["time"].get<std::string>(), testing::MatchesRegex("20..-..-..T..:..:..\\..*Z"));
  const std::vector<nlohmann::json> refused = Audited("audit.refused.jsonl");
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0]["principal"], "bob");
  EXPECT_EQ(refused[0]["status"], "PERMISSION_DENIED");
}

TEST_F(AccessTest, ADeletedTokenEndsItsStreams) {
  const auto alice = Channel(Token("alice", v1::ROLE_SUBMIT));
  v1::WatchStudyRequest watch;
  watch.set_name(Created(alice));
  const auto stub = v1::StudyService::NewStub(alice);
  grpc::ClientContext watching, predicting;
  for (grpc::ClientContext* context : {&watching, &predicting})
    context->set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto events = stub->WatchStudy(&watching, watch);
  v1::StudyEvent event;
  ASSERT_TRUE(events->Read(&event));
  const auto predictions = stub->Predict(&predicting);
  ASSERT_TRUE(predictions->Write(v1::PredictRequest()));
  v1::PredictResponse answer;
  ASSERT_TRUE(predictions->Read(&answer));
  Delete("alice");
  EXPECT_FALSE(events->Read(&event)) << "nothing has happened to the study";
  EXPECT_EQ(events->Finish().error_code(), StatusCode::UNAUTHENTICATED);
  predictions->Write(v1::PredictRequest());
  EXPECT_FALSE(predictions->Read(&answer));
  EXPECT_EQ(predictions->Finish().error_code(), StatusCode::UNAUTHENTICATED);
}

TEST_F(AccessTest, AParkedCallOfADeletedTokenGetsNoWork) {
  const auto stub = v1::WorkerService::NewStub(Channel(Token("nodes", v1::ROLE_WORKER)));
  v1::RegisterWorkerRequest join;
  join.set_worker("workers/a");
  join.set_boot_id("boot");
  join.mutable_inventory()->set_slots(1);
  v1::RegisterWorkerResponse joined;
  grpc::ClientContext joining;
  const grpc::Status status = stub->RegisterWorker(&joining, join, &joined);
  ASSERT_TRUE(status.ok()) << status.error_message();
  v1::LeaseWorkRequest poll;
  poll.set_worker("workers/a");
  poll.set_session_epoch(joined.session_epoch());
  poll.set_wait_s(10);
  grpc::ClientContext polling;
  grpc::Status refused;
  std::thread parked([&] {
    v1::LeaseWorkResponse work;
    refused = stub->LeaseWork(&polling, poll, &work);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(200));  // it is most likely parked by now
  Delete("nodes");
  parked.join();
  EXPECT_EQ(refused.error_code(), StatusCode::UNAUTHENTICATED) << refused.error_message();
}

TEST(PeerText, IsReadable) {
  CoordinatorOptions options;
  options.address = "[::1]:0";
  const TempDir dir;
  options.audit_log = dir.File("audit.jsonl");
  auto coordinator = Coordinator::Start(*OpenMemoryStore(), options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  v1::CancelStudyRequest request;
  request.set_name("studies/1");
  v1::Study study;
  grpc::ClientContext context;
  EXPECT_FALSE(v1::StudyService::NewStub(NewChannel({.target = (*coordinator)->address()}))
                   ->CancelStudy(&context, request, &study)
                   .ok());
  const auto lines = JsonLines(options.audit_log);
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0]["peer"].get<std::string>(), testing::StartsWith("ipv6:[::1]:"));
}

TEST(OpenToOthers, CallsNeedTokensAndEncryptionOrInsecure) {
  const TempDir dir;
  const test::CertificateAuthority authority("tests");
  const test::PemPair pair = authority.Issue("server", "DNS:localhost");
  std::ofstream(dir.File("cert.pem")) << pair.certificate;
  std::ofstream(dir.File("key.pem")) << pair.key;
  const TlsFiles tls = {.certificate = dir.File("cert.pem"), .key = dir.File("key.pem")};
  const auto started = [&](const TlsFiles& files, bool tokens, bool insecure) {
    CoordinatorOptions options;
    options.address = "0.0.0.0:0";
    options.tls = files;
    options.tokens = tokens;
    options.insecure = insecure;
    return Coordinator::Start(*OpenMemoryStore(), options).status();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(started({}, false, false)));
  EXPECT_TRUE(absl::IsInvalidArgument(started({}, true, false)));
  EXPECT_TRUE(absl::IsInvalidArgument(started({}, true, true))) << "tokens never travel in plain text";
  EXPECT_TRUE(absl::IsInvalidArgument(started(tls, false, false)));
  EXPECT_TRUE(started({}, false, true).ok());
  EXPECT_TRUE(started(tls, true, false).ok());
  EXPECT_TRUE(started(tls, false, true).ok());
}

}  // namespace
}  // namespace autocfg::server
