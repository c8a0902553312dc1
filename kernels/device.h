// A device: memory, streams, copies. One object per rank; use from one thread.
// Errors are thrown: DeviceOutOfMemory where memory does not suffice, DeviceError for all else.
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
  std::int64_t wanted_bytes;     // -1: not known
  std::int64_t available_bytes;  // -1: not known
};

// An order of execution: work on one stream runs in order of issue. On the CPU everything has run when the
// call returns.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void Synchronize() = 0;  // returns when all work issued so far is done
};

// The time between two points of one stream's work, on the clock of what does the work. Use again and again;
// it must not outlive its device.
class StreamTimer {
 public:
  virtual ~StreamTimer() = default;
  virtual void Start(Stream& stream) = 0;
  virtual void Stop(Stream& stream) = 0;
  // Seconds from start to stop; waits until the stream has come to the stop. Requires a Start and then a
  // Stop, on one stream.
  virtual double Seconds() = 0;
};

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string Name() const = 0;

  // Whether ops leave results. False: they are counted or timed only, and copies to the host give zeros.
  virtual bool Computes() const { return true; }

  // Whether Tensor::data points to memory that the host reads and writes, with results in it.
  virtual bool ComputesOnHost() const = 0;

  // Whether its ops run on operands of this type.
  virtual bool ComputesIn(DType type) const = 0;

  // Memory aligned to kArenaAlignment, zeroed. A device that computes nothing returns null and counts.
  virtual void* Allocate(std::int64_t bytes) = 0;
  virtual void Free(void* data, std::int64_t bytes) noexcept = 0;

  virtual std::unique_ptr<Stream> CreateStream() = 0;

  // By the host's clock, which waits for the stream at both ends, where the device has none of its own.
  virtual std::unique_ptr<StreamTimer> CreateTimer();

  // Ordered on the stream. Memory that was copied from may be reused when the call returns; memory that is
  // copied to holds the values once the stream is synchronised, and must live until then. A device that
  // computes nothing copies nothing in and returns zeros out.
  virtual void CopyFromHost(void* device, const void* host, std::int64_t bytes, Stream& stream) = 0;
  virtual void CopyToHost(void* host, const void* device, std::int64_t bytes, Stream& stream) = 0;

  // From one place of the device's memory to another, which do not overlap; ordered on the stream. By way of
  // the host where the device has none of its own. A device that computes nothing copies nothing.
  virtual void CopyWithin(void* to, const void* from, std::int64_t bytes, Stream& stream);

  // Host memory that copies reach without a detour (pinned, where that makes a difference), aligned to
  // kArenaAlignment and not cleared. Requires bytes > 0. What was taken is freed with the same size.
  virtual void* AllocateHost(std::int64_t bytes);
  virtual void FreeHost(void* data, std::int64_t bytes) noexcept;

  // What this process uses on the device beyond `arena_bytes`: code, libraries' workspaces, buffers.
  virtual std::int64_t OverheadBytes(std::int64_t arena_bytes) const = 0;
};

}  // namespace autocfg
