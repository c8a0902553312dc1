#include "trainer/checkpoint/manifest.h"

#include <fmt/format.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "trainer/checkpoint/checksum.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kManifestFormat = "autocfg checkpoint";
constexpr std::int64_t kManifestVersion = 1;
constexpr std::string_view kChecksumKey = "checksum";

std::string HexText(std::uint64_t value) { return fmt::format("{:016x}", value); }

std::string ChecksumText(const Json& json) {
  const std::string text = json.dump();
  Checksum checksum;
  checksum.Add(text.data(), static_cast<std::int64_t>(text.size()));
  return HexText(checksum.Value());
}

std::uint64_t ParseHex(const std::string& text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) throw std::invalid_argument("not a number");
  return value;
}

// Throws a standard exception if a field is missing or of another type.
Manifest ParseFields(const Json& json) {
  Manifest manifest;
  manifest.step = json.at("step").get<std::int64_t>();
  manifest.sequences = json.at("sequences").get<std::int64_t>();
  manifest.plan = json.at("plan").get<std::string>();
  for (const auto& [name, value] : json.at("run").items())
    manifest.run.emplace_back(name, value.get<std::string>());
  std::set<std::int64_t> ranks;
  for (const Json& file : json.at("files")) {
    manifest.files.push_back({.rank = file.at("rank").get<std::int64_t>(),
                              .bytes = file.at("bytes").get<std::int64_t>(),
                              .checksum = ParseHex(file.at(kChecksumKey).get<std::string>())});
    if (!ranks.insert(manifest.files.back().rank).second) throw std::invalid_argument("a rank has two files");
  }
  return manifest;
}

}  // namespace

std::string RankFileName(std::int64_t rank) { return fmt::format("rank-{}.safetensors", rank); }

std::string ManifestText(const Manifest& manifest) {
  Json json;
  json["format"] = kManifestFormat;
  json["version"] = kManifestVersion;
  json["step"] = manifest.step;
  json["sequences"] = manifest.sequences;
  json["plan"] = manifest.plan;
  json["run"] = Json::object();
  for (const auto& [name, value] : manifest.run) json["run"][name] = value;
  json["files"] = Json::array();
  for (const CheckpointFile& file : manifest.files) {
    json["files"].push_back(
        {{"rank", file.rank}, {"bytes", file.bytes}, {kChecksumKey, HexText(file.checksum)}});
  }
  json[kChecksumKey] = ChecksumText(json);
  return json.dump(2);
}

Manifest ParseManifest(const std::string& text, const std::string& path) {
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    throw BadInput(fmt::format("{} is cut off or damaged: it is not a JSON object", path));
  if (!json.contains("format") || json["format"] != kManifestFormat)
    throw BadInput(fmt::format("{} is not the manifest of a checkpoint", path));
  if (!json.contains("version") || json["version"] != kManifestVersion) {
    throw BadInput(fmt::format("{} has version {}; this trainer reads version {}", path,
                               json.value("version", Json()).dump(), kManifestVersion));
  }
  const Json stored = json.value(kChecksumKey, Json());
  json.erase(std::string(kChecksumKey));
  if (stored != ChecksumText(json))
    throw BadInput(fmt::format("{} is damaged: its content does not match its checksum", path));
  try {
    return ParseFields(json);
  } catch (const std::exception& e) {
    throw BadInput(fmt::format("{} is not a manifest that this trainer reads: {}", path, e.what()));
  }
}

}  // namespace autocfg::trainer
