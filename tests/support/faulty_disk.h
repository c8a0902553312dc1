// A disk that fails: while an object of this class exists, SQLite's files in one directory are on it. Reads,
// writes or syncs fail on demand, and the power may be cut, which drops what was not synced. Files elsewhere
// are not affected. One object at a time, and all connections to its files are opened and closed while it
// exists. Thread-safe.
//
// Nothing is synced to the real disk. Memory mapping is off. The write-ahead log's index is shared memory of
// the system, whose growth counts as a write.
#pragma once

#include <sqlite3.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace autocfg {

class FaultyDisk {
 public:
  enum class Op : std::uint8_t { kRead, kWrite, kSync };
  static constexpr std::int64_t kForEver = std::int64_t{1} << 60;

  explicit FaultyDisk(std::string directory) : directory_(std::move(directory)) {
    real_ = sqlite3_vfs_find(nullptr);
    vfs_ = *real_;
    vfs_.zName = "autocfg_faulty_disk";
    vfs_.szOsFile = static_cast<int>(sizeof(File)) + real_->szOsFile;
    vfs_.pAppData = this;
    vfs_.pNext = nullptr;
    vfs_.xOpen = Open;
    vfs_.xDelete = Delete;
    sqlite3_vfs_register(&vfs_, /*makeDflt=*/1);
  }
  ~FaultyDisk() {
    sqlite3_vfs_unregister(&vfs_);
    sqlite3_vfs_register(real_, /*makeDflt=*/1);
  }
  FaultyDisk(const FaultyDisk&) = delete;
  FaultyDisk& operator=(const FaultyDisk&) = delete;

  // The n-th operation of this kind from now (from 1) fails with the error (SQLITE_IOERR_WRITE, SQLITE_FULL,
  // ...), and so do the next ones: `times` in all.
  void Fail(Op op, std::int64_t n, int error, std::int64_t times = 1) {
    const std::lock_guard lock(mutex_);
    fault_ = Fault{.op = op, .first = seen(op) + n, .last = seen(op) + n + times - 1, .error = error};
    failed_ = 0;
  }
  void Heal() {
    const std::lock_guard lock(mutex_);
    fault_.reset();
  }
  // Returns how many operations have failed since Fail().
  std::int64_t failed() {
    const std::lock_guard lock(mutex_);
    return failed_;
  }

