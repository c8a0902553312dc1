#include "trainer/checkpoint/weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "kernels/bf16.h"
#include "search/ops/memory_sizes.h"
#include "trainer/checkpoint/safetensors.h"
#include "trainer/checkpoint/stored_names.h"
#include "trainer/layout/element_copy.h"
#include "trainer/layout/errors.h"
#include "trainer/parallel/unit_exchange.h"

namespace autocfg::trainer {
namespace {

constexpr std::int64_t kTile = 1 << 10;  // rows and columns of a matrix tile that is read at once

// Returns all parameters of the model, in order.
std::vector<Parameter> ModelParameters(const RankShape& shape) {
  ParallelPlan one;
  one.micro_batch = shape.plan.micro_batch;
  return RankParameters(MakeRankShape({shape.model, shape.workload, one}, 0));
}

// Returns the tensors of the whole model's file.
std::vector<StoredPart> ModelFile(const std::vector<Parameter>& parameters, NameStyle style) {
  std::vector<StoredPart> all;
  for (const Parameter& p : parameters) {
    for (StoredPart& part : StoredParts(p, style)) all.push_back(std::move(part));
  }
  return all;
}

// Maps each tensor to its name in the file, after checking that file and model match.
std::map<std::string, std::string> MatchNames(const SafetensorsFile& file, const ModelSpec& model,
                                              const std::vector<StoredPart>& wanted) {
  const NameStyle style = StyleOf(model);
  std::map<std::string, std::string> stored_as;
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string full = FullName(style, name);
    if (IsPassedOver(model, full)) continue;
    if (!stored_as.emplace(full, name).second) {
      throw BadInput(
          fmt::format("{} holds tensor {} twice, with and without \"{}\"", file.path(), full, Prefix(style)));
    }
  }
  for (const StoredPart& part : wanted) {
    const auto found = stored_as.find(part.name);
    if (found == stored_as.end())
      throw BadInput(fmt::format("{} lacks tensor {}; give weights of this model", file.path(), part.name));
    const auto& got = file.tensors().at(found->second).shape;
    if (got != part.shape) {
      throw BadInput(
          fmt::format("tensor {} of {} has shape [{}]; the model expects [{}]; give weights of this model",
                      part.name, file.path(), fmt::join(got, ", "), fmt::join(part.shape, ", ")));
    }
  }
  if (wanted.size() < stored_as.size()) {
    for (const auto& stored : stored_as) {
      const bool known =
          std::ranges::any_of(wanted, [&](const StoredPart& part) { return part.name == stored.first; });
      if (!known) {
        throw BadInput(
            fmt::format("{} holds tensor {}, which the model does not have", file.path(), stored.second));
      }
    }
  }
  return stored_as;
}

// Columns of a rank's part that are contiguous in the whole parameter too.
struct ColumnRun {
  std::int64_t local = 0, global = 0, count = 0;
};

// The place of a rank's part in the whole parameter: rows [first_row, first_row + rows), with the same
// columns of each row. A vector is one row.
struct Placement {
  std::int64_t first_row = 0, rows = 0;
  std::vector<ColumnRun> columns;
};

Placement PlacementOf(const Parameter& p) {
  const std::int64_t local_columns = p.shape.back(), all_columns = p.global_shape.back();
  Placement place;
  ForEachRun(p, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
    if (place.rows == 0) place.first_row = global / all_columns;
    if (local < local_columns) {  // the first row, alone or with later rows
      place.columns.push_back({local, global % all_columns, std::min(count, local_columns - local)});
    }
    place.rows = (local + count - 1) / local_columns + 1;
  });
  return place;
}

