// The safetensors format: an 8-byte little-endian length, a JSON header with the name, type, shape and
// offsets of each tensor, then the data. Use each object from one thread. Errors are thrown as BadInput,
// which names the file and the tensor.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "search/ops/dtype.h"
#include "trainer/checkpoint/checksum.h"
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
  // The texts of the header's "__metadata__".
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  // Reads elements [first, first + out.size()) of a tensor of type F64, F32, F16 or BF16; throws for other
  // types. Requires that the range lies within the tensor.
  void Read(const std::string& name, std::int64_t first, std::span<double> out) const;

  // Reads bytes [first, first + out.size()) of a tensor as they are stored. Requires that the range lies
  // within the tensor.
  void ReadBytes(const StoredTensor& tensor, std::int64_t first, std::span<char> out) const;

 private:
  File file_;
  std::int64_t data_begin_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
  mutable std::vector<unsigned char> bytes_;
};

struct TensorToStore {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
};

// Returns the name of a type in a file: "F32", "BF16", ...
std::string_view StoredTypeName(DType dtype);

// Writes a new file piece by piece and replaces `path` only when the file is complete and durable. Without
// Finish, `path` is unchanged.
class SafetensorsWriter {
 public:
  // Writes the header. The data of the tensors follow in their order.
  SafetensorsWriter(const std::string& path, const std::vector<TensorToStore>& tensors,
                    const std::map<std::string, std::string>& metadata);

  // Appends the next bytes of the data.
  void Append(const void* data, std::int64_t bytes);
  // Throws std::logic_error unless exactly the bytes of all tensors were appended.
  void Finish();

  // Size and checksum of the file so far.
  std::int64_t bytes() const { return bytes_; }
  std::uint64_t checksum() const { return checksum_.Value(); }

 private:
  FileReplacement file_;
  Checksum checksum_;
  std::int64_t bytes_ = 0;
  std::int64_t total_bytes_ = 0;
};

// Writes a new file and replaces `path` only when it is complete and durable. Calls `data(i)` once per
// tensor, in order. It returns the tensor's bytes, valid until the next call.
void WriteSafetensors(const std::string& path, const std::vector<TensorToStore>& tensors,
                      const std::function<std::span<const char>(std::size_t)>& data);

}  // namespace autocfg::trainer
