// Part of the contract of Store: tokens of callers.
#pragma once

#include "tests/conformance/store_fixture.h"

namespace autocfg::server {

TEST_P(StoreSuite, TokensAreListedByNameUntilTheyAreRemoved) {
  const auto record = [](const std::string& id, const std::string& hash) {
    TokenRecord made{.token = {}, .hash = hash};
    made.token.set_name("tokens/" + id);
    made.token.set_role(v1::ROLE_SUBMIT);
    made.token.set_owner("owner of " + id);
    made.token.set_expire_time_s(12.5);
    return made;
  };
  EXPECT_TRUE(store_->ListTokens()->empty());
  ASSERT_TRUE(store_->AddToken(record("b", "2")).ok());
  ASSERT_TRUE(store_->AddToken(record("a", "1")).ok());
  EXPECT_EQ(store_->AddToken(record("a", "3")).code(), absl::StatusCode::kAlreadyExists);
  auto all = *store_->ListTokens();
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].token.name(), "tokens/a");
  EXPECT_EQ(all[0].hash, "1") << "as added first";
  EXPECT_EQ(all[0].token.role(), v1::ROLE_SUBMIT);
  EXPECT_EQ(all[0].token.owner(), "owner of a");
  EXPECT_EQ(all[0].token.expire_time_s(), 12.5);
  EXPECT_EQ(all[1].token.name(), "tokens/b");

  ASSERT_TRUE(store_->RemoveToken("tokens/a").ok());
  EXPECT_EQ(store_->RemoveToken("tokens/a").code(), absl::StatusCode::kNotFound);
  all = *store_->ListTokens();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].token.name(), "tokens/b");
  EXPECT_TRUE(store_->AddToken(record("a", "4")).ok()) << "the name is free again";
}

}  // namespace autocfg::server
