// Tokens of callers.
#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {

absl::Status SqliteStore::AddToken(const TokenRecord& record) {
  return Write([&]() -> absl::Status {
    const std::string& name = record.token.name();
    SQLite::Statement found = Query("SELECT 1 FROM tokens WHERE name = ?", name);
    if (found.executeStep()) {
      return absl::AlreadyExistsError(
          fmt::format("{} exists; delete it first, or choose another name", name));
    }
    found.reset();
    Execute("INSERT INTO tokens (name, hash, token) VALUES (?, ?, ?)", name, record.hash, record.token);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<TokenRecord>> SqliteStore::ListTokens() {
  return Read([&]() -> absl::StatusOr<std::vector<TokenRecord>> {
    std::vector<TokenRecord> records;
    SQLite::Statement rows = Query("SELECT hash, token FROM tokens ORDER BY name");
    while (rows.executeStep()) {
      TokenRecord& record = records.emplace_back();
      record.hash = rows.getColumn(0).getString();
      Parse(rows.getColumn(1), record.token);
    }
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
