// Every method of the API has a handler. A method that is declared but not overridden compiles, and gRPC
// answers it.
#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/descriptor.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"
#include "server/listen/grpc_server.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/support/build_paths.h"

namespace autocfg::server {
namespace {

using testing::IsEmpty;

// Returns the methods of all services that the API declares, as "/package.Service/Method".
std::vector<std::string> DeclaredMethods() {
  std::vector<std::string> methods;
  for (const auto& entry : std::filesystem::directory_iterator(SourcePath("proto/autocfg/v1"))) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with("_service.proto")) continue;
    const google::protobuf::FileDescriptor* file =
        google::protobuf::DescriptorPool::generated_pool()->FindFileByName("autocfg/v1/" + name);
    if (file == nullptr) {
      ADD_FAILURE() << name << " is not part of the server";
      continue;
    }
    for (int i = 0; i < file->service_count(); ++i) {
      const google::protobuf::ServiceDescriptor* service = file->service(i);
      for (int j = 0; j < service->method_count(); ++j)
        methods.push_back("/" + service->full_name() + "/" + service->method(j)->name());
    }
  }
  return methods;
}

// Calls a method, of any kind, with one empty request.
grpc::Status CallEmpty(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(20));
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  await();
  const grpc::Slice nothing("");
  call->Write(grpc::ByteBuffer(&nothing, 1), nullptr);
  await();
  call->WritesDone(nullptr);
  await();
  grpc::ByteBuffer response;
  do {
    call->Read(&response, nullptr);
  } while (await());
  grpc::Status status;
  call->Finish(&status, nullptr);
  await();
  queue.Shutdown();
  while (await()) {
  }
  return status;
}

// Returns the declared methods that gRPC answers instead of a handler: as unimplemented, or, by
// MalformedCallsSaySo, as requests that do not parse. A handler may answer "not supported yet"
// (NotSupportedYet).
std::vector<std::string> MethodsWithoutHandler(const std::shared_ptr<grpc::Channel>& channel) {
  std::vector<std::string> without;
  for (const std::string& method : DeclaredMethods()) {
    const grpc::Status status = CallEmpty(channel, method);
    const std::string& text = status.error_message();
    const bool unimplemented = status.error_code() == grpc::StatusCode::UNIMPLEMENTED &&
                               text.find("is not supported yet") == std::string::npos;
    if (unimplemented || text.find("cannot be parsed as its message type") != std::string::npos)
      without.push_back(method);
  }
  return without;
}

class HandlersTest : public CoordinatorFixture {};

TEST_F(HandlersTest, EveryMethodOfTheApiHasOne) {
  Open();
  EXPECT_GE(DeclaredMethods().size(), 20u);
  EXPECT_THAT(MethodsWithoutHandler(channel_), IsEmpty())
      << "declared in proto/autocfg/v1, but not overridden in server/services";
}

TEST_F(HandlersTest, ServicesThatOverrideNothingHaveNone) {
  v1::StudyService::Service studies;
  v1::WorkerService::CallbackService workers;
  grpc::ServerBuilder builder;
  builder.RegisterService(&studies);
  builder.RegisterService(&workers);
  builder.experimental().SetInterceptorCreators(MalformedCallsSaySo());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  ASSERT_NE(server, nullptr);
  EXPECT_EQ(MethodsWithoutHandler(server->InProcessChannel({})), DeclaredMethods());
}

}  // namespace
}  // namespace autocfg::server
