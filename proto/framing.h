// Messages on a stream socket. A frame is a 4-byte little-endian length, then the message. WriteFrame and
// ReadFrame block; at most one thread may write and one may read at the same time. FrameBuffer and
// AppendFrame are for non-blocking callers: append the bytes that arrive, take out whole messages. Not
// thread-safe.
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
inline constexpr std::uint32_t kMaxFrameBytes = 256u << 20;

// Returns Unavailable if the peer is gone (without SIGPIPE), InvalidArgument if the message exceeds
// `max_bytes`.
absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message,
                        std::uint32_t max_bytes = kMaxFrameBytes);

// Returns Unavailable at end of stream between frames. Returns DataLoss if the stream ends inside a frame, if
// the length exceeds kMaxFrameBytes, or if the bytes do not parse as such a message.
absl::Status ReadFrame(int fd, google::protobuf::MessageLite& message);

// Returns the length stored in a frame's first kFrameHeaderBytes bytes.
std::uint32_t DecodeFrameLength(const char* header);

// Appends the length and the message to `bytes`. Returns InvalidArgument and leaves `bytes` unchanged if the
// message exceeds `max_bytes`.
absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string& bytes,
                         std::uint32_t max_bytes = kMaxFrameBytes);

// Bytes of a stream that have arrived, and the messages in them. Holds at most one incomplete frame beside
// what was appended since the last Next.
class FrameBuffer {
 public:
  // `max_bytes`: limit of a message.
  explicit FrameBuffer(std::uint32_t max_bytes = kMaxFrameBytes) : max_bytes_(max_bytes) {}

  void Append(std::string_view bytes) { bytes_.append(bytes); }

  // Returns true if `message` received the next message, false if more bytes are needed. Returns DataLoss if
  // the bytes are not a valid frame of such a message, or announce one above the limit; nothing more can be
  // read then.
  absl::StatusOr<bool> Next(google::protobuf::MessageLite& message);

  // Drops all bytes, and their memory.
  void Clear();

 private:
  std::uint32_t max_bytes_;
  std::string bytes_;
  std::size_t begin_ = 0;  // start of the bytes not yet taken out
};

}  // namespace autocfg
