// Coordinators whose calls are encrypted.
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/client/study_client.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/endpoint.h"
#include "server/coordinator/coordinator.h"
#include "server/store/sqlite/sqlite_store.h"
#include "tests/server/program_process.h"
#include "tests/support/certificates.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

using testing::HasSubstr;

constexpr const char* kHere = "DNS:localhost,IP:127.0.0.1";

class EncryptedCallsTest : public testing::Test {
 protected:
  // Writes a file under its final name at once.
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.File(name + ".new"), std::ios::binary) << text;
    std::filesystem::rename(dir_.File(name + ".new"), dir_.File(name));
    return dir_.File(name);
  }
  TlsFiles Issued(const std::string& name, const std::string& hosts) const {
    const test::PemPair pair = authority_.Issue(name, hosts);
    return {.authorities = "",
            .certificate = Write(name + ".pem", pair.certificate),
            .key = Write(name + "_key.pem", pair.key)};
  }
  void Open(const TlsFiles& tls) {
    KeepGrpc();
    CoordinatorOptions options;
    options.address = "127.0.0.1:0";
    options.more_addresses = {"unix:" + dir_.File("s")};
    options.tls = tls;
    options.insecure = true;
    auto coordinator = Coordinator::Start(*OpenMemoryStore(), options);
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    coordinator_ = *std::move(coordinator);
  }
  absl::Status Ask(const TlsFiles& files) const {
    return StudyClient(Endpoint{.target = coordinator_->address(), .tls = files.given(), .files = files})
        .ListStudies()
        .status();
  }

  const TempDir dir_;
  const test::CertificateAuthority authority_{"tests"};
  const std::string trusted_ = Write("ca.pem", authority_.certificate());
  std::unique_ptr<Coordinator> coordinator_;
};

TEST_F(EncryptedCallsTest, ClientsThatTrustTheAuthorityAreAnswered) {
  Open(Issued("server", kHere));
  EXPECT_TRUE(Ask({.authorities = trusted_}).ok()) << Ask({.authorities = trusted_});
  const test::CertificateAuthority stranger("strangers");
  const absl::Status distrusted = Ask({.authorities = Write("other.pem", stranger.certificate())});
  EXPECT_TRUE(absl::IsUnavailable(distrusted));
  EXPECT_THAT(std::string(distrusted.message()), HasSubstr("is not trusted"));
  EXPECT_TRUE(absl::IsUnavailable(Ask({}))) << "plain text";
  ASSERT_EQ(coordinator_->addresses().size(), 2u);
  EXPECT_TRUE(StudyClient(coordinator_->addresses()[1]).ListStudies().ok()) << "the socket is plain";
}

TEST_F(EncryptedCallsTest, TheCertificateMustBeForTheHost) {
  Open(Issued("server", "DNS:other.example"));
  const absl::Status refused = Ask({.authorities = trusted_});
  EXPECT_TRUE(absl::IsUnavailable(refused));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is for other names"));
}

TEST_F(EncryptedCallsTest, ClientsShowACertificateWhereOneIsAsked) {
  TlsFiles server = Issued("server", kHere);
  server.authorities = trusted_;
  Open(server);
  TlsFiles client = Issued("client", "DNS:client");
  client.authorities = trusted_;
  EXPECT_TRUE(Ask(client).ok()) << Ask(client);
  const absl::Status bare = Ask({.authorities = trusted_});
  EXPECT_TRUE(absl::IsUnavailable(bare)) << "no certificate";
  EXPECT_THAT(std::string(bare.message()), HasSubstr("give --tls-cert and --tls-key"));
  const test::PemPair forged = test::CertificateAuthority("strangers").Issue("client", "DNS:client");
  EXPECT_TRUE(absl::IsUnavailable(Ask({.authorities = trusted_,
                                       .certificate = Write("forged.pem", forged.certificate),
                                       .key = Write("forged_key.pem", forged.key)})));
}

TEST_F(EncryptedCallsTest, RenewedCertificatesAreTakenWithoutARestart) {
  Open(Issued("server", kHere));
  ASSERT_TRUE(Ask({.authorities = trusted_}).ok());
  const test::CertificateAuthority next("next");
  const test::PemPair renewed = next.Issue("server", kHere);
  Write("server_key.pem", renewed.key);
  Write("server.pem", renewed.certificate);
  const TlsFiles trusting = {.authorities = Write("next.pem", next.certificate())};
  bool answered = false;
  for (int i = 0; i < 200 && !answered; ++i) {
    answered = Ask(trusting).ok();
    if (!answered) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_TRUE(answered);
  EXPECT_TRUE(absl::IsUnavailable(Ask({.authorities = trusted_}))) << "the old authority's time is over";
}

TEST_F(EncryptedCallsTest, TheProgramNamesWhatItCannotUse) {
  const TlsFiles files = Issued("server", kHere);
  const auto error_of = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--listen", "127.0.0.1:0", "--db", dir_.File("autocfg.db")});
    ProgramProcess process(args);
    std::string line = process.Line();
    EXPECT_EQ(process.Wait(), 2);
    return line;
  };
  EXPECT_THAT(error_of({"--tls-cert", files.certificate}), HasSubstr("--tls-key is missing"));
  EXPECT_THAT(error_of({"--tls-client-ca", trusted_}), HasSubstr("--tls-cert is missing"));
  EXPECT_THAT(error_of({"--tls-cert", dir_.File("none"), "--tls-key", files.key}),
              HasSubstr("--tls-cert: " + dir_.File("none") + ": cannot be read"));
}

}  // namespace
}  // namespace autocfg::server
