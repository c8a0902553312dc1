// What the tests of conversions share: messages as another process receives them, errors of invalid ones, and
// the page that documents them.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "proto/convert/spec_convert.h"
#include "proto/convert/trainer_convert.h"
#include "tests/support/build_paths.h"

namespace autocfg::test {

// Returns the error's text. Expects FromProto to answer InvalidArgument.
template <typename Message>
std::string Refusal(const Message& message) {
  const auto result = FromProto(message);
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument) << message.ShortDebugString();
  return std::string(result.status().message());
}

// Serializes and parses, so that tests compare what another process would receive.
template <typename Message>
Message Wire(const Message& message) {
  Message received;
  EXPECT_TRUE(received.ParseFromString(message.SerializeAsString()));
  return received;
}

inline std::string FormatsPage() {
  std::ifstream page(SourcePath("docs/formats.md"));
  return {std::istreambuf_iterator<char>(page), std::istreambuf_iterator<char>()};
}

}  // namespace autocfg::test
