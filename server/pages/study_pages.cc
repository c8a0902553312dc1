#include "server/pages/study_pages.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "base/text.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "proto/answer/answer.h"
#include "proto/rpc/channel.h"
#include "proto/short_name.h"
#include "search/plan/plan_text.h"
#include "server/metrics/metrics_text.h"
#include "server/names/names.h"
#include "server/report/report_json.h"
#include "server/report/report_page.h"

namespace autocfg::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kHtml = "text/html; charset=utf-8";
constexpr std::string_view kJsonType = "application/json";
constexpr absl::string_view kBasic = "Basic ";
// Who may call it may read pages, which show the same.
constexpr std::string_view kReadMethod = "/autocfg.v1.StudyService/GetReport";
constexpr int kMostListed = 500;
constexpr std::size_t kMostListedBytes = std::size_t{16} << 20;

HttpAnswer Text(int status, const std::string& text) {
  return {.status = status, .body = std::make_shared<const std::string>(text + "\n")};
}

HttpAnswer Page(std::string_view name) {
  return {.type = kHtml, .body = std::make_shared<const std::string>(EmbeddedPage(name))};
}

HttpAnswer Failed(const absl::Status& status) {
  const std::string text(status.message());
  if (absl::IsNotFound(status)) return Text(404, text);
  if (absl::IsFailedPrecondition(status)) return Text(409, text);
  if (absl::IsCancelled(status) || absl::IsUnavailable(status)) return Text(503, text);
  return Text(500, text);
}

// The parts of pages, and their types.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kParts = {
    {{"report.css", "text/css"},
     {"chart.min.js", "text/javascript"},
     {"text.js", "text/javascript; charset=utf-8"},
     {"charts.js", "text/javascript; charset=utf-8"},
     {"plans.js", "text/javascript; charset=utf-8"},
     {"timeline.js", "text/javascript; charset=utf-8"},
     {"report.js", "text/javascript; charset=utf-8"},
     {"live.js", "text/javascript; charset=utf-8"},
     {"studies.js", "text/javascript; charset=utf-8"}}};

HttpAnswer Part(std::string_view name) {
  for (const auto& [part, type] : kParts) {
    if (part == name) return {.type = type, .body = std::make_shared<const std::string>(EmbeddedPage(name))};
  }
  return Text(404, "there is no such page");
}

// Parses "3" as 3; nothing for other texts.
std::optional<std::int64_t> StudyNumber(std::string_view text) {
  const auto id = ParseStudyName("studies/" + std::string(text));
  return id.ok() ? std::optional(*id) : std::nullopt;
}

Json StudyRow(const v1::Study& study) {
  const v1::ModelSpec& model = study.spec().model();
  const v1::ClusterSpec& cluster = study.spec().cluster();
  std::int64_t ranks = 0;
  for (const v1::NodeGroup& group : cluster.groups()) ranks += group.nodes() * group.gpus_per_node();
  Json row{{"id", study.name().substr(study.name().find('/') + 1)},
           {"state", StateText(study.state())},
           {"phase", study.phase()},
           {"model", model.name()},
           {"cluster",
            cluster.local() || cluster.groups().empty() ? cluster.name() : cluster.groups(0).device().name()},
           {"ranks", ranks},
           {"created_s", std::floor(study.create_time_s())},
           {"measured", study.counts().measured()},
           {"predicted", study.counts().predicted()},
           {"message", base::OneLine(study.message(), 200)},
           {"best", Json()}};
  if (study.has_best()) {
    row["best"] = Json{{"plan", WithShortSplit(study.best().plan_text())},
                       {"seconds", RankedSeconds(study.best())},
                       {"provenance", std::string(Provenance(study.best()))}};
  }
  return row;
}

}  // namespace