// Reads values[rows, columns] of the parameter from its tensor, called `name` in the file. Rows count from
// first_row, columns from `first` within the tensor.
void ReadTile(const SafetensorsFile& file, const std::string& name, const StoredPart& part,
              std::int64_t first_row, std::int64_t rows, std::int64_t first, std::int64_t columns,
              std::vector<double>& values) {
  values.resize(static_cast<std::size_t>(rows * columns));
  const std::span<double> all(values);
  if (!part.transposed && columns == part.columns) {
    file.Read(name, first_row * columns, all);
    return;
  }
  if (!part.transposed) {
    for (std::int64_t r = 0; r < rows; ++r) {
      file.Read(name, (first_row + r) * part.columns + first, all.subspan(r * columns, columns));
    }
    return;
  }
  std::vector<double> column(static_cast<std::size_t>(rows));
  for (std::int64_t c = 0; c < columns; ++c) {
    file.Read(name, (first + c) * part.shape.back() + first_row, column);
    for (std::int64_t r = 0; r < rows; ++r) values[r * columns + c] = column[r];
  }
}

// Throws if a value would not be finite as a weight; no run can start from it.
void CheckFinite(const SafetensorsFile& file, const std::string& name, DType dtype,
                 std::span<const double> values) {
  const double most = dtype == DType::kF64    ? std::numeric_limits<double>::max()
                      : dtype == DType::kBF16 ? 0x1.fep127
                                              : static_cast<double>(std::numeric_limits<float>::max());
  for (const double value : values) {
    if (std::abs(value) <= most) continue;
    throw BadInput(fmt::format("tensor {} of {} holds {}, which is {}; use finite weights", name, file.path(),
                               std::isnan(value) ? std::abs(value) : value,
                               std::isfinite(value) ? "too large for this precision" : "not finite"));
  }
}

// Subtracts the offset of a stored part from encoded values.
void SubtractOffset(double offset, DType dtype, std::vector<char>& encoded) {
  const std::size_t width = static_cast<std::size_t>(SizeOf(dtype));
  std::vector<double> values(encoded.size() / width);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const char* from = encoded.data() + i * width;
    float single = 0;
    Bf16Bits half = 0;
    switch (width) {
      case 2:
        std::memcpy(&half, from, width);
        values[i] = FromBf16(half) - offset;
        break;
      case 4:
        std::memcpy(&single, from, width);
        values[i] = single - offset;
        break;
      default: std::memcpy(&values[i], from, width); values[i] -= offset;
    }
  }
  EncodeDoubles(values, dtype, encoded.data());
}

// Copies those of `numbers`, the parameter's elements from `offset` on, that `to` has: it has the elements of
// `range`, or is absent.
void CopyRange(std::span<const double> numbers, std::int64_t offset, const ElementRange& range,
               const Tensor& to, Device& device, Stream& stream) {
  const std::int64_t first = std::max(offset, range.first);
  const std::int64_t end =
      std::min(offset + static_cast<std::int64_t>(numbers.size()), range.first + range.count);
  if (first >= end || !to.IsPresent()) return;
  const std::span<const double> held =
      numbers.subspan(static_cast<std::size_t>(first - offset), static_cast<std::size_t>(end - first));
  CopyFromDoubles(held, to, first - range.first, device, stream);
}

// Copies the rank's part of what `part` holds of a parameter from the file to the device.
void LoadPart(const SafetensorsFile& file, const std::string& name, const StoredPart& part,
              const Placement& place, const ParameterTensors& tensors, std::int64_t local_columns,
              Device& device, Stream& stream) {
  const auto put = [&](std::span<const double> numbers, std::int64_t offset) {
    CopyRange(numbers, offset, tensors.kept, tensors.kept_value, device, stream);
    CopyRange(numbers, offset, tensors.own, tensors.master, device, stream);
  };
  std::vector<double> values;
  for (const ColumnRun& run : place.columns) {
    const std::int64_t begin = std::max(run.global, part.first),
                       end = std::min(run.global + run.count, part.first + part.columns);
    for (std::int64_t column = begin; column < end; column += kTile) {
      const std::int64_t columns = std::min(kTile, end - column);
      for (std::int64_t row = 0; row < place.rows; row += kTile) {
        const std::int64_t rows = std::min(kTile, place.rows - row);
        ReadTile(file, name, part, place.first_row + row, rows, column - part.first, columns, values);
        for (double& value : values) value += part.offset;
        const std::span<const double> all(values);
        CheckFinite(file, name, tensors.value.dtype, all);
        if (columns == local_columns) {
          put(all, row * columns);
          continue;
        }
        for (std::int64_t r = 0; r < rows; ++r) {
          put(all.subspan(r * columns, columns), (row + r) * local_columns + run.local + column - run.global);
        }
      }
    }
  }
}

