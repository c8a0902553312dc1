#include "proto/framing.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "base/status_macros.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// Reads exactly `size` bytes; sets `*got` to the bytes read before the stream ended.
absl::Status ReadExactly(int fd, char* out, std::size_t size, std::size_t* got) {
  *got = 0;
  while (*got < size) {
    const ssize_t n = ::read(fd, out + *got, size - *got);
    if (n > 0) {
      *got += static_cast<std::size_t>(n);
    } else if (n == 0) {
      return absl::UnavailableError("the other side has closed the connection");
    } else if (errno == ECONNRESET) {
      return absl::UnavailableError("the other side is gone");
    } else if (errno != EINTR) {
      return absl::UnavailableError(fmt::format("cannot read from the connection: {}", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

}  // namespace

std::uint32_t DecodeFrameLength(const char* header) {
  std::uint32_t length = 0;
  for (std::size_t i = 0; i < kFrameHeaderBytes; ++i) {
    length |= static_cast<std::uint32_t>(static_cast<unsigned char>(header[i])) << (8 * i);
  }
  return length;
}

absl::Status AppendFrame(const google::protobuf::MessageLite& message, std::string& bytes,
                         std::uint32_t max_bytes) {
  const std::size_t length = message.ByteSizeLong();
  if (length > max_bytes) {
    return absl::InvalidArgumentError(fmt::format("a message {} of {} bytes is above the limit of {}",
                                                  message.GetTypeName(), length, max_bytes));
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
  if (length > max_bytes_) {
    return absl::DataLossError(
        fmt::format("a message of {} bytes was announced, above the limit of {}", length, max_bytes_));
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

void FrameBuffer::Clear() {
  bytes_ = std::string();
  begin_ = 0;
}

absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message, std::uint32_t max_bytes) {
  std::string bytes;
  AUTOCFG_RETURN_IF_ERROR(AppendFrame(message, bytes, max_bytes));
  std::size_t sent = 0;
  while (sent < bytes.size()) {
    const ssize_t n = ::send(fd, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += static_cast<std::size_t>(n);
    } else if (errno != EINTR) {
      return absl::UnavailableError(fmt::format("cannot write to the connection: {}", std::strerror(errno)));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadFrame(int fd, google::protobuf::MessageLite& message) {
  std::array<char, kFrameHeaderBytes> header{};
  std::size_t got = 0;
  if (absl::Status status = ReadExactly(fd, header.data(), header.size(), &got); !status.ok()) {
    if (got == 0) return status;
    return absl::DataLossError("the connection ended in the middle of a message's length");
  }
  const std::uint32_t length = DecodeFrameLength(header.data());
  if (length > kMaxFrameBytes) {
    return absl::DataLossError(
        fmt::format("a message of {} bytes was announced, above the limit of {}", length, kMaxFrameBytes));
  }
  std::string body(length, '\0');
  if (absl::Status status = ReadExactly(fd, body.data(), body.size(), &got); !status.ok()) {
    return absl::DataLossError(
        fmt::format("the connection ended after {} of a message's {} bytes", got, body.size()));
  }
  if (!message.ParseFromString(body)) {
    return absl::DataLossError(
        fmt::format("cannot parse {} received bytes as {}", length, message.GetTypeName()));
  }
  return absl::OkStatus();
}

}  // namespace autocfg
