#include "trainer/checkpoint/state_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <utility>

#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kFormatKey[] = "format";
constexpr char kStateFormat[] = "autocfg training state";
constexpr char kPiecesKey[] = "pieces";

constexpr std::array kShardings = {Sharding::kReplicated, Sharding::kRows, Sharding::kColumns};

std::string_view NameOf(Sharding sharding) {
  switch (sharding) {
    case Sharding::kReplicated: return "replicated";
    case Sharding::kRows: return "rows";
    case Sharding::kColumns: return "columns";
  }
  return "";
}

Sharding ParseSharding(const std::string& name) {
  for (const Sharding sharding : kShardings) {
    if (NameOf(sharding) == name) return sharding;
  }
  throw std::invalid_argument(fmt::format("unknown sharding \"{}\"", name));
}

// Consecutive elements that are contiguous in the whole parameter and in the tensor of a range.
struct PartRun {
  std::int64_t global = 0;
  std::int64_t local = 0;  // within the range
  std::int64_t count = 0;
};

// Returns the runs of a range, ascending both in the whole parameter and in the range.
std::vector<PartRun> RunsOf(const Parameter& parameter, ElementRange range) {
  std::vector<PartRun> runs;
  ForEachRun(parameter, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    const std::int64_t begin = std::max(local, range.first),
                       end = std::min(local + count, range.first + range.count);
    if (begin < end) runs.push_back({global + begin - local, begin - range.first, end - begin});
  });
  return runs;
}

std::int64_t SplitColumns(const Parameter& p) {
  return std::accumulate(p.parts.begin(), p.parts.end(), std::int64_t{0});
}

Json PlaceJson(const Parameter& p, ElementRange range) {
  Json place = {{"parameter", p.name}, {"shape", p.global_shape},     {"part_shape", p.shape},
                {"parts", p.parts},    {"split", NameOf(p.sharding)}, {"shard", p.shard},
                {"shards", p.shards},  {"first", range.first},        {"count", range.count}};
  if (p.sharding == Sharding::kColumns && SplitColumns(p) != p.global_shape.back())
    place["first_column"] = p.first_column;
  return place;
}

// Throws a standard exception that says what is wrong with the sizes of a piece. `some_columns`: whether it
// is of a parameter with some of the columns alone.
void CheckSizes(const StoredPiece& piece, bool some_columns) {
  const Parameter& p = piece.parameter;
  constexpr std::int64_t kMost = std::int64_t{1} << 60;
  const auto count = [](const std::vector<std::int64_t>& shape) {
    if (shape.empty() || shape.size() > 2) throw std::invalid_argument("a shape has not one or two dims");
    std::int64_t elements = 1;
    for (const std::int64_t d : shape) {
      if (d < 1 || d > kMost / elements) throw std::invalid_argument("a shape has an impossible size");
      elements *= d;
    }
    return elements;
  };
  count(p.global_shape);
  const std::int64_t elements = count(p.shape);
  if (p.shape.size() != p.global_shape.size()) throw std::invalid_argument("part and whole differ in dims");
  if (p.shard < 0 || p.shards < 1 || p.shard >= p.shards || p.shards > kMost / elements)
    throw std::invalid_argument("a shard is outside its shards");
  if (piece.range.first < 0 || piece.range.count < 0 || piece.range.count > elements ||
      piece.range.first > elements - piece.range.count)
    throw std::invalid_argument("a range is outside its part");
  const bool fits = [&] {
    switch (p.sharding) {
      case Sharding::kReplicated: return p.shards == 1 && p.shape == p.global_shape;
      case Sharding::kRows:  // the last part may be padded
        return p.shape.front() * p.shards >= p.global_shape.front() &&
               std::equal(p.shape.begin() + 1, p.shape.end(), p.global_shape.begin() + 1);
      case Sharding::kColumns: break;
    }
    for (const std::int64_t part : p.parts) {
      if (part < 1 || part > p.global_shape.back() || part % p.shards != 0) return false;
    }
    const std::int64_t all = p.global_shape.back(), columns = SplitColumns(p);
    if (p.first_column < 0 || p.first_column > all - columns || (!some_columns && columns != all))
      return false;
    return p.shape.back() * p.shards == columns &&
           std::equal(p.shape.begin(), p.shape.end() - 1, p.global_shape.begin());
  }();
  if (!fits) throw std::invalid_argument("a part does not fit into its parameter");
}

StoredPiece ParsePiece(const Json& json) {
  StoredPiece piece;
  Parameter& p = piece.parameter;
  p.name = json.at("parameter").get<std::string>();
  p.global_shape = json.at("shape").get<std::vector<std::int64_t>>();
  p.shape = json.at("part_shape").get<std::vector<std::int64_t>>();
  p.parts = json.at("parts").get<std::vector<std::int64_t>>();
  const bool some_columns = json.contains("first_column");
  if (some_columns) p.first_column = json.at("first_column").get<std::int64_t>();
  p.sharding = ParseSharding(json.at("split").get<std::string>());
  p.shard = json.at("shard").get<std::int64_t>();
  p.shards = json.at("shards").get<std::int64_t>();
  piece.range = {json.at("first").get<std::int64_t>(), json.at("count").get<std::int64_t>()};
  CheckSizes(piece, some_columns);
  return piece;
}

}  // namespace

