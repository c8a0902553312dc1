#include "server/pages/http_server.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <microhttpd.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdarg>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr unsigned kIdleSeconds = 15;
// Of a connection: what its request line and headers may take.
constexpr std::size_t kConnectionBytes = std::size_t{32} << 10;

// Of all answers. Pages load nothing from elsewhere and stand in no other page. Data is asked for again each
// time, and not sent again if its ETag is the same.
constexpr std::pair<const char*, const char*> kHeaders[] = {
    {"Content-Security-Policy",
     "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
     "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
    {"X-Content-Type-Options", "nosniff"},
    {"Referrer-Policy", "no-referrer"},
    {"Cross-Origin-Resource-Policy", "same-origin"},
    {"Cache-Control", "no-cache"},
};

// GnuTLS's words for TLS 1.2 and 1.3 alone.
constexpr const char* kTlsPriorities = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

void LogHttp(void* /*context*/, const char* format, va_list arguments) {
  char text[256];
  std::vsnprintf(text, sizeof text, format, arguments);
  spdlog::debug("http: {}", text);
}

std::string HeaderOf(MHD_Connection* connection, const char* name) {
  const char* value = MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
  return value == nullptr ? "" : value;
}

// Returns "ipv4:127.0.0.1:40022" or "ipv6:[::1]:40022"; empty for other addresses.
std::string PeerOf(MHD_Connection* connection) {
  const MHD_ConnectionInfo* info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  if (info == nullptr || info->client_addr == nullptr) return "";
  const sockaddr* const address = info->client_addr;
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    const auto* found = reinterpret_cast<const sockaddr_in*>(address);
    inet_ntop(AF_INET, &found->sin_addr, text, sizeof text);
    return fmt::format("ipv4:{}:{}", text, ntohs(found->sin_port));
  }
  if (address->sa_family == AF_INET6) {
    const auto* found = reinterpret_cast<const sockaddr_in6*>(address);
    inet_ntop(AF_INET6, &found->sin6_addr, text, sizeof text);
    return fmt::format("ipv6:[{}]:{}", text, ntohs(found->sin6_port));
  }
  return "";
}

MHD_Result Send(MHD_Connection* connection, const HttpAnswer& answer) {
  static const std::string kEmpty;
  const std::string& body = answer.body ? *answer.body : kEmpty;
  // The daemon copies the body: answers may end after this function.
  MHD_Response* response =
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): copied, not changed
      MHD_create_response_from_buffer(body.size(), const_cast<char*>(body.data()), MHD_RESPMEM_MUST_COPY);
  if (response == nullptr) return MHD_NO;
  for (const auto& [name, value] : kHeaders) MHD_add_response_header(response, name, value);
  MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, std::string(answer.type).c_str());
  if (!answer.etag.empty()) MHD_add_response_header(response, MHD_HTTP_HEADER_ETAG, answer.etag.c_str());
  if (answer.status == MHD_HTTP_METHOD_NOT_ALLOWED)
    MHD_add_response_header(response, MHD_HTTP_HEADER_ALLOW, "GET, HEAD");
  if (answer.asks_for_password) {
    MHD_add_response_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE,
                            "Basic realm=\"autocfg: a token as the password\"");
  }
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(answer.status), response);
  MHD_destroy_response(response);
  return queued;
}

HttpAnswer Failure(int status, std::string text) {
  return {.status = status, .body = std::make_shared<const std::string>(std::move(text) + "\n")};
}

// The daemon calls it first with the headers of a request, then with its end. `state` is null at first.
MHD_Result AnswerHttp(void* context, MHD_Connection* connection, const char* url, const char* method,
                      const char* /*version*/, const char* /*upload*/, std::size_t* upload_size,
                      void** state) {
  const std::string_view verb = method;
  if (verb != MHD_HTTP_METHOD_GET && verb != MHD_HTTP_METHOD_HEAD)
    return Send(connection, Failure(MHD_HTTP_METHOD_NOT_ALLOWED, "only GET and HEAD are answered"));
  if (*state == nullptr) {
    static int seen = 0;
    *state = &seen;
    return MHD_YES;
  }
  if (*upload_size > 0) return MHD_NO;  // a body that nobody asked for: the connection is closed
  const HttpRequest request{.path = url,
                            .host = HeaderOf(connection, MHD_HTTP_HEADER_HOST),
                            .if_none_match = HeaderOf(connection, MHD_HTTP_HEADER_IF_NONE_MATCH),
                            .authorization = HeaderOf(connection, MHD_HTTP_HEADER_AUTHORIZATION),
                            .peer = PeerOf(connection)};
  try {
    return Send(connection, (*static_cast<const HttpServer::Handler*>(context))(request));
  } catch (const std::exception& error) {
    spdlog::error("http: {}: internal error: {}; please report it", url, error.what());
    return Send(connection, Failure(MHD_HTTP_INTERNAL_SERVER_ERROR, "internal error; see the server's log"));
  }
}

}  // namespace

