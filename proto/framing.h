// Messages on a stream socket: a 4-byte little-endian length, then the message. Blocking. At most
// one thread may write and one may read at the same time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "google/protobuf/message_lite.h"

namespace autocfg {

inline constexpr std::uint32_t kMaxFrameBytes = 256u << 20;

// Returns Unavailable if the peer is gone (without SIGPIPE), InvalidArgument if the message exceeds
// kMaxFrameBytes.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message);

// Returns Unavailable at end of stream between frames. Returns DataLoss if the stream ends inside a frame, if
// the length exceeds kMaxFrameBytes, or if the bytes do not parse as such a message.
absl::Status ReadFrame(int fd, google::protobuf::MessageLite& message);

}  // namespace autocfg
