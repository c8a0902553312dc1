#include "trainer/checkpoint/training_state.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <span>
#include <utility>

#include "search/plan/plan_text.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/layout/element_copy.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kBufferBytes = 1 << 20;

// A record of GatherOnFirst of a rank that wrote no file.
constexpr RankExchange::Record kNoFile = {-1, 0};

std::string FilePath(const std::string& checkpoint, std::int64_t rank) {
  return (fs::path(checkpoint) / RankFileName(rank)).string();
}

// Writes the rank's file. Returns its size and checksum.
RankExchange::Record WriteOwnFile(const std::string& path, const std::vector<OwnedPiece>& pieces,
                                  const RankState& rank) {
  if (pieces.empty()) return kNoFile;
  const std::vector<Parameter>& parameters = rank.layout.parameters();
  std::vector<TensorToStore> tensors;
  for (const OwnedPiece& piece : pieces) {
    for (const StateKind kind : kStateKinds) {
      const Tensor& state = piece.states[static_cast<std::size_t>(kind)];
      if (!state.IsPresent()) continue;
      tensors.push_back(
          {StoredName(parameters.at(piece.parameter), kind, piece.range), state.dtype, {piece.range.count}});
    }
  }
  SafetensorsWriter file(path, tensors, MetadataOf(pieces, parameters));
  std::vector<char> buffer(kBufferBytes);
  for (const OwnedPiece& piece : pieces) {
    for (const Tensor& state : piece.states) {
      if (!state.IsPresent()) continue;
      for (std::int64_t done = 0; done < state.Bytes();) {
        const std::int64_t bytes = std::min(kBufferBytes, state.Bytes() - done);
        rank.device.CopyToHost(buffer.data(), state.As<char>() + done, bytes, rank.stream);
        rank.stream.Synchronize();
        file.Append(buffer.data(), bytes);
        done += bytes;
      }
    }
  }
  file.Finish();
  return {file.bytes(), static_cast<std::int64_t>(file.checksum())};
}

// Reads elements of one tensor of a file, in ascending order, through a buffer.
class TensorReader {
 public:
  TensorReader(const SafetensorsFile& file, const StoredTensor& tensor, std::int64_t width)
      : file_(file), tensor_(tensor), width_(width) {}

  // Returns the bytes of elements [first, first + count), or of as many as fit into the buffer. Valid until
  // the next call.
  std::span<const char> Read(std::int64_t first, std::int64_t count) {
    const std::int64_t begin = first * width_, end = std::min(begin + count * width_, begin + kBufferBytes);
    if (begin < begin_ || end > begin_ + static_cast<std::int64_t>(buffer_.size())) {
      begin_ = begin;
      buffer_.resize(static_cast<std::size_t>(std::min(kBufferBytes, tensor_.end - tensor_.begin - begin)));
      file_.ReadBytes(tensor_, begin, buffer_);
    }
    return std::span<const char>(buffer_).subspan(static_cast<std::size_t>(begin - begin_),
                                                  static_cast<std::size_t>(end - begin));
  }

 private:
  const SafetensorsFile& file_;
  const StoredTensor& tensor_;
  const std::int64_t width_;
  std::int64_t begin_ = 0;
  std::vector<char> buffer_;
};

// Copies float elements to elements [offset, ...) of a tensor of a narrower type, rounded.
void CopyRounded(std::span<const char> floats, const Tensor& tensor, std::int64_t offset, Device& device,
                 Stream& stream) {
  std::vector<double> values(floats.size() / sizeof(float));
  for (std::size_t i = 0; i < values.size(); ++i) {
    float value = 0;
    std::memcpy(&value, floats.data() + i * sizeof(float), sizeof(float));
    values[i] = value;
  }
  CopyFromDoubles(values, tensor, offset, device, stream);
}

// Copies the rank's elements from the files of a checkpoint.
class Restore {
 public:
  Restore(const std::vector<StateTarget>& targets, const RankState& rank) : rank_(rank), targets_(targets) {
    copied_.resize(targets_.size());
    for (std::size_t i = 0; i < targets_.size(); ++i)
      targets_of_[rank.layout.parameters()[targets_[i].parameter].name].push_back(i);
  }

  void CopyFrom(const std::string& path) {
    const SafetensorsFile file(path);
    for (const StoredPiece& piece : StoredPieces(file)) {
      const auto targets = targets_of_.find(piece.parameter.name);
      if (targets == targets_of_.end()) continue;
      for (const std::size_t i : targets->second) CopyPiece(file, piece, i);
    }
  }

