// The interface of a device: memory, streams, copies. One object per rank, used from one thread. Throws
// DeviceOutOfMemory if memory does not suffice, and DeviceError for all other errors.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "search/ops/dtype.h"

namespace autocfg {

struct DeviceError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct DeviceOutOfMemory : DeviceError {
  DeviceOutOfMemory(std::int64_t wanted, std::int64_t available, const std::string& what)
      : DeviceError(what), wanted_bytes(wanted), available_bytes(available) {}
  std::int64_t wanted_bytes;     // -1: unknown
  std::int64_t available_bytes;  // -1: unknown
};

// A stream: its work runs in order of issue. On the CPU, work has finished when the issuing call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void Synchronize() = 0;  // blocks until all work issued so far has finished
};

// Measures the time between two points of one stream, on the clock of the device that executes the stream.
// Reusable; must not outlive its device.
class StreamTimer {
 public:
  virtual ~StreamTimer() = default;
  virtual void Start(Stream& stream) = 0;
  virtual void Stop(Stream& stream) = 0;
  // Returns the seconds from start to stop. Blocks until the stream reaches the stop. Requires a Start and
  // then a Stop on the same stream.
  virtual double Seconds() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string Name() const = 0;

  // Returns whether ops produce results. If false, ops are only counted or timed, and copies to the host give
  // zeros.
  virtual bool Computes() const { return true; }

  // Returns whether Tensor::data is host memory that holds results.
  virtual bool ComputesOnHost() const = 0;

  // Returns whether the ops support operands of this type.
  virtual bool ComputesIn(DType type) const = 0;

  // Returns zeroed memory aligned to kArenaAlignment. Devices that compute nothing count the bytes and return
  // null.
  virtual void* Allocate(std::int64_t bytes) = 0;
  virtual void Free(void* data, std::int64_t bytes) noexcept = 0;

  virtual std::unique_ptr<Stream> CreateStream() = 0;

  // The default timer uses the host's clock and waits for the stream at both ends.
  virtual std::unique_ptr<StreamTimer> CreateTimer();

  // Copies are ordered on the stream. The source may be reused when the call returns. The destination holds
  // the values once the stream is synchronized, and must live until then. A device that computes nothing
  // ignores copies in and copies zeros out.
  virtual void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) = 0;
  virtual void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) = 0;

  // Copies within the device's memory, ordered on the stream. The two ranges must not overlap. The default
  // implementation copies through the host. A device that computes nothing copies nothing.
  virtual void CopyWithin(void* to, const void* from, std::int64_t bytes, Stream& stream);

  // Returns host memory for direct copies (pinned, if that makes a difference), aligned to kArenaAlignment
  // and not cleared. Requires bytes > 0. Free it with the same size.
  virtual void* AllocateHost(std::int64_t bytes);
  virtual void FreeHost(void* data, std::int64_t bytes) noexcept;

  // Returns the bytes of the largest cache between the ops and their memory; 0 if it is unknown or there is
  // none. What an op reads from there it reads faster than a step may find it.
  virtual std::int64_t CacheBytes() const { return 0; }

  // Returns the bytes that this process uses on the device beyond `arena_bytes`: code, library workspaces,
  // buffers.
  virtual std::int64_t OverheadBytes(std::int64_t arena_bytes) const = 0;
};

}  // namespace autocfg
