#include "server/coordinator/pruning.h"

#include <string>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {

Pruning::Pruning(Store& store, PruningOptions options)
    : store_(store), options_(std::move(options)), thread_([this] { Loop(); }) {}

Pruning::~Pruning() {
  stopping_.Set();
  thread_.join();
}

void Pruning::Loop() {
  if (stopping_.Wait(options_.first)) return;
  bool failing = false;
  do {
    if (const absl::Status status = Prune(); status.ok()) {
      failing = false;
    } else if (!std::exchange(failing, true)) {
      spdlog::error("cannot prune the database; retrying: {}", std::string(status.message()));
    }
  } while (!stopping_.Wait(options_.period));
}

absl::Status Pruning::Prune() {
  AUTOCFG_ASSIGN_OR_RETURN(const auto pruned, store_.Prune(options_.limits, options_.clock()));
  if (!pruned.deleted.empty()) options_.on_deleted(pruned.deleted);
  if (!pruned.reduced.empty() || !pruned.deleted.empty()) {
    spdlog::info("pruned the database: {} studies lost details, {} were deleted; {} of {} are in use",
                 pruned.reduced.size(), pruned.deleted.size(), base::BytesText(pruned.bytes_after),
                 base::BytesText(pruned.bytes_before));
  }
  if (options_.limits.bytes > 0 && pruned.bytes_after > options_.limits.bytes) {
    spdlog::warn(
        "the database has {} in use, more than its limit of {}: the rest belongs to unfinished studies",
        base::BytesText(pruned.bytes_after), base::BytesText(options_.limits.bytes));
  }
  while (true) {
    AUTOCFG_ASSIGN_OR_RETURN(const auto more, store_.GiveBackSpace(/*all=*/false));
    if (!more || stopping_.Wait(options_.pause)) return absl::OkStatus();
  }
}

}  // namespace autocfg::server
