#include "proto/rpc/endpoint_options.h"

#include "base/os/host.h"
#include "base/status_macros.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/tls_files.h"
#include "proto/rpc/token_file.h"

namespace autocfg {
namespace {

// A value, from an option or else the environment, and which of the two it is.
struct Setting {
  const char* name;
  std::string value;
};

Setting SettingOf(const char* option, const std::string& given, const char* variable,
                  const std::string& value) {
  if (!given.empty() || value.empty()) return {option, given};
  return {variable, value};
}

// Gives the endpoint the token of a file.
absl::Status TakeToken(const Setting& file, Endpoint& endpoint) {
  auto token = ReadTokenFile(file.value);
  if (!token.ok()) return base::WithSubject(file.name, token.status());
  endpoint.token = *std::move(token);
  endpoint.token_file = file.value;
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Endpoint> EndpointFor(const std::string& target, const EndpointOptions& options) {
  Endpoint endpoint{.target = target};
  if (target.starts_with("unix:")) {
    if (options.tls || options.files.given()) {
      return absl::InvalidArgumentError(fmt::format(
          "{}: a Unix socket stays on this machine and uses no certificates; leave out the options --tls*",
          base::Printable(target)));
    }
    if (!options.token_file.empty()) {
      AUTOCFG_RETURN_IF_ERROR(TakeToken({"--token-file", options.token_file}, endpoint));
    }
  } else {
    const Setting authorities = SettingOf("--tls-ca", options.files.authorities, "AUTOCFG_TLS_CA",
                                          base::Environment("AUTOCFG_TLS_CA"));
    const Setting certificate = SettingOf("--tls-cert", options.files.certificate, "AUTOCFG_TLS_CERT",
                                          base::Environment("AUTOCFG_TLS_CERT"));
    const Setting key =
        SettingOf("--tls-key", options.files.key, "AUTOCFG_TLS_KEY", base::Environment("AUTOCFG_TLS_KEY"));
    endpoint.files = {authorities.value, certificate.value, key.value};
    endpoint.tls = options.tls || endpoint.files.given();
    AUTOCFG_RETURN_IF_ERROR(CheckTlsFiles(
        endpoint.files, {.authorities = authorities.name, .certificate = certificate.name, .key = key.name}));
    if (const Setting file = SettingOf("--token-file", options.token_file, "AUTOCFG_TOKEN_FILE",
                                       base::Environment("AUTOCFG_TOKEN_FILE"));
        !file.value.empty()) {
      AUTOCFG_RETURN_IF_ERROR(TakeToken(file, endpoint));
    }
  }
  if (absl::Status status = CheckEndpoint(endpoint, options.insecure); !status.ok())
    return base::WithSubject("--coordinator", status);
  return endpoint;
}

}  // namespace autocfg
