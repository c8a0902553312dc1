// Encodes and decodes the frames of framing.h in memory, for non-blocking callers: append the bytes that
// arrive, take out whole messages. Not thread-safe.
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

// Returns the length stored in a frame's first kFrameHeaderBytes bytes.
std::uint32_t DecodeFrameLength(const char* header);

// Appends the length and the message to `bytes`. Returns InvalidArgument and leaves `bytes` unchanged if the
// message exceeds kMaxFrameBytes.
absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string& bytes);

class FrameBuffer {
 public:
  void Append(std::string_view bytes) { bytes_.append(bytes); }

  // Returns true if `message` received the next message, false if more bytes are needed. Returns DataLoss if
  // the bytes are not a valid frame of such a message; nothing more can be read then.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite& message);

 private:
  std::string bytes_;
  std::size_t begin_ = 0;  // start of the bytes not yet taken out
};

}  // namespace autocfg
