// The manifest of a checkpoint: what it holds, of which run, and the sizes and checksums of its files. A
// checkpoint without a manifest is incomplete. Pure functions, thread-safe. Errors are thrown as BadInput.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/checkpoint/run_identity.h"

namespace autocfg::trainer {

inline constexpr char kManifestName[] = "manifest.json";

struct CheckpointFile {
  std::int64_t rank = 0;  // that wrote it
  std::int64_t bytes = 0;
  std::uint64_t checksum = 0;  // checkpoint/checksum.h
};

struct Manifest {
  std::int64_t step = 0;       // number of completed steps
  std::int64_t sequences = 0;  // consumed so far: the data's position
  RunIdentity run;
  std::string plan;  // text form; the default of a run that resumes (cli/train/checkpoint_run.h)
  std::vector<CheckpointFile> files;
};

// Returns the name of a rank's file: "rank-3.safetensors".
std::string RankFileName(std::int64_t rank);

// Returns the JSON of a manifest. It ends in a checksum of the rest.
std::string ManifestText(const Manifest& manifest);

// Parses the text of the manifest at `path`, which errors name. Throws if the text is cut off or changed
// anywhere, or of another version.
Manifest ParseManifest(const std::string& text, const std::string& path);

}  // namespace autocfg::trainer