  // Throws unless every element was in exactly one file.
  void CheckComplete(const std::string& checkpoint) const {
    for (std::size_t i = 0; i < targets_.size(); ++i) {
      const Parameter& p = rank_.layout.parameters()[targets_[i].parameter];
      const std::int64_t wanted = ModelElements(p, targets_[i].range);
      if (copied_[i] == wanted) continue;
      throw BadInput(fmt::format("{} has {} of {} elements of {} ({}); take an older checkpoint", checkpoint,
                                 copied_[i], wanted, p.name, Name(targets_[i].kind)));
    }
  }

 private:
  void CopyPiece(const SafetensorsFile& file, const StoredPiece& piece, std::size_t index) {
    const StateTarget& target = targets_[index];
    const Parameter& wanted = rank_.layout.parameters()[target.parameter];
    if (wanted.global_shape != piece.parameter.global_shape) {
      throw BadInput(fmt::format("{} of {} has shape [{}]; the model expects [{}]", wanted.name, file.path(),
                                 fmt::join(piece.parameter.global_shape, ", "),
                                 fmt::join(wanted.global_shape, ", ")));
    }
    const std::string name = StoredName(piece.parameter, target.kind, piece.range);
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end()) throw BadInput(fmt::format("{} lacks tensor {}", file.path(), name));
    const StoredTensor& stored = found->second;
    const bool rounds = stored.dtype == StoredTypeName(DType::kF32) && SizeOf(target.tensor.dtype) < 4;
    if (!rounds && stored.dtype != StoredTypeName(target.tensor.dtype)) {
      throw BadInput(fmt::format("{} of {} has type {}; this run needs {}", wanted.name, file.path(),
                                 stored.dtype, StoredTypeName(target.tensor.dtype)));
    }
    const std::int64_t width = rounds ? SizeOf(DType::kF32) : SizeOf(target.tensor.dtype);
    TensorReader reader(file, stored, width);
    for (const SharedRun& run : SharedRuns(piece, wanted, target.range)) {
      for (std::int64_t done = 0; done < run.count;) {
        const std::span<const char> bytes = reader.Read(run.from + done, run.count - done);
        if (rounds) {
          CopyRounded(bytes, target.tensor, run.to + done, rank_.device, rank_.stream);
        } else {
          rank_.device.CopyFromHost(target.tensor.As<char>() + (run.to + done) * width, bytes.data(),
                                    static_cast<std::int64_t>(bytes.size()), rank_.stream);
        }
        done += static_cast<std::int64_t>(bytes.size()) / width;
      }
      copied_[index] += run.count;
    }
  }

  const RankState& rank_;
  const std::vector<StateTarget>& targets_;
  std::map<std::string, std::vector<std::size_t>> targets_of_;  // by parameter
  std::vector<std::int64_t> copied_;                            // elements, by target
};

// Returns the position after the first file of this rank's share that does not match its checksum, counted
// in the manifest; 0 if all match. Each file is in one rank's share.
std::int64_t DamagedFile(const std::string& checkpoint, const Manifest& manifest, const RankShape& shape) {
  const std::int64_t ranks = RankCount(shape.plan);
  for (std::size_t i = 0; i < manifest.files.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    if (position % ranks != shape.rank) continue;
    const CheckpointFile& file = manifest.files[i];
    if (ChecksumOfFile(FilePath(checkpoint, file.rank)) != file.checksum) return position + 1;
  }
  return 0;
}

void CheckSameRun(const std::string& checkpoint, const Manifest& manifest, const RunIdentity& run) {
  if (const std::string difference = FirstDifference(manifest.run, run); !difference.empty()) {
    throw BadInput(
        fmt::format("cannot resume from {}: {}; a resumed run needs the same value", checkpoint, difference));
  }
}

void CheckHasMoreSteps(const std::string& checkpoint, const Manifest& manifest, std::int64_t last_step) {
  if (manifest.step >= last_step) {
    throw BadInput(
        fmt::format("cannot resume from {}: {} steps are done, and the run has {}; give more --steps",
                    checkpoint, manifest.step, last_step));
  }
}

// Chooses the checkpoint that all ranks restore.
class Choice {
 public:
  Choice(const std::string& path, const RankState& rank)
      : path_(path), rank_(rank), places_(FindCheckpoints(path)) {}

