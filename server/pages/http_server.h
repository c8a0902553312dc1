// A server of pages over HTTP/1.1 or HTTPS, on libmicrohttpd: answers GET and HEAD, each connection on a
// thread of its own. What a client sends is bounded, and so are connections and their idle time. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "server/listen/listen_address.h"
#include "server/listen/listen_sockets.h"
#include "server/pages/page_certificate.h"

struct MHD_Daemon;

namespace autocfg::server {

struct HttpRequest {
  std::string path;                // decoded, without the query
  std::string host;                // the header; empty: absent
  std::string if_none_match = {};  // the header; empty: absent
  std::string authorization = {};  // the header; empty: absent
  std::string peer = {};           // the client's address, as gRPC names peers; empty: unknown
};

struct HttpAnswer {
  int status = 200;
  std::string_view type = "text/plain; charset=utf-8";
  std::shared_ptr<const std::string> body;  // null: empty
  std::string etag = {};                    // empty: none
  bool asks_for_password = false;           // of a browser's user
};

class HttpServer {
 public:
  // Called by many threads at once. Must return soon once the server's end has begun.
  using Handler = std::function<HttpAnswer(const HttpRequest&)>;

  // Connections at once, of each address that a host name stands for; more wait to be accepted.
  static constexpr int kMostConnections = 64;

  // With a certificate, connections are encrypted, except on a Unix socket. Its files are read again when
  // they change; connections of that moment end. Unavailable and other errors: of ListenSockets::Open, of
  // LoadPageCertificate, or the system has no thread left.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const ListenAddress& address, Handler handler,
                                                           const TlsFiles& tls = {});
  // Ends all connections. Waits for the handlers that run.
  ~HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }  // 0: a Unix socket
  bool encrypted() const { return watch_ != nullptr; }

 private:
  struct DaemonDeleter {
    void operator()(MHD_Daemon* daemon) const;
  };
  // One daemon for each socket, which refers to the certificate.
  struct Daemons {
    std::unique_ptr<const PageCertificate> certificate;  // null: plain text
    std::vector<std::unique_ptr<MHD_Daemon, DaemonDeleter>> daemons;
  };

  absl::StatusOr<Daemons> StartDaemons(std::unique_ptr<const PageCertificate> certificate);

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}

  const Handler handler_;
  int port_ = 0;
  std::optional<ListenSockets> sockets_;
  Daemons serving_;                          // changed by the watch alone
  std::unique_ptr<CertificateWatch> watch_;  // null: plain text. It ends first
};

}  // namespace autocfg::server
