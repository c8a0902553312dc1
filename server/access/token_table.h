// The tokens with which callers show who they are. The store keeps their hashes; this table is its copy in
// memory, which each call asks. Thread-safe.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "autocfg/v1/access_service.pb.h"
#include "base/os/host.h"
#include "server/store/store.h"

namespace autocfg::server {

class TokenTable {
 public:
  // `store` must outlive the table.
  TokenTable(Store& store, base::Clock clock);

  // Reads the store's tokens. Call before the first Find.
  absl::Status Load();

  // Returns the token with this text, unless it has expired.
  std::optional<v1::Token> Find(std::string_view text) const;

  // Makes a token: returns it and its text, of which only a hash is kept. InvalidArgument: its name, owner,
  // role or time cannot be used. AlreadyExists: the name is taken. ResourceExhausted: there are too many.
  absl::StatusOr<v1::CreateTokenResponse> Create(const v1::Token& token);
  absl::Status Delete(const std::string& name);  // InvalidArgument, NotFound
  std::vector<v1::Token> List() const;           // by name

 private:
  Store& store_;
  const base::Clock clock_;
  absl::Mutex changing_;  // one change at a time
  mutable absl::Mutex mutex_;
  std::map<std::string, v1::Token, std::less<>> by_hash_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace autocfg::server
