// One rank's UCX worker: tagged messages to other ranks, and the polling that makes them progress. Internal
// to the UCX world. Use from one thread; ranks that are threads of one process have one worker each.
//
// UCX over shared memory does not report a dead peer: a rank that waits for one polls until the launcher ends
// the job.
#pragma once

#include <ucp/api/ucp.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/comm/communicator.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/comm/waiting.h"

namespace autocfg::trainer {

class UcxTransport;

// An in-flight message. Destroying it before it is done abandons it; the buffer must then outlive the
// process's communication.
class UcxRequest {
 public:
  UcxRequest() = default;
  UcxRequest(UcxRequest&& other) noexcept;
  UcxRequest& operator=(UcxRequest&& other) noexcept;
  ~UcxRequest();

  // Returns true once the message is complete. Makes no progress itself. Throws CommError, which names the
  // peer.
  bool Done();

 private:
  friend class UcxTransport;
  UcxRequest(UcxTransport* transport, int peer, bool receives, std::size_t bytes)
      : transport_(transport), peer_(peer), receives_(receives), bytes_(bytes) {}
  void Finish(ucs_status_t status, std::size_t received);
  void GiveUp() noexcept;

  UcxTransport* transport_ = nullptr;
  void* handle_ = nullptr;  // null: complete
  std::string error_;       // empty: no error
  int peer_ = -1;
  bool receives_ = false;
  std::size_t bytes_ = 0;
};

// Something that advances in steps each time the transport is polled.
class UcxStepper {
 public:
  virtual ~UcxStepper() = default;
  virtual bool Step() = 0;  // returns true if it made progress
};

class UcxTransport {
 public:
  // Collective over the rendezvous, which must outlive the transport.
  explicit UcxTransport(Rendezvous& rendezvous);

  // Also collective: flushes sent messages and waits until every rank has done so, since a peer may still
  // have to connect to receive a message from this rank. During stack unwinding, or if a request was
  // abandoned, the peers' state is unknown: UCX is then left open until the process ends.
  ~UcxTransport();

  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(addresses_.size()); }

  // `peer` is a rank of the world. Until the request is done, the buffer must not be modified (Send) or read
  // (Recv). Both sides pass the same size and the same tag, which is unique among the in-flight messages.
  UcxRequest Send(int peer, std::uint64_t tag, const void* data, std::size_t bytes);
  UcxRequest Recv(int peer, std::uint64_t tag, void* data, std::size_t bytes);

  void AddStepper(UcxStepper* stepper) { steppers_.push_back(stepper); }
  void RemoveStepper(UcxStepper* stepper) { std::erase(steppers_, stepper); }

  // Polls UCX and the steppers once. Returns true if anything made progress.
  bool Poll();

  // Polls until `done` returns true. Yields the core while nothing progresses.
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
    std::uint64_t polls = 0;    // without progress
    std::int64_t since_ns = 0;  // on the monotonic clock; set after some polls
  };
  static void Idle(Idling& idling);

  ucp_ep_h Endpoint(int peer);
  void Flush();
  void CloseEndpoints();
  void Finish(const std::vector<void*>& requests);  // of close or flush requests; within a time limit

  Rendezvous& rendezvous_;
  int rank_ = 0;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  std::vector<std::string> addresses_;  // of the workers, by rank
  std::vector<ucp_ep_h> endpoints_;     // by rank; null: not created yet
  std::vector<UcxStepper*> steppers_;
  bool gave_up_ = false;
  const Unwinding unwinding_;
};

}  // namespace autocfg::trainer
