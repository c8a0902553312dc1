// How the ranks of an engine's nodes find each other. Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/os/unique_fd.h"

namespace autocfg::worker {

// Returns the address of this machine from which it reaches the coordinator; the loopback address if that is
// on this machine. InvalidArgument or Unavailable if the coordinator's host cannot be found.
absl::StatusOr<std::string> OwnAddress(const std::string& coordinator);

// Returns true if the text can be an address or a host's name: what another machine says becomes a part of an
// engine's command.
bool IsAddress(const std::string& text);
bool IsLoopback(const std::string& address);

// A port of this machine that is free. It is held until it is released; then another program may take it.
class FreePort {
 public:
  static absl::StatusOr<FreePort> Take();

  int number() const { return number_; }
  void Release() { socket_.Reset(); }

 private:
  FreePort(base::UniqueFd socket, int number) : socket_(std::move(socket)), number_(number) {}

  base::UniqueFd socket_;
  int number_ = 0;
};

// Where the first node listens, and which node this one is.
struct NodePlace {
  std::string master_address;
  int master_port = 0;
  int node_rank = 0;
  int nodes = 1;
};

// What each rank of a node says to the others.
std::string NodeCard(const std::string& address, int port, const std::string& host, int first_rank);

// Reads the cards of all ranks, in order. `first_rank`: of this node. FailedPrecondition if the first node's
// address is the loopback while another host takes part; Internal for a card of another form.
absl::StatusOr<NodePlace> PlaceAmong(const std::vector<std::string>& cards, int first_rank);

}  // namespace autocfg::worker
