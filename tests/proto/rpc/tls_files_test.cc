#include "proto/rpc/tls_files.h"

#include <fstream>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/rpc/endpoint_options.h"
#include "tests/support/certificates.h"
#include "tests/support/scoped_variable.h"
#include "tests/support/temp_dir.h"

namespace autocfg {
namespace {

using testing::HasSubstr;

class TlsFilesTest : public testing::Test {
 protected:
  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.File(name), std::ios::binary) << text;
    return dir_.File(name);
  }
  TlsFiles Written(const test::PemPair& pair) const {
    return {.authorities = Write("ca.pem", authority_.certificate()),
            .certificate = Write("cert.pem", pair.certificate),
            .key = Write("key.pem", pair.key)};
  }
  static void ExpectWrong(const TlsFiles& files, const std::string& words) {
    const absl::Status status = CheckTlsFiles(files);
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_THAT(std::string(status.message()), testing::Not(HasSubstr("\n")));
  }

  const TempDir dir_;
  const test::CertificateAuthority authority_{"tests"};
};

TEST_F(TlsFilesTest, FilesThatBelongTogetherAreAccepted) {
  const TlsFiles files = Written(authority_.Issue("worker", "DNS:localhost"));
  EXPECT_TRUE(CheckTlsFiles(files).ok()) << CheckTlsFiles(files);
  EXPECT_TRUE(CheckTlsFiles({.authorities = files.authorities}).ok());
  EXPECT_TRUE(CheckTlsFiles({.certificate = files.certificate, .key = files.key}).ok());
  EXPECT_TRUE(CheckTlsFiles({}).ok());
}

TEST_F(TlsFilesTest, WrongFilesAreNamedWithTheirOption) {
  const TlsFiles good = Written(authority_.Issue("worker", "DNS:localhost"));
  TlsFiles files = good;
  files.authorities = dir_.File("none.pem");
  ExpectWrong(files, "--tls-ca: " + files.authorities + ": cannot be read (No such file or directory)");
  files.authorities = dir_.File(".");
  ExpectWrong(files, "--tls-ca: " + files.authorities + ": is a directory; name a file in PEM form");
  files.authorities = Write("text.pem", "no certificate\n");
  ExpectWrong(files, "--tls-ca: " + files.authorities + ": holds no certificate in PEM form");
  files = good;
  files.key.clear();
  ExpectWrong(files, "--tls-key is missing");
  files = good;
  files.certificate.clear();
  ExpectWrong(files, "--tls-cert is missing");
  files = good;
  files.key = good.certificate;
  ExpectWrong(files, "--tls-key: " + files.key + ": holds no private key");
  files.key = Write("other.pem", authority_.Issue("other", "DNS:localhost").key);
  ExpectWrong(files, "is not the key of the certificate in " + good.certificate);
  const test::PemPair ended = authority_.Issue("worker", "DNS:localhost", -60);
  ExpectWrong(
      {.certificate = Write("ended.pem", ended.certificate), .key = Write("ended_key.pem", ended.key)},
      "its certificate ended on 20");
}

class EndpointForTest : public TlsFilesTest {
 protected:
  static std::string ErrorOf(const std::string& target, const EndpointOptions& options) {
    return std::string(EndpointFor(target, options).status().message());
  }

  const ScopedVariable ca_{"AUTOCFG_TLS_CA", std::nullopt};
  const ScopedVariable cert_{"AUTOCFG_TLS_CERT", std::nullopt};
  const ScopedVariable key_{"AUTOCFG_TLS_KEY", std::nullopt};
  const ScopedVariable token_{"AUTOCFG_TOKEN_FILE", std::nullopt};
};

TEST_F(EndpointForTest, OtherMachinesNeedEncryptionOrInsecure) {
  EXPECT_THAT(ErrorOf("head:5000", {}), HasSubstr("--coordinator: head:5000 is on another machine"));
  EXPECT_THAT(ErrorOf("head:5000", {}), HasSubstr("--tls-ca"));
  EXPECT_FALSE(EndpointFor("head:5000", {.insecure = true})->tls);
  EXPECT_TRUE(EndpointFor("head:5000", {.tls = true})->tls);
  const std::string authorities = Write("ca.pem", authority_.certificate());
  const auto endpoint = EndpointFor("head:5000", {.files = {.authorities = authorities}});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_TRUE(endpoint->tls) << "a file implies it";
  EXPECT_EQ(endpoint->files.authorities, authorities);
  EXPECT_FALSE(EndpointFor("127.0.0.1:5000", {})->tls);
}

TEST_F(EndpointForTest, TheEnvironmentFillsWhatOptionsLeaveOut) {
  const ScopedVariable ca("AUTOCFG_TLS_CA", Write("ca.pem", authority_.certificate()));
  const ScopedVariable token("AUTOCFG_TOKEN_FILE", Write("token", "autocfg_1\n"));
  const auto endpoint = EndpointFor("head:5000", {});
  ASSERT_TRUE(endpoint.ok()) << endpoint.status();
  EXPECT_TRUE(endpoint->tls);
  EXPECT_EQ(endpoint->token, "autocfg_1");
  EXPECT_EQ(EndpointFor("head:5000", {.token_file = Write("mine", "autocfg_2")})->token, "autocfg_2");
  const auto here = EndpointFor("unix:/run/a.sock", {});
  ASSERT_TRUE(here.ok()) << here.status();
  EXPECT_FALSE(here->tls);
  EXPECT_EQ(here->token, "");
  const ScopedVariable wrong("AUTOCFG_TLS_CA", dir_.File("gone.pem"));
  EXPECT_THAT(ErrorOf("head:5000", {}), HasSubstr("AUTOCFG_TLS_CA: " + dir_.File("gone.pem")));
}

TEST_F(EndpointForTest, WrongTokensAndUnixSocketsWithCertificatesAreRejected) {
  EXPECT_THAT(ErrorOf("127.0.0.1:1", {.token_file = dir_.File("none")}), HasSubstr("--token-file: "));
  for (const std::string& text : {std::string(), std::string("\n"), std::string("two words\n"),
                                  std::string("a\nb\n"), std::string(5000, 'x')}) {
    EXPECT_THAT(ErrorOf("127.0.0.1:1", {.token_file = Write("token", text)}), HasSubstr("holds no token"));
  }
  EXPECT_THAT(ErrorOf("unix:/run/a.sock", {.tls = true}), HasSubstr("uses no certificates"));
}

}  // namespace
}  // namespace autocfg
