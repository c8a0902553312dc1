// What `autocfg-server --http` answers: a page of all studies, a page for each, and their data. Read only.
// Thread-safe.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/listen/listen_address.h"
#include "server/pages/http_server.h"
#include "server/report/study_reports.h"
#include "server/store/store.h"

namespace autocfg::server {

class StudyPages {
 public:
  // All but `address` must outlive it. `address`: where it is served. If `access` needs tokens, requests at
  // other addresses than a Unix socket show one that may read: as a bearer token, or as the password of basic
  // authentication, whose user name does not matter.
  // `metrics`: returns the text of /metrics.
  using MetricsSource = std::function<absl::StatusOr<std::string>()>;
  StudyPages(Store& store, StudyReports& reports, const AccessControl& access, MetricsSource metrics,
             ListenAddress address)
      : store_(store),
        reports_(reports),
        access_(access),
        metrics_(std::move(metrics)),
        address_(std::move(address)) {}

  // Answers, by path:
  //   /                 the page of all studies
  //   /studies.json     its data: the newest studies
  //   /studies/3        the page of a study
  //   /studies/3.json   its data (report_json.h)
  //   /page/NAME        a part of a page
  //   /metrics          metrics for Prometheus (server/metrics/metrics_text.h)
  // 304 if the caller has the data already, 401 without a token where one is needed, 403 for the name of
  // another host, 404 for other paths and studies, 409 for a study that was not started, 503 once the end has
  // begun.
  HttpAnswer Answer(const HttpRequest& request);

  // Ends the planning of reports that are asked for.
  void Stop() { stopping_ = true; }

 private:
  // Returns whether the request names this host. A page of another site could else read the studies of a
  // server of this machine by a name that it resolves to 127.0.0.1.
  bool NamesThisHost(const std::string& host) const;
  // Returns nothing if the caller may read.
  std::optional<HttpAnswer> Rejected(const HttpRequest& request) const;
  HttpAnswer StudiesData();
  HttpAnswer MetricsPage() const;
  HttpAnswer StudyData(std::int64_t study, const std::string& known);

  Store& store_;
  StudyReports& reports_;
  const AccessControl& access_;
  const MetricsSource metrics_;
  const ListenAddress address_;
  std::atomic<bool> stopping_ = false;
};

}  // namespace autocfg::server
