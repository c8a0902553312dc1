// The GPU part of the engine: a module beside the program, loaded when a run requests a GPU. It is not linked
// into the program because its libraries would cost every CPU rank 200 MB and a sixth of a second.
// Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/op_log.h"
#include "kernels/ops.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg::trainer {

// The module's functions. They throw DeviceError, with the reason, if there is no GPU or no driver.
struct GpuEngine {
  std::string build_id;  // of the module's sources

  // Returns the number of GPUs visible to the process.
  int (*device_count)();
  // Returns the GPU's UUID as the driver writes it. It is unique within the machine and independent of the
  // order in which a process sees the GPUs.
  std::string (*device_identity)(int ordinal);
  // Returns the memory of the GPU available to processes while none uses any.
  std::int64_t (*device_memory_bytes)(int ordinal);
  // Creates the device and makes the GPU current for the calling thread.
  std::unique_ptr<Device> (*create_device)(int ordinal);
  // Creates ops on the calling thread's GPU.
  std::unique_ptr<Ops> (*create_ops)();
  // Returns the implementations chosen for the shapes that the ops have seen.
  std::vector<OpChoice> (*choices)(const Ops& ops);
  // Creates NCCL communication among the ranks of the rendezvous, which must outlive it, on the calling
  // thread's GPU.
  std::unique_ptr<CommWorld> (*create_nccl_world)(Rendezvous& rendezvous);
};

// Name of the symbol that the module exports, of type GpuEngineFunction.
inline constexpr char kGpuEngineSymbol[] = "autocfg_gpu_engine";
using GpuEngineFunction = const GpuEngine* (*)();

// Loads the module once, from the file that FindGpuEngine (proto/gpu_engine_file.h) returns for this
// program. Throws NotSupported if this build has no module, if it cannot be loaded (the message contains the
// loader's text), or if it belongs to another build.
const GpuEngine& LoadGpuEngine();

}  // namespace autocfg::trainer
