#include "proto/rpc/endpoint_options.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "base/os/host.h"
#include "base/subject.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/channel.h"
#include "proto/rpc/tls_files.h"

namespace autocfg {
namespace {

constexpr std::size_t kLongestToken = 4096;

// A value, from an option or else the environment, and which of the two it is.
struct Setting {
  const char* name;
  std::string value;
};

Setting SettingOf(const char* option, const std::string& given, const char* variable) {
  if (!given.empty()) return {option, given};
  std::string value = base::Environment(variable);
  if (value.empty()) return {option, ""};
  return {variable, std::move(value)};
}

// Returns the token in a file, without the line break that ends it.
absl::StatusOr<std::string> ReadToken(const Setting& file) {
  errno = 0;
  std::ifstream in(file.value, std::ios::binary);
  std::string token(kLongestToken + 1, '\0');
  in.read(token.data(), static_cast<std::streamsize>(token.size()));
  if (in.bad() || (in.gcount() == 0 && !in.eof())) {
    return absl::InvalidArgumentError(fmt::format("{}: {}: cannot be read ({}); name a file with a token",
                                                  file.name, base::Printable(file.value),
                                                  std::generic_category().message(errno)));
  }
  token.resize(static_cast<std::size_t>(in.gcount()));
  while (!token.empty() && (token.back() == '\n' || token.back() == '\r')) token.pop_back();
  const auto plain = [](char c) { return c > ' ' && c < 0x7f; };
  if (token.empty() || token.size() > kLongestToken || !std::all_of(token.begin(), token.end(), plain)) {
    return absl::InvalidArgumentError(
        fmt::format("{}: {}: holds no token; write the line there that `autocfg token create` prints",
                    file.name, base::Printable(file.value)));
  }
  return token;
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
      auto token = ReadToken({"--token-file", options.token_file});
      if (!token.ok()) return token.status();
      endpoint.token = *std::move(token);
    }
  } else {
    const Setting authorities = SettingOf("--tls-ca", options.files.authorities, "AUTOCFG_TLS_CA");
    const Setting certificate = SettingOf("--tls-cert", options.files.certificate, "AUTOCFG_TLS_CERT");
    const Setting key = SettingOf("--tls-key", options.files.key, "AUTOCFG_TLS_KEY");
    endpoint.files = {authorities.value, certificate.value, key.value};
    endpoint.tls = options.tls || endpoint.files.given();
    if (absl::Status status = CheckTlsFiles(
            endpoint.files,
            {.authorities = authorities.name, .certificate = certificate.name, .key = key.name});
        !status.ok())
      return status;
    if (const Setting file = SettingOf("--token-file", options.token_file, "AUTOCFG_TOKEN_FILE");
        !file.value.empty()) {
      auto token = ReadToken(file);
      if (!token.ok()) return token.status();
      endpoint.token = *std::move(token);
    }
  }
  if (absl::Status status = CheckEndpoint(endpoint, options.insecure); !status.ok())
    return base::WithSubject("--coordinator", status);
  return endpoint;
}

}  // namespace autocfg