bool StudyPages::NamesThisHost(const std::string& host) const {
  if (address_.unix_socket || !address_.local) return true;
  // A port follows the last colon, which is inside of the brackets of an IPv6 address without one.
  const std::size_t colon = host.rfind(':');
  const bool has_port = colon != std::string::npos && host.find(']', colon) == std::string::npos;
  std::string name = has_port ? host.substr(0, colon) : host;
  if (name.size() > 2 && name.front() == '[' && name.back() == ']') name = name.substr(1, name.size() - 2);
  const auto named =
      ParseListenAddress(fmt::format("{}:1", name.find(':') == std::string::npos ? name : "[" + name + "]"));
  return named.ok() && named->local && !named->unix_socket;
}

HttpAnswer StudyPages::StudiesData() {
  const auto studies = store_.ListStudies(0, {kMostListed, kMostListedBytes});
  if (!studies.ok()) return Failed(studies.status());
  Json rows = Json::array();
  for (const v1::Study& study : *studies) rows.push_back(StudyRow(study));
  const Json data{{"studies", std::move(rows)}, {"most", kMostListed}};
  return {
      .type = kJsonType,
      .body = std::make_shared<const std::string>(data.dump(-1, ' ', false, Json::error_handler_t::replace))};
}

HttpAnswer StudyPages::MetricsPage() const {
  auto text = metrics_();
  if (!text.ok()) return Failed(text.status());
  return {.type = kMetricsType, .body = std::make_shared<const std::string>(*std::move(text))};
}

HttpAnswer StudyPages::StudyData(std::int64_t study, const std::string& known) {
  const auto report = reports_.Get(study, [this](const PlanningProgress&) { return !stopping_; });
  if (!report.ok()) return Failed(report.status());
  const std::string etag = fmt::format("\"{}-{}\"", study, (*report)->cursor);
  if (known == etag) return {.status = 304, .body = nullptr, .etag = etag};
  return {
      .type = kJsonType, .body = std::shared_ptr<const std::string>(*report, &(*report)->json), .etag = etag};
}

std::optional<HttpAnswer> StudyPages::Rejected(const HttpRequest& request) const {
  if (address_.unix_socket || !access_.needs_tokens()) return std::nullopt;
  // A browser sends base64 of "USER:PASSWORD" (RFC 7617).
  std::string authorization = request.authorization;
  if (std::string pair; absl::StartsWithIgnoreCase(authorization, kBasic) &&
                        absl::Base64Unescape(authorization.substr(kBasic.size()), &pair)) {
    const std::size_t colon = pair.find(':');
    authorization = colon == std::string::npos ? "" : kTokenPrefix + pair.substr(colon + 1);
  }
  const absl::Status status = access_.Admit(kReadMethod, authorization, request.peer);
  if (status.ok()) return std::nullopt;
  if (absl::IsPermissionDenied(status)) return Text(403, std::string(status.message()));
  HttpAnswer answer = Text(401, "give a token of `autocfg token` as the password, with any user name");
  answer.asks_for_password = true;
  return answer;
}

HttpAnswer StudyPages::Answer(const HttpRequest& request) {
  constexpr std::string_view kStudy = "/studies/", kPart = "/page/", kData = ".json";
  if (!NamesThisHost(request.host)) return Text(403, "this server answers by the name localhost");
  if (stopping_) return Text(503, "the server ends");
  if (auto rejected = Rejected(request)) return *std::move(rejected);
  std::string_view path = request.path;
  if (path == "/") return Page("studies.html");
  if (path == "/studies.json") return StudiesData();
  if (path == "/metrics") return MetricsPage();
  if (path.starts_with(kPart)) return Part(path.substr(kPart.size()));
  if (!path.starts_with(kStudy)) return Text(404, "there is no such page");
  path.remove_prefix(kStudy.size());
  const bool data = path.ends_with(kData);
  if (data) path.remove_suffix(kData.size());
  const auto study = StudyNumber(path);
  if (!study) return Text(404, "there is no such page; that of study 3 is /studies/3");
  if (data) return StudyData(*study, request.if_none_match);
  if (const auto stored = store_.GetStudy(*study); !stored.ok()) return Failed(stored.status());
  return Page("live.html");
}

}  // namespace autocfg::server