void HttpServer::DaemonDeleter::operator()(MHD_Daemon* daemon) const { MHD_stop_daemon(daemon); }

absl::StatusOr<HttpServer::Daemons> HttpServer::StartDaemons(
    std::unique_ptr<const PageCertificate> certificate) {
  constexpr unsigned kFlags = MHD_USE_THREAD_PER_CONNECTION | MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL |
                              MHD_USE_ITC | MHD_USE_ERROR_LOG;
  std::vector<MHD_OptionItem> encryption;
  if (certificate != nullptr) {
    const auto add = [&](MHD_OPTION option, const char* text) {
      // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): it is only read
      encryption.push_back({option, 0, const_cast<char*>(text)});
    };
    add(MHD_OPTION_HTTPS_MEM_KEY, certificate->key.c_str());
    add(MHD_OPTION_HTTPS_MEM_CERT, certificate->certificate.c_str());
    add(MHD_OPTION_HTTPS_PRIORITIES, kTlsPriorities);
  }
  encryption.push_back({MHD_OPTION_END, 0, nullptr});
  Daemons started;
  for (const base::UniqueFd& socket : sockets_->sockets()) {
    // The daemon closes the socket that it is given.
    base::UniqueFd copy(::fcntl(socket.get(), F_DUPFD_CLOEXEC, 0));
    if (!copy.ok()) return absl::UnavailableError("pages cannot be served: no descriptor is left");
    started.daemons.emplace_back(MHD_start_daemon(
        certificate != nullptr ? kFlags | MHD_USE_TLS : kFlags, 0, nullptr, nullptr, AnswerHttp,
        // NOLINTNEXTLINE(cppcoreguidelines-pro-type-const-cast): the daemon passes it back as it is
        const_cast<Handler*>(&handler_), MHD_OPTION_EXTERNAL_LOGGER, LogHttp, nullptr,
        MHD_OPTION_LISTEN_SOCKET, copy.get(), MHD_OPTION_CONNECTION_LIMIT,
        static_cast<unsigned>(kMostConnections), MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, kConnectionBytes, MHD_OPTION_ARRAY, encryption.data(),
        MHD_OPTION_END));
    if (started.daemons.back() == nullptr) {
      return absl::UnavailableError(
          certificate != nullptr ? "pages cannot be served: libmicrohttpd takes neither the certificate "
                                   "nor a thread; see the log at level debug"
                                 : "pages cannot be served: the system has no thread left");
    }
    copy.Release();
  }
  started.certificate = std::move(certificate);
  return started;
}

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const ListenAddress& address, Handler handler,
                                                              const TlsFiles& tls) {
  const bool encrypted = !tls.certificate.empty() && !address.unix_socket;
  std::unique_ptr<const PageCertificate> certificate;
  if (encrypted) {
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
      return absl::UnimplementedError("pages cannot be encrypted: this libmicrohttpd was built without TLS");
    AUTOCFG_ASSIGN_OR_RETURN(auto loaded, LoadPageCertificate(tls));
    certificate = std::make_unique<const PageCertificate>(std::move(loaded));
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto sockets, ListenSockets::Open(address));
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handler)));
  server->port_ = sockets.port();
  server->sockets_.emplace(std::move(sockets));
  AUTOCFG_ASSIGN_OR_RETURN(server->serving_, server->StartDaemons(std::move(certificate)));
  if (encrypted) {
    server->watch_ = std::make_unique<CertificateWatch>(
        tls, "the pages", [served = server.get()](PageCertificate renewed) {
          // New connections are the new daemons' before the old ones end.
          auto daemons = served->StartDaemons(std::make_unique<const PageCertificate>(std::move(renewed)));
          if (!daemons.ok()) {
            spdlog::warn("the pages keep their certificate: {}", std::string(daemons.status().message()));
            return;
          }
          std::swap(served->serving_, *daemons);
          spdlog::info("the pages have a new certificate");
        });
  }
  return server;
}

}  // namespace autocfg::server
