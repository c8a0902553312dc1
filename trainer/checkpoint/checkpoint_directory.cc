#include "trainer/checkpoint/checkpoint_directory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/numbers.h"
#include "base/os/unique_fd.h"
#include "trainer/checkpoint/file.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "step-";
constexpr std::string_view kPartial = ".partial";
constexpr std::string_view kRemoved = ".removed";
constexpr std::string_view kLock = ".lock";
constexpr std::int64_t kMaxManifestBytes = 100'000'000;

std::string StepPath(const std::string& directory, std::int64_t step) {
  return (fs::path(directory) / fmt::format("{}{}", kPrefix, step)).string();
}

// Returns the step of a name such as "step-12"; nullopt for any other name.
std::optional<std::int64_t> StepOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return std::nullopt;
  return base::ParseNumber<std::int64_t>(name.substr(kPrefix.size()), 0);
}

// Returns the name of a path that may end in "/".
std::string NameOf(const std::string& path) {
  const fs::path whole = fs::path(path).lexically_normal();
  return (whole.has_filename() ? whole.filename() : whole.parent_path().filename()).string();
}

std::string CannotText(std::string_view action, const std::string& path, const std::error_code& error) {
  return fmt::format("cannot {} {}: {}", action, path, error.message());
}

[[noreturn]] void FailOn(std::string_view action, const std::string& path, const std::error_code& error) {
  throw WriteFailed(CannotText(action, path, error));
}

[[noreturn]] void RefuseOn(std::string_view action, const std::string& path, const std::error_code& error) {
  throw BadInput(CannotText(action, path, error));
}

std::error_code LastOsError() { return {errno, std::generic_category()}; }

// Returns the names in a directory.
std::vector<std::string> NamesIn(const std::string& directory) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator it(directory, error), end; !error && it != end; it.increment(error))
    names.push_back(it->path().filename().string());
  if (error) RefuseOn("read directory", directory, error);
  return names;
}

std::vector<CheckpointPlace> PlacesIn(const std::string& directory) {
  std::vector<CheckpointPlace> places;
  for (const std::string& name : NamesIn(directory)) {
    if (const auto step = StepOf(name)) places.push_back({*step, (fs::path(directory) / name).string()});
  }
  std::ranges::sort(places, std::greater<>(), &CheckpointPlace::step);
  return places;
}

// Flushes the names in a directory to the disk.
void SyncDirectory(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.ok()) FailOn("open", path, LastOsError());
  // EINVAL: the file system cannot sync directories.
  if (fsync(fd.get()) != 0 && errno != EINVAL) FailOn("flush", path, LastOsError());
}

void Remove(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) FailOn("remove", path, error);
}

void Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) FailOn("rename", from, error);
}

// Removes a checkpoint in two steps, so that no half of it has the name of a checkpoint.
void RemoveCheckpoint(const std::string& path) {
  const std::string removed = path + std::string(kRemoved);
  Rename(path, removed);
  Remove(removed);
}

// Puts `from` in the place of `to`, which may exist. Where the file system can, `to` is never missing.
void Replace(const std::string& from, const std::string& to) {
  std::error_code ignored;
  if (!fs::exists(fs::symlink_status(to, ignored))) return Rename(from, to);
  if (renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_EXCHANGE) == 0) return Remove(from);
  if (errno != EINVAL && errno != ENOSYS) FailOn("replace", to, LastOsError());
  const std::string removed = to + std::string(kRemoved);
  Rename(to, removed);
  Rename(from, to);
  Remove(removed);
}

bool HasManifest(const std::string& path) {
  std::error_code ignored;
  return fs::exists(fs::path(path) / kManifestName, ignored);
}

// Returns whether a file of a checkpoint may have this name.
bool IsCheckpointFile(std::string_view name) {
  return name.starts_with(kManifestName) ||
         (name.starts_with("rank-") && name.find(".safetensors") != std::string_view::npos);
}

// Returns whether something else than a checkpoint, whole or broken, has the name of one.
bool IsForeign(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) return true;
  return !HasManifest(path) && !std::ranges::all_of(NamesIn(path), IsCheckpointFile);
}

bool IsComplete(const std::string& path) {
  try {
    OpenCheckpoint(path);
    return true;
  } catch (const BadInput&) {
    return false;
  }
}

}  // namespace

std::vector<CheckpointPlace> FindCheckpoints(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error))
    throw BadInput(fmt::format("cannot resume from {}: it is not a directory", path));
  const auto step = StepOf(NameOf(path));
  if (HasManifest(path)) return {{step.value_or(0), path}};
  std::vector<CheckpointPlace> places = PlacesIn(path);
  if (places.empty() && step) return {{*step, path}};  // OpenCheckpoint says what is missing
  if (places.empty()) {
    throw BadInput(fmt::format(
        "{} holds no checkpoint; give a directory that --checkpoint wrote, or one step-N of it", path));
  }
  return places;
}

