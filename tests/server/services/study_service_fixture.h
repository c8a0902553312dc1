// Fixture: a coordinator whose StudyService is tested.
#pragma once

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::server {

class StudyServiceTest : public CoordinatorFixture {
 protected:
  void SetUp() override { Open(); }

  // Expects that the study is not created and that the one-line error contains `words`.
  void ExpectRefused(const v1::SearchSpec& spec, grpc::StatusCode code, const std::string& words) {
    const grpc::Status status = CreateStatus(spec);
    EXPECT_EQ(status.error_code(), code) << status.error_message();
    EXPECT_THAT(status.error_message(), testing::HasSubstr(words));
    EXPECT_THAT(status.error_message(), testing::Not(testing::HasSubstr("\n")));
  }
};

}  // namespace autocfg::server
