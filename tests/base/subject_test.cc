// Errors that carry their subject, option and problem.
#include "base/subject.h"

#include <string>

#include "gtest/gtest.h"

namespace autocfg::base {
namespace {

std::string Message(const absl::Status& status) { return std::string(status.message()); }

TEST(Subject, MessageIsSubjectAndProblem) {
  const absl::Status status = SubjectError(absl::StatusCode::kInvalidArgument, "model", "heads is 0");
  EXPECT_EQ(Message(status), "model: heads is 0");
  EXPECT_EQ(SubjectOf(status), "model");
  EXPECT_EQ(ProblemOf(status), "heads is 0");
  EXPECT_EQ(OptionOf(status), "");
}

TEST(Subject, LabelStandsInTheMessageOnly) {
  const absl::Status status =
      SubjectError(absl::StatusCode::kInvalidArgument, "cluster", "cluster of x", "it has no bandwidth");
  EXPECT_EQ(Message(status), "cluster of x: it has no bandwidth");
  EXPECT_EQ(SubjectOf(status), "cluster");
  EXPECT_EQ(Message(WithSubject("--cluster", status)), "--cluster: it has no bandwidth");
}

TEST(Subject, CanBeReplaced) {
  const absl::Status status =
      OptionError(absl::StatusCode::kUnimplemented, "plan", "sp", "sp=1 is not supported yet");
  const absl::Status renamed = WithSubject("--plan", status);
  EXPECT_EQ(Message(renamed), "--plan: sp=1 is not supported yet");
  EXPECT_EQ(renamed.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(OptionOf(renamed), "sp");
  EXPECT_EQ(SubjectOf(renamed), "--plan");
}

TEST(Subject, OuterSubjectsAddUpUntilReplaced) {
  const absl::Status inner = SubjectError(absl::StatusCode::kInvalidArgument, "model", "heads is 0");
  const absl::Status outer = Within("spec.model", inner);
  EXPECT_EQ(Message(outer), "spec.model: model: heads is 0");
  EXPECT_EQ(SubjectOf(outer), "spec.model");
  EXPECT_EQ(Message(WithSubject("--model", outer)), "--model: heads is 0");
}

TEST(Subject, StatusesWithoutOneAreTakenWhole) {
  const absl::Status status = absl::NotFoundError("no such file");
  EXPECT_EQ(SubjectOf(status), "");
  EXPECT_EQ(Message(WithSubject("--model", status)), "--model: no such file");
  EXPECT_TRUE(WithSubject("--model", absl::OkStatus()).ok());
  EXPECT_TRUE(Within("--model", absl::OkStatus()).ok());
}

}  // namespace
}  // namespace autocfg::base
