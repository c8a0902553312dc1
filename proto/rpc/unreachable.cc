#include "proto/rpc/unreachable.h"

#include <string>
#include <string_view>

#include "fmt/format.h"

namespace autocfg {

absl::Status Unreachable(const Endpoint& endpoint, const absl::Status& said) {
  const std::string text(said.message());
  const auto says = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  // The words are those of gRPC and of OpenSSL.
  const bool encrypted = endpoint.tls && !endpoint.target.starts_with("unix:");
  const auto error = [&](std::string_view what, std::string_view help) {
    return absl::Status(said.code(), fmt::format("{} ({}); {}", what, text, help));
  };
  if (encrypted && says("Hostname Verification Check failed")) {
    return error("the certificate of the coordinator there is for other names",
                 "call it by a name of its certificate, or give it a certificate for this name");
  }
  if (encrypted && says("certificate verify failed")) {
    return error("the certificate of the coordinator there is not trusted",
                 "give --tls-ca with the authority that signed it");
  }
  if (encrypted && says("wrong version number")) {
    return error("what answers there does not encrypt",
                 "leave out --tls and --tls-ca for a coordinator without --tls-cert");
  }
  // A coordinator closes a connection that it does not take, without saying why.
  const bool closed = says("Socket closed") || says("Connection reset") || says("Broken pipe");
  if (closed && !encrypted)
    return error("no coordinator answers there", "if it encrypts calls, give --tls-ca");
  if (closed && endpoint.files.certificate.empty()) {
    return error("no coordinator answers there",
                 "if it takes only clients with a certificate, give --tls-cert and --tls-key");
  }
  if (closed) {
    return error("no coordinator answers there",
                 "if it takes only clients with a certificate, --tls-cert must be of an authority in its "
                 "--tls-client-ca");
  }
  return error("no coordinator answers there", "start autocfg-server there, or name another address");
}

}  // namespace autocfg
