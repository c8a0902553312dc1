#include "proto/framing.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "autocfg/v1/trainer.pb.h"

namespace autocfg {
namespace {

v1::GatherRequest Message(std::size_t bytes) {
  v1::GatherRequest message;
  message.set_name("name");
  message.set_value(std::string(bytes, '\x01'));
  return message;
}

class Framing : public testing::Test {
 protected:
  Framing() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds_), 0); }
  ~Framing() override {
    CloseWriter();
    ::close(fds_[1]);
  }
  void CloseWriter() {
    if (fds_[0] >= 0) ::close(fds_[0]);
    fds_[0] = -1;
  }
  void WriteRaw(std::string_view bytes) {
    ASSERT_EQ(::send(fds_[0], bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }
  int writer() const { return fds_[0]; }
  int reader() const { return fds_[1]; }

 private:
  int fds_[2] = {-1, -1};
};

TEST_F(Framing, CarriesMessagesInOrder) {
  // Sizes around byte boundaries of the length, and one larger than a socket buffer. A separate thread
  // writes.
  const std::size_t sizes[] = {0, 1, 200, 255, 256, 65536, 5'000'000};
  std::thread writing([&] {
    for (std::size_t size : sizes) EXPECT_TRUE(WriteFrame(writer(), Message(size)).ok());
    EXPECT_TRUE(WriteFrame(writer(), v1::GatherRequest()).ok());  // an empty message
    CloseWriter();
  });
  for (std::size_t size : sizes) {
    v1::GatherRequest message;
    ASSERT_TRUE(ReadFrame(reader(), message).ok());
    EXPECT_EQ(message.name(), "name");
    EXPECT_EQ(message.value(), std::string(size, '\x01'));
  }
  v1::GatherRequest message;
  EXPECT_TRUE(ReadFrame(reader(), message).ok());
  EXPECT_TRUE(absl::IsUnavailable(ReadFrame(reader(), message)));
  writing.join();
}

TEST_F(Framing, LengthPrefixIsLittleEndian) {
  ASSERT_TRUE(WriteFrame(writer(), Message(300)).ok());
  unsigned char header[4];
  ASSERT_EQ(::read(reader(), header, 4), 4);
  const std::size_t length = Message(300).ByteSizeLong();
  EXPECT_EQ(header[0] + 256u * header[1], length);
  EXPECT_EQ(header[2] + header[3], 0);
}

TEST_F(Framing, WriteToClosedPeerFailsWithoutSignal) {
  ::shutdown(reader(), SHUT_RDWR);
  EXPECT_TRUE(absl::IsUnavailable(WriteFrame(writer(), Message(1))));
}

TEST_F(Framing, EndOfStreamInsideLengthIsDataLoss) {
  WriteRaw(std::string("\x05\x00", 2));
  CloseWriter();
  v1::GatherRequest message;
  EXPECT_TRUE(absl::IsDataLoss(ReadFrame(reader(), message)));
}

TEST_F(Framing, MissingBodyIsDataLoss) {
  WriteRaw(std::string("\x05\x00\x00\x00xy", 6));
  CloseWriter();
  v1::GatherRequest message;
  const absl::Status status = ReadFrame(reader(), message);
  EXPECT_TRUE(absl::IsDataLoss(status));
  EXPECT_EQ(status.message(), "the connection ended after 2 of a message's 5 bytes");
}

TEST_F(Framing, ExcessiveLengthIsDataLoss) {
  WriteRaw("\xff\xff\xff\xff");
  v1::GatherRequest message;
  EXPECT_TRUE(absl::IsDataLoss(ReadFrame(reader(), message)));
}

TEST_F(Framing, UnparsableBytesAreDataLoss) {
  WriteRaw(std::string("\x03\x00\x00\x00\xff\xff\xff", 7));
  v1::GatherRequest message;
  EXPECT_TRUE(absl::IsDataLoss(ReadFrame(reader(), message)));
}

TEST_F(Framing, OversizedMessageIsRejectedBeforeSending) {
  EXPECT_TRUE(absl::IsInvalidArgument(WriteFrame(writer(), Message(kMaxFrameBytes))));
  char byte;
  EXPECT_EQ(::recv(reader(), &byte, 1, MSG_DONTWAIT), -1);
}

TEST(FrameBuffer, SplitsMessagesAtAnyByteBoundary) {
  std::string bytes;
  for (std::size_t size : {3, 0, 1000}) ASSERT_TRUE(AppendFrame(Message(size), bytes).ok());
  for (std::size_t step : {std::size_t{1}, std::size_t{7}, std::size_t{64}, bytes.size()}) {
    FrameBuffer buffer;
    std::vector<std::size_t> sizes;
    for (std::size_t at = 0; at < bytes.size(); at += step) {
      buffer.Append(std::string_view(bytes).substr(at, step));
      for (;;) {
        v1::GatherRequest message;
        const auto next = buffer.Next(message);
        ASSERT_TRUE(next.ok());
        if (!*next) break;
        sizes.push_back(message.value().size());
      }
    }
    EXPECT_EQ(sizes, (std::vector<std::size_t>{3, 0, 1000}));
  }
}

TEST_F(Framing, CallersMaySetALowerLimit) {
  const auto length = static_cast<std::uint32_t>(Message(1000).ByteSizeLong());
  EXPECT_TRUE(absl::IsInvalidArgument(WriteFrame(writer(), Message(1000), length - 1)));
  EXPECT_TRUE(WriteFrame(writer(), Message(1000), length).ok());
  std::string bytes(length + kFrameHeaderBytes, '\0');
  ASSERT_EQ(::recv(reader(), bytes.data(), bytes.size(), MSG_WAITALL), static_cast<ssize_t>(bytes.size()));
  v1::GatherRequest message;
  FrameBuffer exact(length);
  exact.Append(bytes);
  EXPECT_EQ(exact.Next(message).value_or(false), true);
  // The length alone decides, before the message arrives.
  FrameBuffer below(length - 1);
  below.Append(std::string_view(bytes).substr(0, kFrameHeaderBytes));
  EXPECT_EQ(below.Next(message).status().message(),
            "a message of 1009 bytes was announced, above the limit of 1008");
}

TEST(FrameBuffer, ForgetsWhatIsCleared) {
  std::string bytes;
  ASSERT_TRUE(AppendFrame(Message(3), bytes).ok());
  FrameBuffer buffer;
  buffer.Append(bytes.substr(0, 5));
  buffer.Clear();
  buffer.Append(bytes);
  v1::GatherRequest message;
  EXPECT_EQ(buffer.Next(message).value_or(false), true);
  EXPECT_EQ(buffer.Next(message).value_or(true), false);
}

TEST(FrameBuffer, RejectsInvalidFrames) {
  v1::GatherRequest message;
  FrameBuffer length;
  length.Append("\xff\xff\xff\xff");
  EXPECT_TRUE(absl::IsDataLoss(length.Next(message).status()));
  FrameBuffer body;
  body.Append(std::string("\x02\x00\x00\x00\xff\xff", 6));
  EXPECT_TRUE(absl::IsDataLoss(body.Next(message).status()));
}

}  // namespace
}  // namespace autocfg
