#include "proto/rpc/tls_files.h"

#include <grpc/grpc_security_constants.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <cerrno>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/chrono.h"
#include "fmt/format.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace autocfg {
namespace {

// How often files are looked at for a change.
constexpr unsigned int kRefreshSeconds = 2;

template <auto Free>
struct OpenSslDeleter {
  template <typename T>
  void operator()(T* object) const {
    Free(object);
  }
};
struct BioDeleter {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
using Bio = std::unique_ptr<BIO, BioDeleter>;
using Certificate = std::unique_ptr<X509, OpenSslDeleter<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY_free>>;

absl::Status Wrong(const char* option, const std::string& path, const std::string& what) {
  return absl::InvalidArgumentError(fmt::format("{}: {}: {}", option, base::Printable(path), what));
}

absl::StatusOr<Bio> OpenPem(const char* option, const std::string& path) {
  if (std::error_code ignored; std::filesystem::is_directory(path, ignored))
    return Wrong(option, path, "is a directory; name a file in PEM form");
  errno = 0;
  Bio bio(BIO_new_file(path.c_str(), "r"));
  const int error = errno;
  ERR_clear_error();
  if (bio == nullptr) {
    return Wrong(
        option, path,
        fmt::format("cannot be read ({}); name a file in PEM form", std::generic_category().message(error)));
  }
  return bio;
}

std::string DateText(const ASN1_TIME* time) {
  std::tm parts{};
  return ASN1_TIME_to_tm(time, &parts) == 1 ? fmt::format("{:%Y-%m-%d}", parts) : "an unknown date";
}

// Returns the first certificate of a file. All of them must be readable, and the first one valid now.
absl::StatusOr<Certificate> ReadCertificates(const char* option, const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(auto bio, OpenPem(option, path));
  Certificate first(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
  ERR_clear_error();
  if (first == nullptr) {
    return Wrong(option, path, "holds no certificate in PEM form; name a file that begins with one");
  }
  if (X509_cmp_current_time(X509_get0_notAfter(first.get())) < 0) {
    return Wrong(
        option, path,
        fmt::format("its certificate ended on {}; renew it", DateText(X509_get0_notAfter(first.get()))));
  }
  if (X509_cmp_current_time(X509_get0_notBefore(first.get())) > 0) {
    return Wrong(option, path,
                 fmt::format("its certificate begins on {}; wait for that, or check this machine's clock",
                             DateText(X509_get0_notBefore(first.get()))));
  }
  return first;
}

// Answers that there is no passphrase, where OpenSSL would ask on the terminal.
int NoPassphrase(char*, int, int, void*) { return -1; }

absl::StatusOr<Key> ReadKey(const char* option, const std::string& path) {
  AUTOCFG_ASSIGN_OR_RETURN(auto bio, OpenPem(option, path));
  Key key(PEM_read_bio_PrivateKey(bio.get(), nullptr, NoPassphrase, nullptr));
  ERR_clear_error();
  if (key == nullptr) {
    return Wrong(option, path,
                 "holds no private key in PEM form that can be read without a passphrase; name one");
  }
  return key;
}

std::shared_ptr<grpc::experimental::CertificateProviderInterface> Watch(const TlsFiles& files) {
  return std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.authorities, kRefreshSeconds);
}

}  // namespace

absl::Status CheckTlsFiles(const TlsFiles& files, const TlsOptionNames& names) {
  if (files.certificate.empty() != files.key.empty()) {
    return absl::InvalidArgumentError(fmt::format("{} is missing; a certificate and its key go together",
                                                  files.key.empty() ? names.key : names.certificate));
  }
  if (!files.authorities.empty()) {
    AUTOCFG_RETURN_IF_ERROR(ReadCertificates(names.authorities, files.authorities).status());
  }
  if (files.certificate.empty()) return absl::OkStatus();
  AUTOCFG_ASSIGN_OR_RETURN(const auto certificate, ReadCertificates(names.certificate, files.certificate));
  AUTOCFG_ASSIGN_OR_RETURN(const auto key, ReadKey(names.key, files.key));
  const bool matches = X509_check_private_key(certificate.get(), key.get()) == 1;
  ERR_clear_error();
  if (!matches) {
    return Wrong(names.key, files.key,
                 fmt::format("is not the key of the certificate in {}; name the one that it was made with",
                             base::Printable(files.certificate)));
  }
  return absl::OkStatus();
}

std::shared_ptr<grpc::ChannelCredentials> TlsChannel(const TlsFiles& files) {
  grpc::experimental::TlsChannelCredentialsOptions options;
  if (files.given()) {
    options.set_certificate_provider(Watch(files));
    if (!files.authorities.empty()) options.watch_root_certs();
    if (!files.certificate.empty()) options.watch_identity_key_cert_pairs();
  }
  return grpc::experimental::TlsCredentials(options);
}

std::shared_ptr<grpc::ServerCredentials> TlsServer(const TlsFiles& files) {
  grpc::experimental::TlsServerCredentialsOptions options(Watch(files));
  options.watch_identity_key_cert_pairs();
  if (!files.authorities.empty()) {
    options.watch_root_certs();
    options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  }
  return grpc::experimental::TlsServerCredentials(options);
}

}  // namespace autocfg
