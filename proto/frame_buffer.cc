#include "proto/frame_buffer.h"

#include "fmt/format.h"
#include "proto/framing.h"

namespace autocfg {

std::uint32_t DecodeFrameLength(const char* header) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  return length;
}

absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string& bytes) {
  const std::size_t length = message.ByteSizeLong();
  if (length > kMaxFrameBytes) {
    return absl::InvalidArgumentError(fmt::format("a message {} of {} bytes is above the limit of {}",
                                                  message.GetTypeName(), length, kMaxFrameBytes));
  }
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    bytes.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
  }
  message.AppendToString(&bytes);
  return absl::OkStatus();
}

absl::StatusOr<bool> FrameBuffer::Next(google::protobuf::MessageLite& message) {
  const std::size_t available = bytes_.size() - begin_;
  if (available < kFrameHeaderBytes) return false;
  const std::uint32_t length = DecodeFrameLength(bytes_.data() + begin_);
  if (length > kMaxFrameBytes) {
    return absl::DataLossError(
        fmt::format("a message of {} bytes was announced, above the limit of {}", length, kMaxFrameBytes));
  }
  if (available - kFrameHeaderBytes < length) return false;
  if (!message.ParseFromArray(bytes_.data() + begin_ + kFrameHeaderBytes, static_cast<int>(length))) {
    return absl::DataLossError(
        fmt::format("cannot parse {} received bytes as {}", length, message.GetTypeName()));
  }
  begin_ += kFrameHeaderBytes + length;
  if (begin_ == bytes_.size()) {
    bytes_.clear();
    begin_ = 0;
  } else if (begin_ > bytes_.size() / 2) {
    bytes_.erase(0, begin_);
    begin_ = 0;
  }
  return true;
}

}  // namespace autocfg