std::string_view Name(StateKind kind) {
  switch (kind) {
    case StateKind::kWeight: return "weight";
    case StateKind::kFirstMoment: return "m";
    case StateKind::kSecondMoment: return "v";
  }
  return "";
}

std::vector<OwnedPiece> PiecesToSave(const RankShape& shape, const MemoryLayout& layout) {
  std::vector<OwnedPiece> pieces;
  if (shape.replica != 0) return pieces;  // the first one writes them
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    if (!layout.parameters()[i].counted) continue;  // a copy of another rank's
    const ParameterTensors& t = layout.parameter_tensors()[i];
    if (t.own.count == 0) continue;
    pieces.push_back({i, t.own, {t.master.IsPresent() ? t.master : t.own_value, t.m, t.v}});
  }
  return pieces;
}

std::vector<StateTarget> TargetsToLoad(const MemoryLayout& layout) {
  std::vector<StateTarget> targets;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const ParameterTensors& t = layout.parameter_tensors()[i];
    if (t.kept.count > 0) targets.push_back({i, StateKind::kWeight, t.kept, t.kept_value});
    const auto add = [&](StateKind kind, const Tensor& own) {
      if (own.IsPresent()) targets.push_back({i, kind, t.own, own});
    };
    add(StateKind::kWeight, t.master);
    add(StateKind::kFirstMoment, t.m);
    add(StateKind::kSecondMoment, t.v);
  }
  return targets;
}

std::string StoredName(const Parameter& parameter, StateKind kind, ElementRange range) {
  // A parameter with some of the columns alone is beside another of the same name.
  const std::string at = parameter.first_column == 0 ? "" : fmt::format("/{}", parameter.first_column);
  return fmt::format("{}{}/{}/{}", parameter.name, at, Name(kind), range.first);
}

std::map<std::string, std::string> MetadataOf(const std::vector<OwnedPiece>& pieces,
                                              const std::vector<Parameter>& parameters) {
  Json list = Json::array();
  for (const OwnedPiece& piece : pieces)
    list.push_back(PlaceJson(parameters.at(piece.parameter), piece.range));
  std::map<std::string, std::string> metadata;
  metadata[kFormatKey] = kStateFormat;
  metadata[kPiecesKey] = list.dump();
  return metadata;
}

std::vector<StoredPiece> StoredPieces(const SafetensorsFile& file) {
  const auto format = file.metadata().find(kFormatKey);
  const auto text = file.metadata().find(kPiecesKey);
  if (format == file.metadata().end() || format->second != kStateFormat || text == file.metadata().end())
    throw BadInput(fmt::format("{} is not a file of a checkpoint", file.path()));
  std::vector<StoredPiece> pieces;
  try {
    for (const Json& json : Json::parse(text->second)) pieces.push_back(ParsePiece(json));
  } catch (const std::exception& e) {
    throw BadInput(
        fmt::format("{} describes a piece that this trainer cannot read: {}", file.path(), e.what()));
  }
  for (const StoredPiece& piece : pieces) {
    for (const StateKind kind : kStateKinds) {
      const std::string name = StoredName(piece.parameter, kind, piece.range);
      const auto tensor = file.tensors().find(name);
      if (tensor == file.tensors().end()) {
        if (kind != StateKind::kWeight) continue;
        throw BadInput(fmt::format("{} lacks tensor {}", file.path(), name));
      }
      if (tensor->second.shape != std::vector{piece.range.count})
        throw BadInput(fmt::format("tensor {} of {} is not of its piece's size", name, file.path()));
    }
  }
  return pieces;
}

std::vector<SharedRun> SharedRuns(const StoredPiece& piece, const Parameter& wanted, ElementRange range) {
  const std::vector<PartRun> held = RunsOf(piece.parameter, piece.range), sought = RunsOf(wanted, range);
  std::vector<SharedRun> shared;
  auto from = held.begin();
  auto to = sought.begin();
  while (from != held.end() && to != sought.end()) {
    const std::int64_t begin = std::max(from->global, to->global);
    const std::int64_t from_end = from->global + from->count, to_end = to->global + to->count;
    const std::int64_t count = std::min(from_end, to_end) - begin;
    if (count > 0) {
      const SharedRun run = {from->local + begin - from->global, to->local + begin - to->global, count};
      if (!shared.empty() && shared.back().from + shared.back().count == run.from &&
          shared.back().to + shared.back().count == run.to) {
        shared.back().count += count;
      } else {
        shared.push_back(run);
      }
    }
    if (from_end <= to_end) ++from;
    if (to_end <= from_end) ++to;
  }
  return shared;
}

std::int64_t ModelElements(const Parameter& parameter, ElementRange range) {
  std::int64_t elements = 0;
  for (const PartRun& run : RunsOf(parameter, range)) elements += run.count;
  return elements;
}

}  // namespace autocfg::trainer
