// Tokens of callers.
#include "fmt/format.h"
#include "server/store/sqlite/sqlite_store_impl.h"

namespace autocfg::server {

absl::Status Store::AddToken(const TokenRecord& record) {
  return impl_->Write([&]() -> absl::Status {
    const std::string& name = record.token.name();
    if (impl_->Find<int>("SELECT 1 FROM tokens WHERE name = ?", name)) {
      return absl::AlreadyExistsError(
          fmt::format("{} exists; delete it first, or choose another name", name));
    }
    impl_->Execute("INSERT INTO tokens (name, hash, token) VALUES (?, ?, ?)", name, record.hash,
                   record.token);
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<TokenRecord>> Store::ListTokens() {
  return impl_->Read([&] {
    std::vector<TokenRecord> records;
    for (auto& [token, hash] :
         impl_->Rows<v1::Token, std::string>("SELECT token, hash FROM tokens ORDER BY name"))
      records.push_back({std::move(token), std::move(hash)});
    return records;
  });
}

absl::Status Store::RemoveToken(const std::string& name) {
  return impl_->Write([&]() -> absl::Status {
    if (impl_->Execute("DELETE FROM tokens WHERE name = ?", name) > 0) return absl::OkStatus();
    return absl::NotFoundError(fmt::format("there is no {}; ListTokens lists what there is", name));
  });
}

}  // namespace autocfg::server
