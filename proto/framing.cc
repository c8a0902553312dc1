#include "proto/framing.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>

#include "fmt/format.h"
#include "proto/frame_buffer.h"

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

absl::Status WriteFrame(int fd, const google::protobuf::MessageLite& message) {
  std::string bytes;
  if (absl::Status status = AppendFrame(message, bytes); !status.ok()) return status;
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
