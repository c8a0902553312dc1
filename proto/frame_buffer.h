// The frames of framing.h taken apart and put together in memory, for a side that may not block: append what
// arrives, take out whole messages. Plain values; use each from one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"

namespace autocfg {

inline constexpr std::size_t kFrameHeaderBytes = 4;

// The length in a frame's first kFrameHeaderBytes bytes.
std::uint32_t DecodeFrameLength(const char* header);

// Appends length and message to `bytes`. InvalidArgument, and `bytes` as it was, for a message above
// kMaxFrameBytes.
absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string& bytes);

class FrameBuffer {
 public:
  void Append(std::string_view bytes) { bytes_.append(bytes); }

  // True: `message` is the next one. False: more bytes are needed. DataLoss: what arrived is no frame of such
  // a message; nothing further can be read.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite& message);

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // of what has not been taken out
};

}  // namespace autocfg
