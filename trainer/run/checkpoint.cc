#include "trainer/run/checkpoint.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <map>
#include <string_view>
#include <vector>

#include "trainer/errors.h"
#include "trainer/model/element_copy.h"
#include "trainer/run/safetensors.h"

namespace autocfg {
namespace {

constexpr std::string_view kPrefix = "transformer.";
constexpr std::int64_t kChunk = 1 << 16;  // elements read at once

// All parameters of the model, in order.
std::vector<Parameter> ModelParameters(const RankShape& shape) {
  ParallelPlan one;
  one.micro_batch = shape.plan.micro_batch;
  return RankParameters(MakeRankShape(shape.model, shape.workload, one, 0));
}

std::string FullName(const std::string& name) {
  return name.starts_with(kPrefix) || name == "lm_head.weight" ? name : fmt::format("{}{}", kPrefix, name);
}

bool IsPassedOver(const std::string& full_name) {
  return full_name == "lm_head.weight" || full_name.ends_with(".attn.bias") ||
         full_name.ends_with(".attn.masked_bias");
}

// The file's own name of each parameter, after checking that file and model agree.
std::map<std::string, std::string> MatchNames(const SafetensorsFile& file,
                                              const std::vector<Parameter>& parameters) {
  std::map<std::string, std::string> stored_as;
  for (const auto& [name, tensor] : file.tensors()) {
    const std::string full = FullName(name);
    if (IsPassedOver(full)) continue;
    if (!stored_as.emplace(full, name).second) {
      throw BadInput(
          fmt::format("{} holds tensor {} twice, with and without \"{}\"", file.path(), full, kPrefix));
    }
  }
  std::size_t matched = 0;
  for (const Parameter& p : parameters) {
    const auto found = stored_as.find(p.name);
    if (found == stored_as.end()) throw BadInput(fmt::format("{} lacks tensor {}", file.path(), p.name));
    ++matched;
    const auto& got = file.tensors().at(found->second).shape;
    if (got != p.global_shape) {
      throw BadInput(fmt::format("tensor {} of {} has shape [{}]; the model wants [{}]", p.name, file.path(),
                                 fmt::join(got, ", "), fmt::join(p.global_shape, ", ")));
    }
  }
  if (matched < stored_as.size()) {
    for (const auto& [full, name] : stored_as) {
      const bool known = std::any_of(parameters.begin(), parameters.end(),
                                     [&](const Parameter& p) { return p.name == full; });
      if (!known)
        throw BadInput(fmt::format("{} holds tensor {}, which the model does not have", file.path(), name));
    }
  }
  return stored_as;
}

// A parameter's part on some rank.
struct Part {
  std::int64_t rank;
  Parameter parameter;
};

// Which ranks hold the parts of each parameter, each part once.
std::map<std::string, std::vector<Part>> PartsByName(const RankShape& shape) {
  std::map<std::string, std::vector<Part>> parts;
  for (std::int64_t rank = 0; rank < RankCount(shape.plan); ++rank) {
    const RankShape other = MakeRankShape(shape.model, shape.workload, shape.plan, rank);
    if (other.data != 0) continue;
    for (Parameter& p : RankParameters(other)) {
      if (p.counted) parts[p.name].push_back({rank, std::move(p)});
    }
  }
  return parts;
}

Tensor HostTensor(DType dtype, const std::vector<std::int64_t>& shape, std::vector<char>& memory) {
  Tensor t;
  t.dtype = dtype;
  t.rank = 1;
  t.shape[0] = ElementCount(shape);
  memory.resize(static_cast<std::size_t>(t.Bytes()));
  t.data = memory.data();
  return t;
}

}  // namespace

void LoadWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout, Device& device,
                 Stream& stream) {
  const SafetensorsFile file(path);
  const auto stored_as = MatchNames(file, ModelParameters(shape));
  std::vector<double> values;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
    const Parameter& p = layout.parameters()[i];
    const Tensor& tensor = layout.parameter_tensors()[i].value;
    if (tensor.data == nullptr) continue;
    const std::string& name = stored_as.at(p.name);
    ForEachRun(p, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
      for (std::int64_t done = 0; done < count; done += kChunk) {
        values.resize(std::min(kChunk, count - done));
        file.Read(name, global + done, values);
        CopyFromDoubles(values, tensor, local + done, device, stream);
      }
    });
  }
  stream.Synchronize();
}

void CheckSavePath(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;  // an error means "not a directory", which is what is asked
  if (fs::is_directory(path, ignored))
    throw BadInput(fmt::format("cannot write {}: it is a directory", path));
  if (fs::exists(path, ignored) && !fs::is_regular_file(path, ignored))
    throw BadInput(fmt::format("cannot write {}: it is not a regular file", path));
  const fs::path parent = fs::path(path).parent_path();
  const std::string directory = parent.empty() ? "." : parent.string();
  if (!fs::is_directory(directory, ignored)) {
    throw BadInput(fmt::format("cannot write {}: there is no directory {}", path, directory));
  }
  if (access(directory.c_str(), W_OK) != 0) {
    throw BadInput(fmt::format("cannot write {}: directory {} is not writable", path, directory));
  }
}

void SaveWeights(const std::string& path, const RankShape& shape, const MemoryLayout& layout,
                 const Execution& run, Device& device) {
  const DType dtype = shape.workload.precision.parameters;
  std::vector<char> part_memory;
  const auto own = [&](std::size_t index) {
    const Tensor& tensor = layout.parameter_tensors()[index].value;
    const Tensor host = HostTensor(dtype, layout.parameters()[index].shape, part_memory);
    device.CopyToHost(host.data, tensor.data, host.Bytes(), run.stream);
    run.stream.Synchronize();
    return host;
  };
  if (shape.rank != 0) {
    if (shape.data != 0) return;
    for (std::size_t i = 0; i < layout.parameters().size(); ++i) {
      if (!layout.parameters()[i].counted) continue;
      run.pending.Run(run.groups.world->Send(own(i), 0, 0, run.stream));
    }
    return;
  }

  std::map<std::string, std::size_t> own_index;
  for (std::size_t i = 0; i < layout.parameters().size(); ++i) own_index[layout.parameters()[i].name] = i;
  const auto parts = PartsByName(shape);
  const std::vector<Parameter> parameters = ModelParameters(shape);
  std::vector<TensorToStore> tensors;
  for (const Parameter& p : parameters) tensors.push_back({p.name, dtype, p.global_shape});
  std::vector<char> whole;
  WriteSafetensors(path, tensors, [&](std::size_t index) {
    const Parameter& p = parameters[index];
    const std::int64_t width = SizeOf(dtype);
    whole.assign(static_cast<std::size_t>(ElementCount(p.global_shape) * width), 0);
    for (const Part& part : parts.at(p.name)) {
      Tensor host;
      if (part.rank == 0) {
        host = own(own_index.at(p.name));
      } else {
        host = HostTensor(dtype, part.parameter.shape, part_memory);
        run.pending.Run(run.groups.world->Recv(host, static_cast<int>(part.rank), 0, run.stream));
      }
      ForEachRun(part.parameter, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
        std::memcpy(whole.data() + global * width, host.As<char>() + local * width,
                    static_cast<std::size_t>(count * width));
      });
    }
    return std::span<const char>(whole);
  });
}

}  // namespace autocfg
