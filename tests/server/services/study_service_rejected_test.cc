// StudyService over the wire: the ListRejected stream.
#include <chrono>
#include <map>
#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

struct Listed {
  grpc::Status status;
  std::map<std::string, std::int64_t> plans, left_out;  // by reason
  std::int64_t messages = 0;
};

class ListRejectedTest : public StudyServiceTest {
 protected:
  Listed List(const std::string& study, std::int64_t most = 0) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    v1::ListRejectedRequest request;
    request.set_study(study);
    request.set_most(most);
    const auto stream = studies_->ListRejected(&context, request);
    Listed listed;
    for (v1::RejectedPlans plans; stream->Read(&plans); ++listed.messages) {
      for (const v1::RejectedPlan& plan : plans.plans()) {
        ++listed.plans[plan.reason()];
        EXPECT_TRUE(plan.has_plan());
        EXPECT_NE(plan.detail(), "");
      }
      for (const auto& [reason, count] : plans.left_out()) listed.left_out[reason] += count;
    }
    listed.status = stream->Finish();
    return listed;
  }
};

TEST_F(ListRejectedTest, ListsWhatTheStudyCounts) {
  v1::SearchSpec spec = SmallSpec();
  spec.mutable_cluster()->mutable_groups(0)->mutable_device()->set_memory_bytes(1'000'000);
  const std::string study = Create(spec).name();
  EXPECT_EQ(List(study).status.error_code(), StatusCode::FAILED_PRECONDITION) << "it was not started";
  ASSERT_TRUE(Start(study).ok());
  Watch(study, 0, [](const v1::StudyEvent& event) { return event.study().counts().predicted() > 0; });
  const v1::Study planned = Get(study);
  const std::map<std::string, std::int64_t> counts(planned.counts().rejected().begin(),
                                                   planned.counts().rejected().end());
  EXPECT_GT(planned.counts().out_of_memory(), 0);
  const Listed all = List(study);
  ASSERT_TRUE(all.status.ok()) << all.status.error_message();
  EXPECT_EQ(all.plans, counts);
  EXPECT_TRUE(all.left_out.empty());
  Listed some = List(study, 10);
  ASSERT_TRUE(some.status.ok()) << some.status.error_message();
  std::int64_t listed = 0;
  for (const auto& [reason, count] : some.plans) {
    listed += count;
    some.left_out[reason] += count;
  }
  EXPECT_EQ(listed, 10);
  EXPECT_EQ(some.left_out, counts);
}

TEST_F(ListRejectedTest, RefusesWhatItCannotList) {
  EXPECT_EQ(List("studies/99").status.error_code(), StatusCode::NOT_FOUND);
  EXPECT_EQ(List("99").status.error_code(), StatusCode::INVALID_ARGUMENT);
  const std::string study = Create(SmallSpec()).name();
  for (const std::int64_t most : {std::int64_t{-1}, std::int64_t{1'000'001}}) {
    const Listed listed = List(study, most);
    EXPECT_EQ(listed.status.error_code(), StatusCode::INVALID_ARGUMENT);
    EXPECT_THAT(listed.status.error_message(), HasSubstr("from 0 to 1000000"));
  }
}

}  // namespace
}  // namespace autocfg::server
