// autocfg calibrate: fits a cluster's figures to measured steps and writes a cluster file for predict and
// search.
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "cli/input/files.h"
#include "cli/input/inputs.h"
#include "cli/report/calibration_report.h"
#include "cli/terminal/console.h"
#include "cli/terminal/interrupt.h"
#include "cli/verbs/verbs.h"
#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include "search/fit/cluster_fit.h"
#include "search/fit/measurements.h"
#include "search/text/calibration_json.h"
#include "search/text/cluster_json.h"

namespace autocfg::cli {
namespace {

struct CalibrateArgs {
  std::string measurements, cluster, defaults, output;
  bool json = false;
};

// Returns a name without the cluster's size: "a100-80gb-sxm:1x8" becomes "a100-80gb-sxm, calibrated".
std::string CalibratedName(const ClusterSpec& cluster) {
  constexpr std::string_view kCalibrated = ", calibrated";
  const NodeGroup& group = cluster.groups.front();
  std::string name(absl::StripSuffix(cluster.name, fmt::format(":{}x{}", group.nodes, group.gpus_per_node)));
  return name.ends_with(kCalibrated) ? name : name.append(kCalibrated);
}

int RunCalibrate(const CalibrateArgs& args) {
  const auto cluster = LoadDescribedCluster(args.cluster);
  if (!cluster.ok()) return Fail(cluster.status());
  const auto defaults = ParseColumnDefaults(args.defaults);
  if (!defaults.ok()) return Fail(defaults.status());
  const auto csv = ReadTextFile(args.measurements);
  if (!csv.ok()) return Fail(kExitUsage, fmt::format("--measurements: {}", Text(csv.status())));
  if (auto status = CheckWritable(args.output); !status.ok())
    return Fail(kExitUsage, fmt::format("--output: {}", Text(status)));
  if (auto status = CheckOtherFile({"--output", args.output},
                                   {{"--measurements", args.measurements}, {"--cluster", args.cluster}});
      !status.ok())
    return Fail(status);
  const auto measurements = ParseMeasurements(*csv, *defaults, *cluster);
  if (!measurements.ok()) return Fail(Where("--measurements", measurements.status(), "measurements"));
  for (const std::string& note : measurements->notes) Note(note);
  for (const auto line : absl::StrSplit(SkippedText(*measurements), '\n', absl::SkipEmpty()))
    Note(std::string(line));

  const std::size_t rows = measurements->rows.size();
  Note(fmt::format("fitting the cluster to {} step{}", rows, rows == 1 ? "" : "s"));
  const Interrupt interrupt;
  const auto fit = FitCluster(*measurements, {}, [&] { return !interrupt.requested(); });
  if (interrupt.requested()) return Fail(kExitInterrupted, "interrupted; nothing was written");
  if (!fit.ok()) return Fail(Where("--measurements", fit.status(), "measurements"));
  if (const std::string text = UnexplainedText(*fit); !text.empty()) Note(text);
  // The file has the size that was asked for, which may be changed in it.
  ClusterSpec fitted = fit->cluster;
  fitted.name = CalibratedName(*cluster);
  fitted.groups.front().nodes = cluster->groups.front().nodes;
  if (auto status = WriteFileAtomically(args.output, ClusterJson(fitted).dump(2) + "\n"); !status.ok())
    return Fail(kExitNegative, fmt::format("--output: {}", Text(status)));
  if (args.json) return Answer(CalibrationJson(*fit->cluster.calibration).dump(2) + "\n");
  return Answer(CalibrationReport(*measurements, *fit) +
                fmt::format("\nwrote {}\n  (a file for --cluster of predict, explain and search)\n",
                            base::Printable(args.output)));
}

}  // namespace

void AddCalibrate(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("calibrate", "fit a cluster's figures to measured steps, for predict and search");
  const auto args = std::make_shared<CalibrateArgs>();
  verb->add_option(
          "--measurements", args->measurements,
          "the steps, a CSV file: layers, hidden, heads, seq_len, global_batch, micro_batch, tp, pp, "
          "dp, and iter_time_ms or iter_time_s; optional: other fields of a model or a plan, "
          "precision, gpus")
      ->required();
  verb->add_option("--cluster", args->cluster, "a preset with its size, or a file: where the fit begins")
      ->required();
  verb->add_option("--default", args->defaults,
                   "values of columns that the file lacks: recompute=full,vocab=51200,precision=fp16");
  verb->add_option("--output", args->output, "write the fitted cluster here, a file for --cluster")
      ->required();
  verb->add_flag("--json", args->json, "what was fitted, as JSON");
  verb->callback([args, &chosen] { chosen = [args] { return RunCalibrate(*args); }; });
}

}  // namespace autocfg::cli
