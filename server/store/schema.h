// The tables of the store and how a file of an older version becomes one of this version. Not thread-safe:
// called while a file is opened.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "SQLiteCpp/Database.h"
#include "absl/status/status.h"

namespace autocfg {

// "acfg" in ASCII: marks the file as ours (PRAGMA application_id).
inline constexpr std::int32_t kApplicationId = 0x61636667;

// Migration k (from 0) takes a file from version k to version k + 1; the last one's version is what this
// program reads and writes.
std::span<const char* const> StoreMigrations();

// Brings the database to version migrations.size(), each step in a transaction of its own together with its
// version number. FailedPrecondition where the file's version is newer, naming both; DataLoss where rows are
// left without what they refer to; `path` is for messages. Turns foreign keys off where there is anything to
// do: turn them on afterwards. Throws SQLite::Exception.
absl::Status Migrate(SQLite::Database& db, std::span<const char* const> migrations, const std::string& path);

}  // namespace autocfg
