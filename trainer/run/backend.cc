#include "trainer/run/backend.h"

#include <fmt/format.h>

#include "kernels/cpu/cpu_device.h"
#include "kernels/dry/dry_device.h"
#include "trainer/errors.h"

namespace autocfg {

Backend CreateBackend(std::string_view device, Rendezvous& rendezvous) {
  if (device == "dry") return CreateDryBackend(rendezvous.rank(), rendezvous.size());
  if (device != "cpu") {
    throw NotSupported(fmt::format("device \"{}\" is not supported yet; use cpu or dry", device));
  }
  Backend backend;
  backend.device = CreateCpuDevice();
  backend.ops = CreateCpuOps();
  backend.comm = rendezvous.size() > 1 ? CreateUcxWorld(rendezvous) : CreateNullWorld(0, 1);
  return backend;
}

Backend CreateDryBackend(int rank, int world_size) {
  Backend backend;
  backend.log = std::make_unique<OpLog>();
  backend.device = CreateDryDevice();
  backend.ops = CreateDryOps(*backend.log);
  backend.comm = CreateRecordingWorld(CreateNullWorld(rank, world_size), *backend.log);
  return backend;
}

}  // namespace autocfg
