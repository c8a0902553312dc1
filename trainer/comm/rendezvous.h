// The primitive by which ranks find each other: each rank contributes bytes under a name and receives the
// bytes of all ranks, in rank order. The launcher relays it (trainer/program/launcher_channel.h). Tests use
// LocalRendezvous between threads. Use each object from one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg::trainer {

class Rendezvous {
 public:
  virtual ~Rendezvous() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // Blocks until all ranks have called it with this name. Throws CommError if the group is ending.
  virtual std::vector<std::string> AllGather(std::string_view name, std::string_view bytes) = 0;
};

// Creates endpoints for `size` ranks within one process, for tests.
std::vector<std::unique_ptr<Rendezvous>> CreateLocalRendezvous(int size);

}  // namespace autocfg::trainer
