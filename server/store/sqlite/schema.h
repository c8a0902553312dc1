// The store's tables, and migration of files of older versions. Not thread-safe: used while a file is opened.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "SQLiteCpp/Database.h"
#include "absl/status/status.h"

namespace autocfg::server {

// "acfg" in ASCII; identifies our files (PRAGMA application_id).
inline constexpr std::int32_t kApplicationId = 0x61636667;

// Migration k (from 0) converts version k to version k + 1. This program reads and writes the last version.
std::span<const char* const> StoreMigrations();

// The error for a file of a version above `known`, the last one that this program reads.
absl::Status NewerVersion(const std::string& path, std::int64_t version, std::int64_t known);

// Migrates the database to version migrations.size(). Each step is one transaction, including its version
// number. FailedPrecondition if the file's version is newer, with both versions; DataLoss if rows refer to
// missing rows. `path` is for messages. Turns foreign keys off if there is anything to migrate; turn them on
// afterwards. Throws SQLite::Exception.
absl::Status Migrate(SQLite::Database& db, std::span<const char* const> migrations, const std::string& path);

}  // namespace autocfg::server
