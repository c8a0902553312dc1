// One rank's UCX worker: tagged messages to the other ranks, and the polling that moves them. Internal to the
// UCX world. Use from one thread; ranks that are threads of one process have one each.
//
// UCX over shared memory does not report a dead peer: whoever waits for one polls until the launcher ends the
// job.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/comm/unwinding.h"

namespace autocfg {

class UcxTransport;

// A message under way. Destroying it before it is done gives it up: the buffer must then outlive the
// process's communication.
class UcxRequest {
 public:
  UcxRequest() = default;
  UcxRequest(UcxRequest&& other) noexcept;
  UcxRequest& operator=(UcxRequest&& other) noexcept;
  ~UcxRequest();

  // True once complete, and from then on. Makes no progress by itself. Throws CommError naming the peer.
  bool Done();

 private:
  friend class UcxTransport;
  UcxRequest(UcxTransport* transport, int peer, bool receives, std::size_t bytes)
      : transport_(transport), peer_(peer), receives_(receives), bytes_(bytes) {}
  void Finish(ucs_status_t status, std::size_t received);
  void GiveUp() noexcept;

  UcxTransport* transport_ = nullptr;
  void* handle_ = nullptr;  // null: complete
  std::string error_;       // empty: none
  int peer_ = -1;
  bool receives_ = false;
  std::size_t bytes_ = 0;
};

// Something that advances in steps whenever the transport is polled.
class UcxStepper {
 public:
  virtual ~UcxStepper() = default;
  virtual bool Step() = 0;  // true if anything moved
};

class UcxTransport {
 public:
  // Collective over the rendezvous, which must outlive it.
  explicit UcxTransport(Rendezvous& rendezvous);

  // Collective, too: flushes what was sent, and stays until every rank has done so, since a peer may not have
  // connected yet to take what this rank sent. When an exception is passing or a request was given up, peers
  // may be in the middle of anything: UCX is then left as it is to the end of the process.
  ~UcxTransport();

  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(addresses_.size()); }

  // `peer` is a rank of the world. The buffer stays untouched (Send) or unread (Recv) until the request is
  // done. Both sides give the same tag, unique among the messages under way, and the same size.
  UcxRequest Send(int peer, std::uint64_t tag, const void* data, std::size_t bytes);
  UcxRequest Recv(int peer, std::uint64_t tag, void* data, std::size_t bytes);

  void AddStepper(UcxStepper* stepper) { steppers_.push_back(stepper); }
  void RemoveStepper(UcxStepper* stepper) { std::erase(steppers_, stepper); }

  // Polls UCX and the steppers once. True if anything moved.
  bool Poll();

  // Polls until `done` answers true, leaving the core to others while nothing moves.
  template <typename Done>
  void PollUntil(Done done) {
    Idling idling;
    while (!done()) {
      if (Poll()) {
        idling = Idling{};
      } else {
        Idle(idling);
      }
    }
  }

 private:
  friend class UcxRequest;

  struct Idling {
    std::uint64_t polls = 0;    // without anything moving
    std::int64_t since_ns = 0;  // on the monotonic clock; set after some polls
  };
  static void Idle(Idling& idling);

  ucp_ep_h Endpoint(int peer);
  void Flush();
  void CloseEndpoints();
  void Finish(const std::vector<void*>& requests);  // of closing or flushing; within a time limit

  Rendezvous& rendezvous_;
  int rank_ = 0;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<std::string> addresses_;  // of the workers, by rank
  std::vector<ucp_ep_h> endpoints_;     // by rank; null: not yet made
  std::vector<UcxStepper*> steppers_;
  bool gave_up_ = false;
  const Unwinding unwinding_;
};

}  // namespace autocfg
