// Tokens of callers.
#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {

absl::Status SqliteStore::AddToken(const TokenRecord& record) {
  return Write([&]() -> absl::Status {
    const std::string& name = record.token.name();
    if (Find<int>("SELECT 1 FROM tokens WHERE name = ?", name)) {
      return absl::AlreadyExistsError(
          fmt::format("{} exists; delete it first, or choose another name", name));
    }
    Execute("INSERT INTO tokens (name, hash, token) VALUES (?, ?, ?)", name, record.hash, record.token);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<TokenRecord>> SqliteStore::ListTokens() {
  return Read([&] {
    std::vector<TokenRecord> records;
    for (auto& [token, hash] : Rows<v1::Token, std::string>("SELECT token, hash FROM tokens ORDER BY name"))
      records.push_back({std::move(token), std::move(hash)});
    return records;
  });
}

absl::Status SqliteStore::RemoveToken(const std::string& name) {
  return Write([&]() -> absl::Status {
    if (Execute("DELETE FROM tokens WHERE name = ?", name) > 0) return absl::OkStatus();
    return absl::NotFoundError(fmt::format("there is no {}; ListTokens lists what there is", name));
  });
}

}  // namespace autocfg::server
