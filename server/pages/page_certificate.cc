#include "server/pages/page_certificate.h"

#include <sys/stat.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "proto/rpc/tls_files.h"
#include "spdlog/spdlog.h"

namespace autocfg::server {
namespace {

constexpr std::chrono::seconds kLookAtFiles{2};
constexpr int kLooksPerCheck = 30;  // of a certificate whose files have not changed

// What tells two states of the files apart: place, size and time of each.
using FilesMark = std::array<std::int64_t, 8>;

FilesMark MarkOf(const TlsFiles& files) {
  FilesMark mark{};
  std::size_t at = 0;
  for (const std::string* path : {&files.certificate, &files.key}) {
    struct stat found {};
    if (::stat(path->c_str(), &found) != 0) found = {};
    for (const std::int64_t part :
         {static_cast<std::int64_t>(found.st_ino), static_cast<std::int64_t>(found.st_size),
          static_cast<std::int64_t>(found.st_mtim.tv_sec), static_cast<std::int64_t>(found.st_mtim.tv_nsec)})
      mark[at++] = part;
  }
  return mark;
}

absl::StatusOr<std::string> ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  if (!(text << file.rdbuf()))
    return absl::InvalidArgumentError(fmt::format("{} cannot be read", base::Printable(path)));
  return std::move(text).str();
}

}  // namespace

absl::StatusOr<PageCertificate> LoadPageCertificate(const TlsFiles& files) {
  AUTOCFG_RETURN_IF_ERROR(CheckTlsFiles(files));
  AUTOCFG_ASSIGN_OR_RETURN(auto certificate, ReadText(files.certificate));
  AUTOCFG_ASSIGN_OR_RETURN(auto key, ReadText(files.key));
  return PageCertificate{std::move(certificate), std::move(key)};
}

CertificateWatch::CertificateWatch(TlsFiles files, std::string of,
                                   std::function<void(PageCertificate)> changed)
    : files_(std::move(files)),
      of_(std::move(of)),
      changed_(std::move(changed)),
      thread_([this] { Loop(); }) {}

CertificateWatch::~CertificateWatch() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  ends_.notify_all();
  thread_.join();
}

void CertificateWatch::Loop() {
  FilesMark known = MarkOf(files_);
  bool usable = true;
  int looks = 0;
  std::unique_lock lock(mutex_);
  while (!ends_.wait_for(lock, kLookAtFiles, [this] { return ending_; })) {
    const FilesMark now = MarkOf(files_);
    const bool changed = now != known;
    // A certificate ends without a change of its file.
    if (!changed && (!usable || ++looks % kLooksPerCheck != 0)) continue;
    known = now;
    auto loaded = LoadPageCertificate(files_);
    usable = loaded.ok();
    if (!usable) {
      spdlog::warn("the certificate of {} cannot be used any more, and clients may refuse it: {}", of_,
                   std::string(loaded.status().message()));
    } else if (changed) {
      changed_(*std::move(loaded));
    }
  }
}

}  // namespace autocfg::server
