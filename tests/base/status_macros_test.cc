#include "base/status_macros.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace autocfg::base {
namespace {

absl::Status Check(int value, int* calls = nullptr) {
  if (calls != nullptr) ++*calls;
  return value >= 0 ? absl::OkStatus() : absl::OutOfRangeError("negative");
}

absl::StatusOr<int> Half(int value, int* calls = nullptr) {
  if (calls != nullptr) ++*calls;
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

TEST(ReturnIfError, ReturnsTheErrorAsItIs) {
  int calls = 0;
  const auto run = [&](int first, int second) -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR(Check(first, &calls));
    AUTOCFG_RETURN_IF_ERROR(Check(second, &calls));
    return absl::OkStatus();
  };
  EXPECT_TRUE(run(1, 2).ok());
  EXPECT_EQ(calls, 2) << "each expression is evaluated once";
  EXPECT_EQ(run(-1, 2), absl::OutOfRangeError("negative"));
  EXPECT_EQ(calls, 3) << "what follows the error is not evaluated";
  EXPECT_EQ(run(1, -2), absl::OutOfRangeError("negative"));
}

TEST(ReturnIfError, IsOneStatement) {
  const auto run = [](bool check, int value) -> absl::StatusOr<std::string> {
    if (check)
      AUTOCFG_RETURN_IF_ERROR(Check(value));
    else
      return "unchecked";
    return "checked";
  };
  EXPECT_EQ(*run(false, -1), "unchecked");
  EXPECT_EQ(*run(true, 1), "checked");
  EXPECT_EQ(run(true, -1).status(), absl::OutOfRangeError("negative"));
}

TEST(ReturnIfError, MayBeUsedWithinItself) {
  const auto run = [](int outer, int inner) -> absl::Status {
    AUTOCFG_RETURN_IF_ERROR([&]() -> absl::Status {
      AUTOCFG_RETURN_IF_ERROR(Check(inner));
      return Check(outer);
    }());
    return absl::OkStatus();
  };
  EXPECT_TRUE(run(1, 1).ok());
  EXPECT_FALSE(run(1, -1).ok());
  EXPECT_FALSE(run(-1, 1).ok());
}

struct Halves {
  int first = 0;
  int second = 0;
};

absl::StatusOr<Halves> HalvesOf(int first, int second, int* calls) {
  Halves halves;
  AUTOCFG_ASSIGN_OR_RETURN(halves.first, Half(first, calls));
  AUTOCFG_ASSIGN_OR_RETURN(const int half, Half(second, calls));
  halves.second = half;
  return halves;
}

TEST(AssignOrReturn, DeclaresAndAssigns) {
  int calls = 0;
  const auto halves = HalvesOf(4, 6, &calls);
  ASSERT_TRUE(halves.ok());
  EXPECT_EQ(halves->first, 2);
  EXPECT_EQ(halves->second, 3);
  EXPECT_EQ(calls, 2) << "each expression is evaluated once";
  EXPECT_EQ(HalvesOf(3, 6, &calls).status(), absl::InvalidArgumentError("odd"));
  EXPECT_EQ(calls, 3) << "what follows the error is not evaluated";
  EXPECT_EQ(HalvesOf(4, 7, &calls).status(), absl::InvalidArgumentError("odd"));
}

TEST(AssignOrReturn, LeavesTheVariableOnAnError) {
  int value = 5;
  const auto run = [&]() -> absl::Status {
    AUTOCFG_ASSIGN_OR_RETURN(value, Half(3));
    return absl::OkStatus();
  };
  EXPECT_FALSE(run().ok());
  EXPECT_EQ(value, 5);
}

TEST(AssignOrReturn, MovesTheValue) {
  const auto make = [](int value) -> absl::StatusOr<std::unique_ptr<int>> {
    AUTOCFG_RETURN_IF_ERROR(Check(value));
    return std::make_unique<int>(value);
  };
  const auto run = [&](int value) -> absl::StatusOr<std::unique_ptr<const int>> {
    AUTOCFG_ASSIGN_OR_RETURN(auto made, make(value));
    return made;
  };
  const auto made = run(7);
  ASSERT_TRUE(made.ok());
  EXPECT_EQ(**made, 7);
  EXPECT_FALSE(run(-7).ok());
}

TEST(AssignOrReturn, TakesExpressionsWithCommas) {
  const auto run = []() -> absl::StatusOr<int> {
    AUTOCFG_ASSIGN_OR_RETURN(const auto map, absl::StatusOr<std::map<int, int>>({{1, 2}, {3, 4}}));
    AUTOCFG_ASSIGN_OR_RETURN(const int half, true ? Half(map.at(3)) : Half(map.at(1)));
    return half;
  };
  EXPECT_EQ(*run(), 2);
}

}  // namespace
}  // namespace autocfg::base
