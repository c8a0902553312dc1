// Messages on a stream socket: a 4-byte little-endian length, then the message. Blocking. Each function may
// be used from one thread a direction.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"

namespace autocfg {

inline constexpr std::uint32_t kMaxFrameBytes = 256u << 20;

// Unavailable when the other side is gone (no SIGPIPE); InvalidArgument for a message above kMaxFrameBytes.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message);

// Unavailable at end of stream between frames; DataLoss in the middle of one, for a length above
// kMaxFrameBytes, or bytes that are no such message.
absl::Status ReadFrame(int fd, google::protobuf::MessageLite& message);

}  // namespace autocfg
