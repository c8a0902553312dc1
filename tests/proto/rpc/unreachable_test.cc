#include "proto/rpc/unreachable.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace autocfg {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

std::string Said(const Endpoint& endpoint, const std::string& text) {
  const absl::Status why = Unreachable(endpoint, absl::UnavailableError(text));
  EXPECT_TRUE(absl::IsUnavailable(why));
  return std::string(why.message());
}

TEST(Unreachable, SaysWhatMayHelp) {
  const Endpoint plain{.target = "head:1"};
  const Endpoint trusting{.target = "head:1", .tls = true, .files = {.authorities = "ca.pem"}};
  Endpoint showing = trusting;
  showing.files.certificate = "me.pem";
  EXPECT_EQ(Said(plain, "connection refused"),
            "no coordinator answers there (connection refused); start autocfg-server there, or name another "
            "address");
  EXPECT_THAT(Said(plain, "Socket closed"), HasSubstr("if it encrypts calls, give --tls-ca"));
  EXPECT_THAT(Said(trusting, "Socket closed"), HasSubstr("give --tls-cert and --tls-key"));
  EXPECT_THAT(Said(showing, "Socket closed"), HasSubstr("--tls-cert must be of an authority"));
  EXPECT_THAT(Said(trusting, "Hostname Verification Check failed."),
              AllOf(HasSubstr("is for other names"), Not(HasSubstr("no coordinator answers"))));
  EXPECT_THAT(Said(trusting, "SSL routines::certificate verify failed"), HasSubstr("is not trusted"));
  EXPECT_THAT(Said(trusting, "SSL routines::wrong version number"), HasSubstr("does not encrypt"));
}

}  // namespace
}  // namespace autocfg
