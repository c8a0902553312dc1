// StudyService over the wire: the Predict stream.
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "nlohmann/json.hpp"
#include "proto/convert/spec_convert.h"
#include "search/question/prediction_json.h"
#include "server/services/study_service.h"
#include "tests/server/services/service_fixtures.h"

namespace autocfg::server {
namespace {

using grpc::StatusCode;
using testing::HasSubstr;

// Converts the request in `line` to a message.
v1::PredictRequest PredictionMessage(const std::string& id, const std::string& line) {
  const auto question = ParsePredictionRequest(nlohmann::ordered_json::parse(line));
  EXPECT_TRUE(question.ok()) << question.status();
  v1::PredictRequest request;
  request.set_id(id);
  *request.mutable_model() = ToProto(question->model);
  *request.mutable_cluster() = ToProto(question->cluster);
  *request.mutable_workload() = ToProto(question->workload);
  *request.mutable_plan() = ToProto(question->plan);
  return request;
}

TEST_F(StudyServiceTest, PredictionsMatchTheCommandLineInOrder) {
  const auto line = [](const std::string& plan) {
    return fmt::format(
        R"({{"model": "gpt3-175b", "cluster": "a100-80gb-sxm:8x8", "global_batch": 64, "plan": {{{}}}}})",
        plan);
  };
  const std::vector<std::string> plans = {R"("tp": 8, "pp": 8, "dp": 1, "micro_batch": 1)",
                                          R"("tp": 8, "pp": 4, "dp": 2, "micro_batch": 1)",
                                          R"("tp": 4, "pp": 8, "dp": 2, "micro_batch": 2)"};
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
  const auto stream = studies_->Predict(&context);
  PredictorCache predictors;
  v1::PredictResponse response;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    const AnsweredLine expected = AnswerPredictionLine(line(plans[i]), predictors);
    ASSERT_TRUE(expected.ok) << expected.text;
    const auto json = nlohmann::json::parse(expected.text);
    ASSERT_TRUE(stream->Write(PredictionMessage(std::to_string(i), line(plans[i]))));
    ASSERT_TRUE(stream->Read(&response));
    EXPECT_EQ(response.id(), std::to_string(i));
    EXPECT_EQ(response.error(), "");
    EXPECT_EQ(response.prediction().step_time_s(), json.at("step_time_s").get<double>());
    EXPECT_EQ(response.prediction().feasible(), json.at("feasible").get<bool>());
    EXPECT_EQ(response.prediction().memory_bytes().total(),
              json.at("memory_bytes").at("total").get<std::int64_t>());
  }
  EXPECT_EQ(response.notes_size(), 0) << "nothing was assumed";
  // What is assumed is said.
  v1::PredictRequest assumed = PredictionMessage("a", line(plans[0]));
  v1::DeviceSpec& device = *assumed.mutable_cluster()->mutable_groups(0)->mutable_device();
  device.clear_efficiency();
  ASSERT_TRUE(stream->Write(assumed) && stream->Read(&response));
  ASSERT_EQ(response.notes_size(), 1);
  EXPECT_THAT(response.notes(0), HasSubstr("a100-80gb-sxm"));
  // Unset fields have the same defaults.
  v1::PredictRequest defaults = PredictionMessage("d", line(plans[0]));
  defaults.mutable_workload()->clear_seq_len();
  defaults.mutable_workload()->clear_precision();
  ASSERT_TRUE(stream->Write(defaults) && stream->Read(&response));
  EXPECT_EQ(response.prediction().step_time_s(),
            nlohmann::json::parse(AnswerPredictionLine(line(plans[0]), predictors).text).at("step_time_s"));

  v1::PredictRequest tight = PredictionMessage("t", line(plans[0]));
  tight.set_memory_margin(0.999);
  ASSERT_TRUE(stream->Write(tight) && stream->Read(&response));
  EXPECT_FALSE(response.prediction().feasible());
  EXPECT_THAT(response.prediction().reason(), HasSubstr("the memory margin of 99.9%"));

  // Bad requests get their own error; the stream continues.
  const auto wrong = [&](const std::function<void(v1::PredictRequest&)>& edit, const std::string& words) {
    v1::PredictRequest request = PredictionMessage("w", line(plans[0]));
    edit(request);
    ASSERT_TRUE(stream->Write(request) && stream->Read(&response)) << words;
    EXPECT_THAT(response.error(), HasSubstr(words));
    EXPECT_THAT(response.error(), testing::Not(HasSubstr("\n")));
    EXPECT_FALSE(response.has_prediction());
  };
  wrong([](auto& r) { r.clear_model(); }, "model is missing");
  wrong([](auto& r) { r.clear_plan(); }, "plan is missing");
  wrong([](auto& r) { r.clear_workload(); }, "workload is missing");
  wrong([](auto& r) { r.mutable_model()->set_layers(-1); }, "layers");
  wrong([](auto& r) { r.mutable_workload()->set_seq_len(-1); }, "seq_len");
  wrong([](auto& r) { r.mutable_workload()->set_global_batch(-1); }, "global_batch");
  wrong([](auto& r) { r.mutable_workload()->set_precision("fp12"); }, "fp12");
  wrong([](auto& r) { r.mutable_cluster()->set_local(true); }, "local has no figures");
  wrong([](auto& r) { r.mutable_plan()->set_tp(7); }, "tp");
  wrong([](auto& r) { r.set_memory_margin(1); }, "memory_margin is 1");
  wrong([](auto& r) { r.set_id(std::string(2 << 20, 'x')); }, "longer than");
  wrong([](auto& r) { r.mutable_model()->set_name(std::string(2 << 20, 'x')); }, "longer than");
  EXPECT_EQ(response.id(), "w") << "who asked is told";
  ASSERT_TRUE(stream->Write(PredictionMessage("last", line(plans[1]))) && stream->Read(&response));
  EXPECT_EQ(response.id(), "last");
  EXPECT_TRUE(response.has_prediction());
  stream->WritesDone();
  EXPECT_FALSE(stream->Read(&response));
  EXPECT_TRUE(stream->Finish().ok());
}

// Idle streams hold a thread each, but do not block other calls.
TEST_F(StudyServiceTest, PredictStreamsAreBounded) {
  struct Stream {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReaderWriter<v1::PredictRequest, v1::PredictResponse>> calls;
  };
  // Returns true if the stream is answered.
  const auto begin = [&](Stream& stream) {
    stream.context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    stream.calls = studies_->Predict(&stream.context);
    v1::PredictResponse response;
    return stream.calls->Write(v1::PredictRequest()) && stream.calls->Read(&response);
  };
  std::vector<Stream> streams(kMaxPredictors);
  for (Stream& one : streams) ASSERT_TRUE(begin(one));
  Stream refused;
  EXPECT_FALSE(begin(refused));
  const grpc::Status status = refused.calls->Finish();
  EXPECT_EQ(status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(status.error_message(), HasSubstr("128 calls ask for predictions"));
  const std::string name = Create(SmallSpec()).name();
  for (int i = 0; i < 20; ++i) EXPECT_EQ(Get(name).name(), name);
  streams[0].calls->WritesDone();
  EXPECT_TRUE(streams[0].calls->Finish().ok());
  Stream next;
  EXPECT_TRUE(begin(next)) << "one has ended";
  next.calls->WritesDone();
  EXPECT_TRUE(next.calls->Finish().ok());
  for (Stream& one : streams) one.context.TryCancel();
  for (std::size_t i = 1; i < streams.size(); ++i) streams[i].calls->Finish();
}

}  // namespace
}  // namespace autocfg::server
