// autocfg workers: lists and drains the workers of a coordinator.
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "cli/client/study_names.h"
#include "cli/client/worker_client.h"
#include "cli/input/service_options.h"
#include "cli/terminal/console.h"
#include "cli/terminal/layout.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"
#include "proto/short_name.h"

namespace autocfg::cli {
namespace {

using Json = nlohmann::ordered_json;

struct WorkersArgs {
  ServiceOptions service;
  std::string drain;
  bool gone = false;
  bool json = false;
};

// The state, in a table for people.
std::string ShownState(const v1::Worker& worker) {
  if (worker.state() == v1::WORKER_STATE_ACTIVE && !worker.takes_jobs()) return "not polling";
  return StateText(worker.state());
}

Json WorkerJson(const v1::Worker& worker) {
  const v1::Inventory& inventory = worker.inventory();
  Json json{{"worker", worker.name()},
            {"state", StateText(worker.state())},
            {"takes_jobs", worker.takes_jobs()},
            {"hostname", inventory.hostname()},
            {"device", inventory.device_kind()},
            {"device_fingerprint", inventory.device_fingerprint()},
            {"slots", inventory.slots()},
            {"ranks_in_use", worker.ranks_in_use()},
            {"memory_bytes", inventory.memory_bytes()},
            {"physical_cores", inventory.physical_cores()},
            {"build_id", inventory.build_id()},
            {"driver", inventory.driver()},
            {"session_epoch", worker.session_epoch()},
            {"register_time_s", worker.register_time_s()}};
  json["last_seen_s"] = worker.last_seen_s() > 0 ? Json(worker.last_seen_s()) : Json(nullptr);
  json["leaves_in_s"] = worker.has_leaves_in_s() ? Json(worker.leaves_in_s()) : Json(nullptr);
  json["jobs"] = Json::array();
  for (const std::string& job : worker.jobs()) json["jobs"].push_back(job);
  json["engines"] = Json::array();
  for (const v1::Engine& engine : inventory.engines()) {
    json["engines"].push_back(
        {{"name", engine.name()},
         {"version", engine.version()},
         {"format", engine.format()},
         {"space", std::vector<std::string>(engine.space().begin(), engine.space().end())}});
  }
  json["gpus"] = Json::array();
  for (const v1::Gpu& gpu : inventory.gpus()) {
    json["gpus"].push_back({{"index", gpu.index()},
                            {"name", gpu.name()},
                            {"uuid", gpu.uuid()},
                            {"memory_bytes", gpu.memory_bytes()},
                            {"left_out", gpu.left_out()}});
  }
  return json;
}

// Returns ", engine NAME VERSION" for each engine that it offers beside the built-in one.
std::string EnginesText(const v1::Inventory& inventory) {
  std::string text;
  for (const v1::Engine& engine : inventory.engines())
    text += fmt::format(", engine {} {}", engine.name(), base::OneLine(engine.version()));
  return text;
}

std::string SeenText(double last_seen_s) {
  if (last_seen_s <= 0) return "-";
  const double ago_s = absl::ToDoubleSeconds(absl::Now() - absl::UnixEpoch()) - last_seen_s;
  return ago_s < 1 ? "now" : fmt::format("{} ago", base::SecondsText(std::floor(ago_s)));
}

// Returns ", takes jobs for 25 min" of one that leaves.
std::string LeavesText(const v1::Worker& worker) {
  if (!worker.has_leaves_in_s() || worker.state() == v1::WORKER_STATE_GONE) return "";
  return fmt::format(", takes jobs for {}", base::SecondsText(std::floor(worker.leaves_in_s())));
}

// Returns --coordinator, or the address of the search that has the database open.
absl::StatusOr<Endpoint> Coordinator(const ServiceOptions& options) {
  AUTOCFG_RETURN_IF_ERROR(CheckServiceOptions(options));
  if (options.remote()) return EndpointOf(options);
  AUTOCFG_ASSIGN_OR_RETURN(const auto path, server::DatabasePath(options.database));
  AUTOCFG_ASSIGN_OR_RETURN(const auto socket, SocketPath(path));
  if (IsListening(socket)) return Endpoint{.target = "unix:" + socket};
  return absl::UnavailableError(
      fmt::format("{}: no coordinator uses it; give --coordinator, or start a search", path));
}

int RunWorkers(const WorkersArgs& args) {
  const auto endpoint = Coordinator(args.service);
  if (!endpoint.ok()) return Fail(endpoint.status());
  WorkerClient client(*endpoint);
  if (!args.drain.empty()) {
    const std::string name = args.drain.starts_with("workers/") ? args.drain : "workers/" + args.drain;
    absl::Status status = client.DrainWorker(name);
    if (absl::IsNotFound(status))
      status = absl::NotFoundError(fmt::format("{} is not registered; autocfg workers lists all", name));
    if (!status.ok()) return Fail(Where("--drain", status));
    return Answer(
        Wrapped(fmt::format("{} is draining: it takes no more work and exits once its jobs end", name)));
  }
  const auto workers = client.ListWorkers(args.gone);
  if (!workers.ok()) return Fail(workers.status());
  if (args.json) {
    Json json = Json::array();
    for (const v1::Worker& worker : *workers) json.push_back(WorkerJson(worker));
    return Answer(json.dump(2) + "\n");
  }
  std::vector<std::vector<std::string>> rows = {
      {"worker", "state", "device", "slots", "in use", "seen", "host, build, engines and jobs"}};
  for (const v1::Worker& worker : *workers) {
    const v1::Inventory& inventory = worker.inventory();
    rows.push_back({LastPart(worker.name()), ShownState(worker), inventory.device_kind(),
                    std::to_string(inventory.slots()), std::to_string(worker.ranks_in_use()),
                    SeenText(worker.last_seen_s()),
                    fmt::format("{}, build {}{}{}, {}", inventory.hostname(), inventory.build_id(),
                                EnginesText(inventory), LeavesText(worker),
                                worker.jobs().empty() ? std::string("no job")
                                                      : fmt::format("{}", fmt::join(worker.jobs(), ", ")))});
  }
  if (workers->empty()) Note("no workers; autocfg-worker --coordinator registers one");
  return Answer(Table(rows, {.text = true}));
}

}  // namespace

void AddWorkers(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("workers", "list and drain the workers of a coordinator");
  const auto args = std::make_shared<WorkersArgs>();
  AddServiceOptions(verb, args->service);
  verb->add_option("--drain", args->drain, "NAME: give this worker no more work; it exits once its jobs end");
  verb->add_flag("--gone", args->gone, "include workers that were stopped or silent for a day");
  verb->add_flag("--json", args->json, "as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunWorkers(*args); }; });
}

}  // namespace autocfg::cli
