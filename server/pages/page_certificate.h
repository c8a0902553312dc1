// The certificate of HTTPS pages and its key, as texts, and when their files change. Thread-safe.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "proto/rpc/endpoint.h"

namespace autocfg::server {

struct PageCertificate {
  std::string certificate, key;  // in PEM form
};

// Returns the texts of the files. Errors: those of CheckTlsFiles, or a file cannot be read.
absl::StatusOr<PageCertificate> LoadPageCertificate(const TlsFiles& files);

// Looks at the files every two seconds, on a thread of its own.
class CertificateWatch {
 public:
  // Calls `changed` with a certificate that has changed and can be used. Logs, once, one that cannot be used
  // or has ended meanwhile; `of` names what shows it ("calls").
  CertificateWatch(TlsFiles files, std::string of, std::function<void(PageCertificate)> changed);
  ~CertificateWatch();  // no call of `changed` runs afterwards
  CertificateWatch(const CertificateWatch&) = delete;
  CertificateWatch& operator=(const CertificateWatch&) = delete;

 private:
  void Loop();

  const TlsFiles files_;
  const std::string of_;
  const std::function<void(PageCertificate)> changed_;
  std::mutex mutex_;
  std::condition_variable ends_;
  bool ending_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace autocfg::server