Manifest OpenCheckpoint(const std::string& path) {
  const std::string manifest_path = (fs::path(path) / kManifestName).string();
  const File file = File::OpenToRead(manifest_path);
  const std::int64_t size = file.Size();
  if (size > kMaxManifestBytes)
    throw BadInput(fmt::format("{} has {} bytes, more than a manifest", manifest_path, size));
  std::string text(static_cast<std::size_t>(size), '\0');
  file.ReadAt(0, text.data(), size);
  Manifest manifest = ParseManifest(text, manifest_path);
  if (const auto step = StepOf(NameOf(path)); step && *step != manifest.step)
    throw BadInput(
        fmt::format("{} is of step {}, and its directory is of another", manifest_path, manifest.step));
  for (const CheckpointFile& of_rank : manifest.files) {
    const std::string name = (fs::path(path) / RankFileName(of_rank.rank)).string();
    const std::int64_t bytes = File::OpenToRead(name).Size();
    if (bytes != of_rank.bytes) {
      throw BadInput(fmt::format("{} is {}: it has {} bytes, its manifest says {}", name,
                                 bytes < of_rank.bytes ? "cut off" : "damaged", bytes, of_rank.bytes));
    }
  }
  return manifest;
}

std::string PartialPath(const std::string& directory, std::int64_t step) {
  return StepPath(directory, step) + std::string(kPartial);
}

CheckpointDirectory::CheckpointDirectory(std::string path, bool resumes) : path_(std::move(path)) {
  std::error_code error;
  const bool is_new = fs::create_directory(path_, error);
  if (error) RefuseOn("create directory", path_, error);
  if (is_new) {
    const fs::path parent = fs::absolute(path_, error).lexically_normal().parent_path();
    SyncDirectory(parent.string());
  }
  if (access(path_.c_str(), W_OK) != 0) RefuseOn("write to directory", path_, LastOsError());
  const std::string lock = (fs::path(path_) / kLock).string();
  base::UniqueFd file(open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!file.ok()) RefuseOn("open", lock, LastOsError());
  lock_ = base::FileLock(std::move(file));  // has no effect on file systems without locks
  if (lock_.error() == EWOULDBLOCK)
    throw BadInput(fmt::format("another run writes checkpoints to {}; give another directory", path_));
  const std::vector<CheckpointPlace> places = PlacesIn(path_);
  for (const CheckpointPlace& place : places) {
    if (IsForeign(place.path)) {
      throw BadInput(
          fmt::format("{} is no checkpoint and has the name of one; move it away, or give another directory",
                      place.path));
    }
  }
  if (!resumes && !places.empty()) {
    throw BadInput(
        fmt::format("{} holds checkpoints; continue from them with --resume {}, or give another directory",
                    path_, path_));
  }
}

void CheckpointDirectory::Begin(std::int64_t step) {
  RemoveLeftovers();
  const std::string partial = PartialPath(path_, step);
  std::error_code error;
  fs::create_directory(partial, error);
  if (error) FailOn("create directory", partial, error);
}

std::string CheckpointDirectory::Commit(const Manifest& manifest) {
  const std::string partial = PartialPath(path_, manifest.step);
  std::string final_path = StepPath(path_, manifest.step);
  const std::string text = ManifestText(manifest);
  FileReplacement file((fs::path(partial) / kManifestName).string());
  file.Append(text.data(), static_cast<std::int64_t>(text.size()));
  file.Finish();
  SyncDirectory(partial);
  Replace(partial, final_path);
  SyncDirectory(path_);
  RemoveOlder(manifest.step);
  return final_path;
}

void CheckpointDirectory::RemoveLeftovers() const {
  for (const std::string& name : NamesIn(path_)) {
    for (const std::string_view suffix : {kPartial, kRemoved}) {
      if (name.ends_with(suffix) && StepOf(std::string_view(name).substr(0, name.size() - suffix.size())))
        Remove((fs::path(path_) / name).string());
    }
  }
}

void CheckpointDirectory::RemoveOlder(std::int64_t step) const {
  int kept = 1;  // that of `step`
  for (const CheckpointPlace& place : PlacesIn(path_)) {
    if (place.step >= step) continue;
    if (kept < kKept && IsComplete(place.path)) {
      ++kept;
    } else if (HasManifest(place.path)) {  // not a directory of the user's
      RemoveCheckpoint(place.path);
    }
  }
}

bool IsOfDirectory(const std::string& path, const std::string& directory) {
  std::error_code error;
  const fs::path one = fs::weakly_canonical(fs::absolute(path, error), error);
  const fs::path other = fs::weakly_canonical(fs::absolute(directory, error), error);
  return one == other || one.parent_path() == other;
}

}  // namespace autocfg::trainer
