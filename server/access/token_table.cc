#include "server/access/token_table.h"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "base/status_macros.h"
#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "server/access/rights.h"

namespace autocfg::server {
namespace {

constexpr std::string_view kPrefix = "tokens/";
constexpr std::string_view kTextPrefix = "autocfg_";  // so that scanners for leaked secrets recognize it
constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kMostTokens = 10'000;
constexpr std::size_t kLongestName = 100;

bool IsPlain(std::string_view text) {
  return !text.empty() && text.size() <= kLongestName && std::all_of(text.begin(), text.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x80 && (std::isalnum(byte) != 0 || c == '-' || c == '_' || c == '.' || c == '@');
  });
}

std::string Hexadecimal(const unsigned char* bytes, std::size_t size) {
  return fmt::format("{:02x}", fmt::join(bytes, bytes + size, ""));
}

// A token's text has 256 random bits, so its plain hash tells nothing of it.
std::string HashOf(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  unsigned int size = 0;
  if (EVP_Digest(text.data(), text.size(), hash.data(), &size, EVP_sha256(), nullptr) != 1)
    throw std::runtime_error("OpenSSL computes no SHA-256");
  return Hexadecimal(hash.data(), size);
}

absl::StatusOr<std::string> NewText() {
  std::array<unsigned char, kSecretBytes> secret{};
  if (RAND_bytes(secret.data(), static_cast<int>(secret.size())) != 1)
    return absl::UnavailableError("the system gives no random bytes for a token; try again");
  return std::string(kTextPrefix) + Hexadecimal(secret.data(), secret.size());
}

absl::StatusOr<std::string> IdOf(const std::string& name) {
  std::string id = name.starts_with(kPrefix) ? name.substr(kPrefix.size()) : "";
  if (IsPlain(id)) return id;
  return absl::InvalidArgumentError(
      fmt::format("'{}' is not the name of a token; expected tokens/ID with an ID of at most {} letters, "
                  "digits, '-', '_', '.' and '@'",
                  base::Printable(name), kLongestName));
}

}  // namespace

TokenTable::TokenTable(Store& store, base::Clock clock) : store_(store), clock_(std::move(clock)) {}

absl::Status TokenTable::Load() {
  AUTOCFG_ASSIGN_OR_RETURN(auto records, store_.ListTokens());
  absl::MutexLock lock(&mutex_);
  by_hash_.clear();
  for (TokenRecord& record : records) by_hash_.emplace(std::move(record.hash), std::move(record.token));
  return absl::OkStatus();
}

std::optional<v1::Token> TokenTable::Find(std::string_view text) const {
  const std::string hash = HashOf(text);
  absl::MutexLock lock(&mutex_);
  const auto found = by_hash_.find(hash);
  if (found == by_hash_.end()) return std::nullopt;
  const double expires_s = found->second.expire_time_s();
  if (expires_s > 0 && expires_s <= clock_()) return std::nullopt;
  return found->second;
}

absl::StatusOr<v1::CreateTokenResponse> TokenTable::Create(const v1::Token& token) {
  AUTOCFG_ASSIGN_OR_RETURN(const auto id, IdOf(token.name()));
  const std::string& owner = token.owner().empty() ? id : token.owner();
  if (!IsPlain(owner)) {
    return absl::InvalidArgumentError(fmt::format(
        "owner '{}' has other characters than letters, digits, '-', '_', '.' and '@', or more than "
        "{}; give another",
        base::Printable(owner), kLongestName));
  }
  if (!v1::Role_IsValid(token.role()) || token.role() == v1::ROLE_UNSPECIFIED)
    return absl::InvalidArgumentError("role is missing or unknown; expected read, submit, worker or admin");
  const double now_s = clock_();
  const double expires_s = token.expire_time_s();
  if (!std::isfinite(expires_s) || (expires_s != 0 && expires_s <= now_s)) {
    return absl::InvalidArgumentError(
        fmt::format("expire_time_s {} has passed; give a later time, or 0 for never", expires_s));
  }
  AUTOCFG_ASSIGN_OR_RETURN(auto text, NewText());

  absl::MutexLock change(&changing_);
  {
    absl::MutexLock lock(&mutex_);
    if (by_hash_.size() >= kMostTokens) {
      return absl::ResourceExhaustedError(fmt::format(
          "there are {} tokens, the most that a coordinator keeps; delete some", by_hash_.size()));
    }
  }
  TokenRecord record{.token = token, .hash = HashOf(text)};
  record.token.set_owner(owner);
  record.token.set_create_time_s(now_s);
  AUTOCFG_RETURN_IF_ERROR(store_.AddToken(record));
  v1::CreateTokenResponse made;
  *made.mutable_token() = record.token;
  made.set_text(std::move(text));
  absl::MutexLock lock(&mutex_);
  by_hash_.emplace(std::move(record.hash), std::move(record.token));
  return made;
}

absl::Status TokenTable::Delete(const std::string& name) {
  AUTOCFG_RETURN_IF_ERROR(IdOf(name).status());
  absl::MutexLock change(&changing_);
  AUTOCFG_RETURN_IF_ERROR(store_.RemoveToken(name));
  absl::MutexLock lock(&mutex_);
  std::erase_if(by_hash_, [&](const auto& each) { return each.second.name() == name; });
  return absl::OkStatus();
}

std::vector<v1::Token> TokenTable::List() const {
  std::vector<v1::Token> tokens;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [hash, token] : by_hash_) tokens.push_back(token);
  }
  std::sort(tokens.begin(), tokens.end(),
            [](const v1::Token& a, const v1::Token& b) { return a.name() < b.name(); });
  return tokens;
}

}  // namespace autocfg::server
