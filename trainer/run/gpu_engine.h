// The GPU part of the engine: a module beside the program, loaded when a run asks for a GPU. It is no part of
// the program itself, since the libraries that it needs would cost every rank on a CPU 200 MB and a sixth of
// a second. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device.h"
#include "kernels/op_choice.h"
#include "kernels/ops.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"

namespace autocfg {

// What the module offers. Errors are thrown: DeviceError, saying why, where there is no GPU or no driver.
struct GpuEngine {
  std::string build_id;  // of the sources that it was made from

  // GPUs that the process sees.
  int (*device_count)();
  // What tells a GPU from all others of the machine, whatever order a process sees them in: its uuid, in the
  // driver's words.
  std::string (*device_identity)(int ordinal);
  // Memory of the GPU that processes can have, if nobody has any of it.
  std::int64_t (*device_memory_bytes)(int ordinal);
  // The GPU becomes the calling thread's.
  std::unique_ptr<Device> (*create_device)(int ordinal);
  // On the calling thread's GPU.
  std::unique_ptr<Ops> (*create_ops)();
  // What computes the shapes that the ops have met.
  std::vector<OpChoice> (*choices)(const Ops& ops);
  // NCCL among the ranks of the rendezvous, which must outlive it. On the calling thread's GPU.
  std::unique_ptr<CommWorld> (*create_nccl_world)(Rendezvous& rendezvous);
};

// The name of the module's one symbol, of type GpuEngineFunction.
inline constexpr char kGpuEngineSymbol[] = "autocfg_gpu_engine";
using GpuEngineFunction = const GpuEngine* (*)();

// Loads the module, once: the file that FindGpuEngine (proto/gpu_engine_file.h) has for this program.
// Throws NotSupported where this build has none, where it cannot be loaded (the message has the loader's own
// words), and where it is another build's.
const GpuEngine& LoadGpuEngine();

}  // namespace autocfg
