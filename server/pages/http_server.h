// A server of pages over HTTP/1.1, on libmicrohttpd: answers GET and HEAD, each connection on a thread of its
// own. What a client sends is bounded, and so are connections and their idle time. Thread-safe.
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

struct MHD_Daemon;

namespace autocfg::server {

struct HttpRequest {
  std::string path;                // decoded, without the query
  std::string host;                // the header; empty: absent
  std::string if_none_match = {};  // the header; empty: absent
  std::string authorization = {};  // the header; empty: absent
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

  // Unavailable and other errors: of ListenSockets::Open, or the system has no thread left.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const ListenAddress& address, Handler handler);
  // Ends all connections. Waits for the handlers that run.
  ~HttpServer() = default;
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  int port() const { return port_; }  // 0: a Unix socket

 private:
  struct DaemonDeleter {
    void operator()(MHD_Daemon* daemon) const;
  };

  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}

  const Handler handler_;
  int port_ = 0;
  std::optional<ListenSockets> sockets_;
  std::vector<std::unique_ptr<MHD_Daemon, DaemonDeleter>> daemons_;  // one for each socket
};

}  // namespace autocfg::server