  // From now on every operation fails, until RestorePower().
  void CutPower() {
    const std::lock_guard lock(mutex_);
    dark_ = true;
  }
  // Cuts the power at the n-th write or sync from now.
  void CutPowerAt(std::int64_t n) {
    const std::lock_guard lock(mutex_);
    cut_at_ = seen(Op::kWrite) + seen(Op::kSync) + n;
  }
  bool dark() {
    const std::lock_guard lock(mutex_);
    return dark_;
  }
  // Call when all connections are closed. Of what was not synced, a random part is on the disk: of each write
  // any of its sectors, whatever their order.
  void RestorePower(std::mt19937_64& random) {
    const std::lock_guard lock(mutex_);
    const double kept = std::array{0.0, 0.5, 1.0}[random() % 3];
    std::bernoulli_distribution keeps(kept);
    for (auto& [path, image] : images_) {
      std::string bytes = image.durable;
      for (const Change& change : image.pending) {
        if (!change.written) {
          if (keeps(random)) bytes.resize(change.offset);
          continue;
        }
        for (std::size_t at = 0; at < change.bytes.size();) {
          const std::size_t end =
              std::min(change.bytes.size(), at + kSector - (change.offset + at) % kSector);
          if (keeps(random)) Put(bytes, change.offset + at, change.bytes.substr(at, end - at));
          at = end;
        }
      }
      const bool there = image.deleted ? !keeps(random) : image.named || keeps(random);
      if (there) {
        std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
      } else {
        std::filesystem::remove(path);
      }
    }
    for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
      if (entry.path().extension() == ".db-shm") std::filesystem::remove(entry.path());
    }
    images_.clear();
    dark_ = false;
    cut_at_.reset();
  }

 private:
  static constexpr std::size_t kSector = 512;

  struct File {
    sqlite3_file base;
    FaultyDisk* disk;
    std::string* path;
    bool syncs_directory;  // its next sync also syncs the directory, as SQLite does for new logs
    sqlite3_file* real() { return reinterpret_cast<sqlite3_file*>(this + 1); }
  };
  struct Fault {
    Op op = Op::kRead;
    std::int64_t first = 0, last = 0;
    int error = SQLITE_OK;
  };
  struct Change {
    bool written = false;  // else the file was cut off at `offset`
    std::size_t offset = 0;
    std::string bytes = {};
  };
  // What a power cut leaves of a file.
  struct Image {
    std::string durable = {};
    std::vector<Change> pending = {};
    bool named = false;  // its directory has it
    bool deleted = false;
  };

  static void Put(std::string& bytes, std::size_t offset, const std::string& part) {
    if (bytes.size() < offset + part.size()) bytes.resize(offset + part.size());
    bytes.replace(offset, part.size(), part);
  }
  static std::string Contents(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    return text.str();
  }

  std::int64_t& seen(Op op) { return seen_[static_cast<std::size_t>(op)]; }

  // Counts an operation and returns its error, SQLITE_OK if it works.
  int Next(Op op, int dark_error) {
    ++seen(op);
    if (cut_at_ && op != Op::kRead && seen(Op::kWrite) + seen(Op::kSync) >= *cut_at_) dark_ = true;
    if (dark_) return dark_error;
    if (!fault_ || fault_->op != op || seen(op) < fault_->first || seen(op) > fault_->last) return SQLITE_OK;
    ++failed_;
    return fault_->error;
  }

  void SyncDirectory() {
    std::erase_if(images_, [](const auto& image) { return image.second.deleted; });
    for (auto& [path, image] : images_) image.named = true;
  }

  // --- SQLite's interface ---

  static File& Of(sqlite3_file* file) { return *reinterpret_cast<File*>(file); }

  static int Open(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out) {
    auto* const disk = static_cast<FaultyDisk*>(vfs->pAppData);
    sqlite3_vfs* const real = disk->real_;
    if (name == nullptr || std::string(name).rfind(disk->directory_, 0) != 0) {
      // The real file begins where SQLite expects it.
      return real->xOpen(real, name, file, flags, out);
    }
    const std::lock_guard lock(disk->mutex_);
    auto& mine = *new (file) File{};
    if (disk->dark_) return SQLITE_CANTOPEN;
    const bool there = std::filesystem::exists(name);
    const int code = real->xOpen(real, name, mine.real(), flags, out);
    if (code != SQLITE_OK) return code;
    const auto [image, is_new] = disk->images_.try_emplace(name);
    if (is_new) image->second = Image{.durable = there ? Contents(name) : "", .named = there};
    if (!there && !is_new) {  // deleted before
      image->second.deleted = false;
      image->second.pending.push_back({});
    }
    mine.disk = disk;
    mine.path = new std::string(name);
    mine.syncs_directory =
        (flags & SQLITE_OPEN_CREATE) != 0 && (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
    mine.base.pMethods = &kMethods;
    return SQLITE_OK;
  }
  static int Delete(sqlite3_vfs* vfs, const char* name, int sync_directory) {
    auto* const disk = static_cast<FaultyDisk*>(vfs->pAppData);
    const std::lock_guard lock(disk->mutex_);
    if (disk->dark_) return SQLITE_IOERR_DELETE;
    const int code = disk->real_->xDelete(disk->real_, name, 0);
    if (code != SQLITE_OK) return code;
    if (const auto image = disk->images_.find(name); image != disk->images_.end()) {
      image->second.deleted = true;
      if (sync_directory != 0) disk->SyncDirectory();
    }
    return SQLITE_OK;
  }

  static int Close(sqlite3_file* file) {
    delete Of(file).path;
    return Of(file).real()->pMethods->xClose(Of(file).real());
  }
  static int Read(sqlite3_file* file, void* to, int bytes, sqlite3_int64 offset) {
    FaultyDisk& disk = *Of(file).disk;
    const std::lock_guard lock(disk.mutex_);
    if (const int code = disk.Next(Op::kRead, SQLITE_IOERR_READ); code != SQLITE_OK) return code;
    return Of(file).real()->pMethods->xRead(Of(file).real(), to, bytes, offset);
  }
  static int Write(sqlite3_file* file, const void* from, int bytes, sqlite3_int64 offset) {
    FaultyDisk& disk = *Of(file).disk;
    const std::lock_guard lock(disk.mutex_);
    if (const int code = disk.Next(Op::kWrite, SQLITE_IOERR_WRITE); code != SQLITE_OK) return code;
    const int code = Of(file).real()->pMethods->xWrite(Of(file).real(), from, bytes, offset);
    if (code == SQLITE_OK) {
      disk.images_[*Of(file).path].pending.push_back(
          {true, static_cast<std::size_t>(offset),
           std::string(static_cast<const char*>(from), static_cast<std::size_t>(bytes))});
    }
    return code;
  }
  static int Truncate(sqlite3_file* file, sqlite3_int64 size) {
    FaultyDisk& disk = *Of(file).disk;
    const std::lock_guard lock(disk.mutex_);
    if (const int code = disk.Next(Op::kWrite, SQLITE_IOERR_TRUNCATE); code != SQLITE_OK) return code;
    const int code = Of(file).real()->pMethods->xTruncate(Of(file).real(), size);
    if (code == SQLITE_OK)
      disk.images_[*Of(file).path].pending.push_back({false, static_cast<std::size_t>(size), ""});
    return code;
  }
  static int Sync(sqlite3_file* file, int) {
    FaultyDisk& disk = *Of(file).disk;
    const std::lock_guard lock(disk.mutex_);
    if (const int code = disk.Next(Op::kSync, SQLITE_IOERR_FSYNC); code != SQLITE_OK) return code;
    Image& image = disk.images_[*Of(file).path];
    for (const Change& change : image.pending) {
      if (change.written) {
        Put(image.durable, change.offset, change.bytes);
      } else {
        image.durable.resize(change.offset);
      }
    }
    image.pending.clear();
    image.named = true;
    if (std::exchange(Of(file).syncs_directory, false)) disk.SyncDirectory();
    return SQLITE_OK;
  }
  static int FileSize(sqlite3_file* file, sqlite3_int64* size) {
    return Of(file).real()->pMethods->xFileSize(Of(file).real(), size);
  }
  static int Lock(sqlite3_file* file, int level) {
    return Of(file).real()->pMethods->xLock(Of(file).real(), level);
  }
  static int Unlock(sqlite3_file* file, int level) {
    return Of(file).real()->pMethods->xUnlock(Of(file).real(), level);
  }
  static int CheckReservedLock(sqlite3_file* file, int* held) {
    return Of(file).real()->pMethods->xCheckReservedLock(Of(file).real(), held);
  }
  static int FileControl(sqlite3_file* file, int op, void* argument) {
    // A hint that SQLite may ignore: it would write around this disk.
    if (op == SQLITE_FCNTL_SIZE_HINT || op == SQLITE_FCNTL_CHUNK_SIZE) return SQLITE_OK;
    return Of(file).real()->pMethods->xFileControl(Of(file).real(), op, argument);
  }
  static int SectorSize(sqlite3_file* file) {
    return Of(file).real()->pMethods->xSectorSize(Of(file).real());
  }
  static int DeviceCharacteristics(sqlite3_file* file) {
    return Of(file).real()->pMethods->xDeviceCharacteristics(Of(file).real());
  }
  static int ShmMap(sqlite3_file* file, int region, int bytes, int extend, void volatile** to) {
    FaultyDisk& disk = *Of(file).disk;
    const std::lock_guard lock(disk.mutex_);
    if (extend != 0) {
      if (const int code = disk.Next(Op::kWrite, SQLITE_IOERR_SHMSIZE); code != SQLITE_OK)
        return code == SQLITE_FULL ? SQLITE_IOERR_SHMSIZE : code;  // as SQLite reports a full disk here
    }
    return Of(file).real()->pMethods->xShmMap(Of(file).real(), region, bytes, extend, to);
  }
  static int ShmLock(sqlite3_file* file, int offset, int n, int flags) {
    return Of(file).real()->pMethods->xShmLock(Of(file).real(), offset, n, flags);
  }
  static void ShmBarrier(sqlite3_file* file) { Of(file).real()->pMethods->xShmBarrier(Of(file).real()); }
  static int ShmUnmap(sqlite3_file* file, int deletes) {
    return Of(file).real()->pMethods->xShmUnmap(Of(file).real(), deletes);
  }

  static inline const sqlite3_io_methods kMethods = {.iVersion = 2,
                                                     .xClose = Close,
                                                     .xRead = Read,
                                                     .xWrite = Write,
                                                     .xTruncate = Truncate,
                                                     .xSync = Sync,
                                                     .xFileSize = FileSize,
                                                     .xLock = Lock,
                                                     .xUnlock = Unlock,
                                                     .xCheckReservedLock = CheckReservedLock,
                                                     .xFileControl = FileControl,
                                                     .xSectorSize = SectorSize,
                                                     .xDeviceCharacteristics = DeviceCharacteristics,
                                                     .xShmMap = ShmMap,
                                                     .xShmLock = ShmLock,
                                                     .xShmBarrier = ShmBarrier,
                                                     .xShmUnmap = ShmUnmap,
                                                     .xFetch = nullptr,
                                                     .xUnfetch = nullptr};

  const std::string directory_;
  sqlite3_vfs* real_ = nullptr;
  sqlite3_vfs vfs_ = {};

  std::mutex mutex_;
  std::array<std::int64_t, 3> seen_ = {};
  std::optional<Fault> fault_;
  std::int64_t failed_ = 0;
  std::optional<std::int64_t> cut_at_;
  bool dark_ = false;
  std::map<std::string, Image> images_;
};

}  // namespace autocfg
