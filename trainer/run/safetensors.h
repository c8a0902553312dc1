// The safetensors format: an 8-byte little-endian length, a JSON header with name, type, shape and place of
// each tensor, then the data. Use each object from one thread. Errors are thrown as BadInput, naming the file
// and the tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "search/ops/dtype.h"
#include "trainer/run/file.h"

namespace autocfg {

struct StoredTensor {
  std::string dtype;  // as the file says: "F32", "BF16", ...
  std::vector<std::int64_t> shape;
  std::int64_t begin = 0;  // in the data part
  std::int64_t end = 0;
};

class SafetensorsFile {
 public:
  // Reads and checks the header: length, JSON, types, that sizes and shapes agree, that tensors lie within
  // the file and do not overlap.
  explicit SafetensorsFile(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const std::map<std::string, StoredTensor>& tensors() const { return tensors_; }

  // Elements [first, first + out.size()) of a tensor of type F64, F32, F16 or BF16; other types are an error.
  // Requires: within the tensor.
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

// Writes the file anew, replacing `path` only when complete and durable. `data(i)` is called once per tensor,
// in order, and returns its bytes, valid until the next call.
void WriteSafetensors(const std::string& path, const std::vector<TensorToStore>& tensors,
                      const std::function<std::span<const char>(std::size_t)>& data);

}  // namespace autocfg
