// Pages over HTTP: what is answered by path, and a server that outlives bad clients.
#include "server/pages/study_pages.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "server/access/access_control.h"
#include "server/access/token_table.h"
#include "server/names/names.h"
#include "server/store/sqlite/sqlite_store.h"
#include "server/studies/search_problem.h"
#include "tests/server/client_socket.h"
#include "tests/server/coordinator_fixture.h"
#include "tests/server/store/study_edits.h"

namespace autocfg::server {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

// A client's connection.
class HttpClient {
 public:
  explicit HttpClient(int port) : socket_(ConnectTo("127.0.0.1", port)) { EXPECT_TRUE(socket_.ok()); }
  // The server may have closed the connection meanwhile.
  void Send(const std::string& bytes) const {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t some = ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (some <= 0) return;
      sent += static_cast<std::size_t>(some);
    }
  }
  // Returns what comes until the server closes the connection, or is silent for 10 s.
  std::string ReadAll() const {
    std::string all, part(std::size_t{1} << 16, '\0');
    while (true) {
      pollfd polled{.fd = socket_.get(), .events = POLLIN, .revents = 0};
      if (::poll(&polled, 1, 10'000) <= 0) return all;
      const ssize_t some = ::recv(socket_.get(), part.data(), part.size(), 0);
      if (some <= 0) return all;
      all.append(part, 0, static_cast<std::size_t>(some));
    }
  }

 private:
  base::UniqueFd socket_;
};

class StudyPagesTest : public testing::Test {
 protected:
  void SetUp() override {
    auto store = OpenMemoryStore();
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    reports_ = std::make_unique<StudyReports>(*store_);
    address_ = *ParseListenAddress("127.0.0.1:0");
    pages_ = std::make_unique<StudyPages>(*store_, *reports_, open_, metrics_, address_);
    for (const bool started : {true, false}) {
      v1::Study study;
      *study.mutable_spec() = ToProto(*ParseSearchSpec(SmallSpec()));
      const std::int64_t id = *ParseStudyName(store_->CreateStudy("", study, 1)->name());
      if (started) {
        ASSERT_TRUE(SetStudyState(*store_, id, v1::STUDY_STATE_RUNNING).ok());
      }
    }
  }
  HttpAnswer Get(const std::string& path, const std::string& host = "localhost:8080",
                 const std::string& known = "") {
    return pages_->Answer({.path = path, .host = host, .if_none_match = known});
  }

  const std::unique_ptr<Store> kept_ = *OpenMemoryStore();  // of the tokens
  std::unique_ptr<Store> store_;
  std::unique_ptr<StudyReports> reports_;
  std::unique_ptr<TokenTable> tokens_ = std::make_unique<TokenTable>(*kept_, [] { return 1.0; });
  AccessControl open_{*tokens_, nullptr, {.local_principal = "tester"}};
  absl::StatusOr<std::string> metrics_text_ = "autocfg_jobs_queued 3\n";
  const StudyPages::MetricsSource metrics_ = [this] { return metrics_text_; };
  ListenAddress address_;
  std::unique_ptr<StudyPages> pages_;
};

TEST_F(StudyPagesTest, AnswersByPath) {
  EXPECT_THAT(*Get("/").body, HasSubstr("/page/studies.js"));
  EXPECT_THAT(*Get("/studies/1").body, HasSubstr("/page/live.js"));
  EXPECT_EQ(Get("/studies/1").type, "text/html; charset=utf-8");
  EXPECT_EQ(Get("/page/report.css").type, "text/css");
  const HttpAnswer list = Get("/studies.json");
  EXPECT_EQ(list.type, "application/json");
  const auto studies = nlohmann::json::parse(*list.body)["studies"];
  ASSERT_EQ(studies.size(), 2u);
  EXPECT_EQ(studies[0]["id"], "2") << "the newest first";
  EXPECT_EQ(studies[0]["state"], "created");
  EXPECT_EQ(studies[1]["state"], "running");
  EXPECT_EQ(studies[1]["ranks"], 4);
  EXPECT_EQ(studies[1]["model"], "tiny");
  EXPECT_EQ(Get("/studies/2.json").status, 409);
  for (const char* path :
       {"/studies/99", "/studies/99.json", "/studies/", "/studies/1x", "/studies/01", "/studies/-1",
        "/studies/1/", "/studies/99999999999999999999", "/studies", "/page/", "/page/report.html",
        "/page/../report.css", "/etc/passwd", "", "//", "/studies/1.json.json"})
    EXPECT_EQ(Get(path).status, 404) << path;
}

TEST_F(StudyPagesTest, MetricsAreTextForPrometheus) {
  const HttpAnswer answer = Get("/metrics");
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.type, "text/plain; version=0.0.4; charset=utf-8");
  EXPECT_EQ(*answer.body, "autocfg_jobs_queued 3\n");
  metrics_text_ = absl::UnavailableError("the disk fails");
  EXPECT_EQ(Get("/metrics").status, 503);
  EXPECT_EQ(*Get("/metrics").body, "the disk fails\n");
}

TEST_F(StudyPagesTest, WhereTokensAreNeededPagesNeedOneThatReads) {
  const auto text_of = [&](const char* name, v1::Role role) {
    v1::Token token;
    token.set_name(name);
    token.set_role(role);
    return tokens_->Create(token)->text();
  };
  const std::string reader = text_of("tokens/reader", v1::ROLE_READ);
  const std::string worker = text_of("tokens/worker", v1::ROLE_WORKER);
  const AccessControl access(*tokens_, nullptr, {.local_principal = "tester", .tokens = true});
  StudyPages pages(*store_, *reports_, access, metrics_, address_);
  const auto get = [&](const std::string& path, const std::string& authorization) {
    return pages.Answer({.path = path, .host = "localhost:8080", .authorization = authorization});
  };
  for (const char* path :
       {"/", "/studies.json", "/studies/1", "/studies/1.json", "/page/report.css", "/metrics", "/x"}) {
    for (const std::string& wrong :
         {std::string(), std::string("Basic"), std::string("Basic !"), std::string("Basic "),
          std::string("Bearer "), "Bearer " + reader + "0", "Basic " + absl::Base64Escape(reader)}) {
      const HttpAnswer answer = get(path, wrong);
      EXPECT_EQ(answer.status, 401) << path << " " << wrong;
      EXPECT_TRUE(answer.asks_for_password);
    }
    EXPECT_EQ(get(path, "Bearer " + worker).status, 403) << path;
    EXPECT_NE(get(path, "Bearer " + reader).status, 401) << path;
  }
  EXPECT_EQ(get("/", "basic " + absl::Base64Escape("me:" + reader)).status, 200);
  EXPECT_EQ(get("/", "Basic " + absl::Base64Escape(":" + reader)).status, 200);
  StudyPages socket(*store_, *reports_, access, metrics_, *ParseListenAddress("unix:/run/pages.sock"));
  EXPECT_EQ(socket.Answer({.path = "/", .host = ""}).status, 200) << "its file is its user's alone";
}

TEST_F(StudyPagesTest, EveryPartThatAPageNamesIsThere) {
  for (const char* path : {"/", "/studies/1"}) {
    const std::string page = *Get(path).body;
    std::size_t parts = 0;
    for (std::size_t at = page.find("\"/page/"); at != std::string::npos;
         at = page.find("\"/page/", at + 1)) {
      const std::string part = page.substr(at + 1, page.find('"', at + 1) - at - 1);
      EXPECT_EQ(Get(part).status, 200) << part;
      EXPECT_FALSE(Get(part).body->empty()) << part;
      ++parts;
    }
    EXPECT_GT(parts, 2u);
  }
}

TEST_F(StudyPagesTest, SendsDataAgainOnlyIfTheStudyChanged) {
  const HttpAnswer first = Get("/studies/1.json");
  ASSERT_EQ(first.status, 200);
  EXPECT_EQ(nlohmann::json::parse(*first.body)["study"]["state"], "running");
  ASSERT_NE(first.etag, "");
  const HttpAnswer same = Get("/studies/1.json", "localhost", first.etag);
  EXPECT_EQ(same.status, 304);
  EXPECT_EQ(same.body, nullptr);
  ASSERT_TRUE(SetStudyState(*store_, 1, v1::STUDY_STATE_PAUSED).ok());
  const HttpAnswer changed = Get("/studies/1.json", "localhost", first.etag);
  EXPECT_EQ(changed.status, 200);
  EXPECT_NE(changed.etag, first.etag);
}

// A page of another site may resolve its own name to 127.0.0.1, and then read answers as its own.
TEST_F(StudyPagesTest, AnswersByNamesOfThisMachineOnly) {
  for (const char* host : {"localhost", "localhost:80", "127.0.0.1:8080", "127.1.2.3", "[::1]:8080", "[::1]"})
    EXPECT_EQ(Get("/", host).status, 200) << host;
  for (const char* host : {"", "evil.example", "evil.example:8080", "localhost.evil.example",
                           "127.0.0.1.evil.example", "192.168.0.1", "[::2]", ":", "[", "unix:localhost"})
    EXPECT_EQ(Get("/", host).status, 403) << host;
  StudyPages open(*store_, *reports_, open_, metrics_, *ParseListenAddress("0.0.0.0:0"));
  EXPECT_EQ(open.Answer({.path = "/", .host = "node7.cluster:80", .if_none_match = {}}).status, 200);
}

TEST_F(StudyPagesTest, AnswersNothingOnceItEnds) {
  pages_->Stop();
  EXPECT_EQ(Get("/").status, 503);
}

class HttpServerTest : public StudyPagesTest {
 protected:
  void SetUp() override {
    StudyPagesTest::SetUp();
    auto server =
        HttpServer::Start(address_, [this](const HttpRequest& request) { return pages_->Answer(request); });
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    ASSERT_GT(server_->port(), 0);
  }
  // Sends the bytes on a new connection. Returns what comes until the server closes it, or is long silent.
  std::string Exchange(const std::string& bytes) const {
    HttpClient socket(server_->port());
    socket.Send(bytes);
    return socket.ReadAll();
  }
  std::string Ask(const std::string& method, const std::string& path) const {
    return Exchange(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  }
  void TearDown() override { server_.reset(); }

  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, AnswersGetAndHeadWithHeadersThatProtect) {
  const std::string page = Ask("GET", "/studies/1?x=1");
  EXPECT_THAT(page, StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(page, AllOf(HasSubstr("Content-Security-Policy: default-src 'none'; script-src 'self'"),
                          HasSubstr("X-Content-Type-Options: nosniff"), HasSubstr("frame-ancestors 'none'"),
                          HasSubstr("<!DOCTYPE html>")));
  const std::string head = Ask("HEAD", "/studies/1");
  EXPECT_THAT(head, AllOf(StartsWith("HTTP/1.1 200 "), Not(HasSubstr("<!DOCTYPE html>"))));
  EXPECT_THAT(Ask("GET", "/studies/1.json"), HasSubstr("ETag: \"1-"));
  EXPECT_THAT(Ask("GET", "/nothing"), StartsWith("HTTP/1.1 404 "));
}

TEST_F(HttpServerTest, HandlersGetTheClientsAddress) {
  std::string peer;
  auto server = HttpServer::Start(address_, [&](const HttpRequest& request) {
    peer = request.peer;
    return HttpAnswer{};
  });
  ASSERT_TRUE(server.ok()) << server.status();
  const HttpClient client((*server)->port());
  client.Send("GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.ReadAll(), StartsWith("HTTP/1.1 200 "));
  EXPECT_THAT(peer, StartsWith("ipv4:127.0.0.1:"));
}

TEST_F(HttpServerTest, ChangesNothing) {
  for (const char* method : {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"}) {
    const std::string answer = Ask(method, "/studies/1");
    EXPECT_THAT(answer, AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("Allow: GET, HEAD"))) << method;
  }
}

TEST_F(HttpServerTest, OutlivesBadRequests) {
  std::vector<std::string> bad = {
      "",
      "\r\n\r\n",
      "GET",
      "GET /\r\n\r\n",
      "nonsense nonsense nonsense\r\n\r\n",
      std::string(1000, '\0'),
      std::string(100'000, 'A'),
      "GET / HTTP/9.9\r\nHost: localhost\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
      "GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
      "GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
      "GET /%00%ff%2e%2e/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "GET /" + std::string(200'000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n"};
  std::string many = "GET / HTTP/1.1\r\nHost: localhost\r\n";
  for (int i = 0; i < 5000; ++i) many += "X-Header-" + std::to_string(i) + ": value\r\n";
  bad.push_back(many + "\r\n");
  for (const std::string& bytes : bad) {
    { HttpClient(server_->port()).Send(bytes); }  // and closes the connection
    EXPECT_THAT(Ask("GET", "/"), StartsWith("HTTP/1.1 200 "));
  }
  EXPECT_THAT(Exchange(many + "\r\n"), Not(HasSubstr(" 200 "))) << "headers are bounded";
}

// Connections that are held keep others out, but only while they are held.
TEST_F(HttpServerTest, AnswersAgainOnceHeldConnectionsEnd) {
  for (int round = 0; round < 3; ++round) {
    std::vector<std::unique_ptr<HttpClient>> held;
    for (int i = 0; i < 2 * HttpServer::kMostConnections; ++i) {
      held.push_back(std::make_unique<HttpClient>(server_->port()));
      held.back()->Send("GET / HTTP/1.1\r\n");  // not the end of a request
    }
    held.clear();
    std::string answer;
    const auto soon = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (answer.empty() && std::chrono::steady_clock::now() < soon) answer = Ask("GET", "/");
    ASSERT_THAT(answer, StartsWith("HTTP/1.1 200 ")) << round;
  }
}

TEST_F(HttpServerTest, AnswersManyMoreThanItHoldsAtOnce) {
  for (int i = 0; i < 3 * HttpServer::kMostConnections; ++i)
    ASSERT_THAT(Ask("GET", "/studies.json"), StartsWith("HTTP/1.1 200 ")) << i;
}

TEST_F(HttpServerTest, EndsWhileClientsHoldConnections) {
  HttpClient idle(server_->port());
  idle.Send("GET / HTTP/1.1\r\n");
  pages_->Stop();
  server_.reset();
  EXPECT_EQ(idle.ReadAll(), "");
}

}  // namespace
}  // namespace autocfg::server
