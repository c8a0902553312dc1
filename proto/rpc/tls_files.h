// Credentials from files of certificates (TlsFiles), for servers and clients. Thread-safe.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "proto/rpc/endpoint.h"

namespace autocfg {

// Names of the three options, for messages.
struct TlsOptionNames {
  const char* authorities = "--tls-ca";
  const char* certificate = "--tls-cert";
  const char* key = "--tls-key";
};

// InvalidArgument, with the option and the file: it cannot be read, holds no certificate or key, its
// certificate has ended, or key and certificate do not belong together. A certificate without a key, or a key
// without a certificate, is one too.
absl::Status CheckTlsFiles(const TlsFiles& files, const TlsOptionNames& names = {});

// Returns a client's credentials. A server must show a certificate for the host of the address that chains to
// `authorities`, or to the system's authorities if that is empty. Requires: CheckTlsFiles.
std::shared_ptr<grpc::ChannelCredentials> TlsChannel(const TlsFiles& files);

// Returns a server's credentials. With `authorities`, clients must show a certificate that chains to them.
// Requires: CheckTlsFiles, and a certificate.
std::shared_ptr<grpc::ServerCredentials> TlsServer(const TlsFiles& files);

}  // namespace autocfg
