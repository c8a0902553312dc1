// The safetensors format: an 8-byte little-endian length, a JSON header with the name, type, shape and
// offsets of each tensor, then the data. Use each object from one thread. Errors are thrown as BadInput,
// which names the file and the tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "search/ops/dtype.h"
#include "trainer/checkpoint/file.h"

namespace autocfg::trainer {

struct StoredTensor {
  std::string dtype;  // as stored in the file: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // in the data part
  std::int64_t end = 0;
};

class SafetensorsFile {
 public:
  // Reads and validates the header: length, JSON, types, consistent sizes and shapes, and that tensors lie
  // within the file and do not overlap.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Reads elements [first, first + out.size()) of a tensor of type F64, F32, F16 or BF16; throws for other
  // types. Requires that the range lies within the tensor.
  void Read(const std::string& name, std::int64_t first, std::span<double> out) const;

 private:
  File file_;
  std::int64_t data_begin_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  mutable std::vector<unsigned char> bytes_;
};

struct TensorToStore {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

// Writes a new file and replaces `path` only when it is complete and durable. Calls `data(i)` once per
// tensor, in order. It returns the tensor's bytes, valid until the next call.
void WriteSafetensors(const std::string& path, const std::vector<TensorToStore>& tensors,
                      const std::function<std::span<const char>(std::size_t)>& data);

}  // namespace autocfg::trainer