  // Sets `place` and `manifest` to rank 0's newest checkpoint that is complete and undamaged.
  void Choose(std::int64_t last_step) {
    for (;; ++next_) {
      SkipIncomplete();
      const bool found = next_ < places_.size();
      const double choice = rank_.exchange.Largest(rank_.shape.rank != 0 ? -2
                                                   : found ? static_cast<double>(places_[next_].step)
                                                           : -1);
      if (choice < 0) {
        throw BadInput(
            fmt::format("{} holds no checkpoint that can be used: {}; give --resume another directory", path_,
                        fmt::join(passed_over_, "; ")));
      }
      Take(static_cast<std::int64_t>(choice));
      CheckSameRun(place.path, manifest, rank_.run);
      const auto damaged = static_cast<std::size_t>(
          rank_.exchange.Largest(static_cast<double>(DamagedFile(place.path, manifest, rank_.shape))));
      if (damaged == 0) return CheckHasMoreSteps(place.path, manifest, last_step);
      passed_over_.push_back(fmt::format("{} is damaged: its content does not match its checksum",
                                         FilePath(place.path, manifest.files.at(damaged - 1).rank)));
    }
  }

  CheckpointPlace place;
  Manifest manifest;
  const std::vector<std::string>& passed_over() const { return passed_over_; }

 private:
  void SkipIncomplete() {
    for (; next_ < places_.size(); ++next_) {
      try {
        OpenCheckpoint(places_[next_].path);
        return;
      } catch (const BadInput& e) {
        passed_over_.emplace_back(e.what());
      }
    }
  }

  // Opens rank 0's choice, also where this rank's view of the directory differs.
  void Take(std::int64_t step) {
    const auto found = std::ranges::find(places_, step, &CheckpointPlace::step);
    if (found == places_.end())
      throw BadInput(fmt::format("{} has no step-{} here; all ranks need the same directory", path_, step));
    next_ = static_cast<std::size_t>(found - places_.begin());
    place = *found;
    manifest = OpenCheckpoint(place.path);
  }

  const std::string& path_;
  const RankState& rank_;
  const std::vector<CheckpointPlace> places_;  // newest first
  std::size_t next_ = 0;
  std::vector<std::string> passed_over_;
};

}  // namespace

std::string SaveTrainingState(const std::string& path, CheckpointDirectory* directory, std::int64_t step,
                              const std::vector<OwnedPiece>& pieces, const RankState& rank) {
  if (directory != nullptr) directory->Begin(step);
  rank.exchange.Barrier();  // the directory exists
  const auto own = WriteOwnFile(FilePath(PartialPath(path, step), rank.shape.rank), pieces, rank);
  const auto records = rank.exchange.GatherOnFirst(own);  // of files that are complete and durable
  std::string saved;
  if (directory != nullptr) {
    Manifest manifest{.step = step,
                      .sequences = step * rank.shape.workload.global_batch,
                      .run = rank.run,
                      .plan = PlanText(rank.shape.plan),
                      .files = {}};
    for (std::size_t r = 0; r < records.size(); ++r) {
      if (records[r] == kNoFile) continue;
      manifest.files.push_back(
          {static_cast<std::int64_t>(r), records[r][0], static_cast<std::uint64_t>(records[r][1])});
    }
    saved = directory->Commit(manifest);
  }
  rank.exchange.Barrier();
  return saved;
}

RestoredState LoadTrainingState(const std::string& path, std::int64_t last_step,
                                const std::vector<StateTarget>& targets, const RankState& rank) {
  Choice choice(path, rank);
  choice.Choose(last_step);
  const std::string& checkpoint = choice.place.path;
  const Manifest& manifest = choice.manifest;
  if (manifest.sequences != manifest.step * rank.shape.workload.global_batch)
    throw BadInput(fmt::format("{} is at sequence {}, which is not the end of step {}", checkpoint,
                               manifest.sequences, manifest.step));
  Restore restore(targets, rank);
  for (const CheckpointFile& file : manifest.files) restore.CopyFrom(FilePath(checkpoint, file.rank));
  restore.CheckComplete(checkpoint);
  rank.stream.Synchronize();
  RestoredState restored{manifest.step, {}};
  // One note, so that however many there are, the launcher's protocol takes them.
  if (!choice.passed_over().empty()) {
    restored.notes.push_back(
        fmt::format("{}; an older checkpoint is used", fmt::join(choice.passed_over(), "; ")));
  }
  restored.notes.push_back(
      fmt::format("resumed from {}: {} of {} steps are done", checkpoint, manifest.step, last_step));
  return restored;
}

}  // namespace autocfg::trainer