// Copies the part of the whole parameter [rows, all_columns] that one tensor of the file holds, in the file's
// layout.
template <typename Element>
void CutOut(const std::vector<char>& whole, std::int64_t all_columns, const StoredPart& part,
            std::vector<char>& out) {
  const std::int64_t rows = ElementCount(part.shape) / part.columns;
  out.resize(static_cast<std::size_t>(rows * part.columns) * sizeof(Element));
  const auto* from = reinterpret_cast<const Element*>(whole.data()) + part.first;
  auto* to = reinterpret_cast<Element*>(out.data());
  const std::int64_t row_step = part.transposed ? 1 : part.columns, column_step = part.transposed ? rows : 1;
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t c = 0; c < part.columns; ++c)
      to[r * row_step + c * column_step] = from[r * all_columns + c];
  }
}

// The part of a parameter that a rank holds.
struct Part {
  std::int64_t rank;
  std::size_t index;  // in the rank's list
  Parameter parameter;
};

// Returns the indexes of a rank's parameters, those of one name in a row, which have several where ranks
// share key-value heads: the order in which their values are sent.
std::vector<std::size_t> SendingOrder(const std::vector<Parameter>& parameters) {
  std::map<std::string_view, std::size_t> first;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    first.try_emplace(parameters[i].name, i);
    order.push_back(i);
  }
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return first.at(parameters[i].name); });
  return order;
}

// Maps each parameter to the ranks that hold its parts, with each part once.
std::map<std::string, std::vector<Part>> PartsByName(const RankShape& shape) {
  std::map<std::string, std::vector<Part>> parts;
  for (std::int64_t rank = 0; rank < RankCount(shape.plan); ++rank) {
    const RankShape other = MakeRankShape(shape, rank);
    if (other.data != 0) continue;
    std::size_t index = 0;
    for (Parameter& p : RankParameters(other)) {
      const std::size_t i = index++;
      if (!p.counted) continue;
      std::vector<Part>& of_name = parts[p.name];
      of_name.push_back({rank, i, std::move(p)});
    }
  }
  return parts;
}

// Parts are sent from device to device, in pieces of the size of the world group's staging: rank 0 has no
// other memory for them.
std::int64_t PieceElements(DType dtype) { return kCollectiveStagingBytes / SizeOf(dtype); }

Tensor Flat(void* data, DType dtype, std::int64_t elements) {
  return {.data = data, .dtype = dtype, .rank = 1, .shape = {elements}};
}

void SendPart(const Tensor& tensor, const Execution& run) {
  const std::int64_t step = PieceElements(tensor.dtype);
  for (std::int64_t first = 0; first < tensor.Elements(); first += step) {
    char* data = tensor.As<char>() + first * SizeOf(tensor.dtype);
    run.pending.Run(run.groups.world->Send(
        Flat(data, tensor.dtype, std::min(step, tensor.Elements() - first)), 0, 0, run.stream));
  }
}

// `part` must have the size of what rank `from` sends.
void ReceivePart(int from, DType dtype, const Tensor& staging, const Execution& run, Device& device,
                 std::span<char> part) {
  const auto step = static_cast<std::size_t>(PieceElements(dtype) * SizeOf(dtype));
  for (std::size_t first = 0; first < part.size(); first += step) {
    const auto bytes = static_cast<std::int64_t>(std::min(step, part.size() - first));
    run.pending.Run(
        run.groups.world->Recv(Flat(staging.data, dtype, bytes / SizeOf(dtype)), from, 0, run.stream));
    device.CopyToHost(part.data() + first, staging.data, bytes, run.stream);
    run.stream.Synchronize();
  }
}

}  // namespace

void LoadWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout, Device& device,
                 Stream& stream) {
  const SafetensorsFile file(path);
  const NameStyle style = StyleOf(shape.model);
  const auto stored_as = MatchNames(file, shape.model, ModelFile(ModelParameters(shape), style));
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& p = layout.parameters()[i];
    const ParameterTensors& tensors = layout.parameter_tensors()[i];
    if (tensors.value.data == nullptr) continue;
    const Placement place = PlacementOf(p);
    for (const StoredPart& part : StoredParts(p, style)) {
      LoadPart(file, stored_as.at(part.name), part, place, tensors, p.shape.back(), device, stream);
    }
  }
  stream.Synchronize();
}

void CheckSavePath(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // an error means "not a directory"
  if (fs::is_directory(path, ignored))
    throw BadInput(fmt::format("cannot write {}: it is a directory", path));
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    throw BadInput(fmt::format("cannot write {}: it is not a regular file", path));
  const fs::path parent = fs::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (!fs::is_directory(directory, ignored)) {
    throw BadInput(fmt::format("cannot write {}: directory {} does not exist", path, directory));
  }
  if (access(directory.c_str(), W_OK) != 0) {
    throw BadInput(fmt::format("cannot write {}: directory {} is not writable", path, directory));
  }
}

void SaveWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout,
                 const Execution& run, Device& device) {
  const DType dtype = shape.workload.precision.parameters;
  if (shape.replica != 0) return;
  // Sharded parameters are gathered unit by unit, in the same order by all ranks that have the parts.
  std::size_t complete = 0;
  const auto complete_unit_of = [&](std::size_t parameter) {
    const std::size_t unit = layout.unit_of(parameter);
    if (unit == 0 || unit == complete) return;  // norms are always complete
    run.units->GatherNow(run, unit);
    complete = unit;
  };
  if (shape.rank != 0) {
    for (const std::size_t i : SendingOrder(layout.parameters())) {
      complete_unit_of(i);
      if (shape.data == 0 && layout.parameters()[i].counted)
        SendPart(layout.parameter_tensors()[i].value, run);
    }
    return;
  }

  const auto parts = PartsByName(shape);
  const std::vector<Parameter> parameters = ModelParameters(shape);
  std::vector<TensorToStore> tensors;
  std::vector<std::pair<std::size_t, StoredPart>> sources;  // by tensor: the parameter and its part of it
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    for (StoredPart& part : StoredParts(parameters[i], StyleOf(shape.model))) {
      tensors.push_back({part.name, dtype, part.shape});
      sources.emplace_back(i, std::move(part));
    }
  }
  const std::int64_t width = SizeOf(dtype);
  std::vector<char> whole, piece, held;
  const auto assemble = [&](const Parameter& p) {
    whole.assign(static_cast<std::size_t>(ElementCount(p.global_shape) * width), 0);
    for (const Part& part : parts.at(p.name)) {
      held.resize(static_cast<std::size_t>(ElementCount(part.parameter.shape) * width));
      if (part.rank == 0) {
        complete_unit_of(part.index);
        device.CopyToHost(held.data(), layout.parameter_tensors()[part.index].value.data,
                          static_cast<std::int64_t>(held.size()), run.stream);
        run.stream.Synchronize();
      } else {
        ReceivePart(static_cast<int>(part.rank), dtype, layout.staging().world, run, device, held);
      }
      ForEachRun(part.parameter, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
        std::memcpy(whole.data() + global * width, held.data() + local * width,
                    static_cast<std::size_t>(count * width));
      });
    }
  };
  WriteSafetensors(path, tensors, [&](std::size_t index) {
    const auto& [parameter, part] = sources[index];
    const Parameter& p = parameters[parameter];
    if (part.first == 0) assemble(p);  // the parameter's other parts follow directly
    if (part.offset != 0) SubtractOffset(part.offset, dtype, whole);  // of a norm, in one part
    if (!part.transposed && part.columns == p.global_shape.back()) return std::span<const char>(whole);
    switch (width) {
      case 2: CutOut<std::uint16_t>(whole, p.global_shape.back(), part, piece); break;
      case 4: CutOut<std::uint32_t>(whole, p.global_shape.back(), part, piece); break;
      default: CutOut<std::uint64_t>(whole, p.global_shape.back(), part, piece);
    }
    return std::span<const char>(piece);
  });
}

}  // namespace autocfg::trainer
