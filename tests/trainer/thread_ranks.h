// Runs a training job with its ranks as threads of the test, and gathers what they made of it.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kernels/bf16.h"
#include "tests/support/remote_device.h"
#include "tests/support/remote_driver.h"
#include "trainer/comm/comm_world.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/comm/streamed/streamed_world.h"
#include "trainer/run/rank_trainer.h"
#include "trainer/run/runner.h"
#include "trainer/run/train_config.h"

namespace autocfg::test {

enum class World {
  kUcx,
  kDelayedUcx,
  kStaged,    // on the remote device, UCX below host memory
  kStreamed,  // on the remote device, ordered on its streams
};

struct ThreadsOutcome {
  std::vector<StepResult> steps;
  std::map<std::string, std::vector<double>> weights;  // every parameter of the model, put together
  std::set<std::string> differences;                   // between ranks, where there should be none
};

// A model small enough for hundreds of runs, whose vocabulary needs padding; 10 steps in fp64 with clipping,
// decay, warm-up and cosine at work.
inline TrainConfig SmallConfig() {
  TrainConfig c;
  c.model.name = "small";
  c.model.layers = 4;
  c.model.hidden = 32;
  c.model.heads = 4;
  c.model.vocab = 61;
  c.model.max_seq_len = 11;
  c.model.vocab_multiple = 8;
  FillDefaults(c.model);
  c.workload.global_batch = 8;
  c.workload.seq_len = 8;
  c.workload.precision = *ParsePrecision("fp64");
  c.adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
  c.lr = {.lr = 1e-2, .min_lr = 1e-3, .decay = LrDecay::kCosine, .warmup_steps = 2, .steps = 10};
  c.clip_norm = 0.5;
  c.seed = 17;
  return c;
}

// Runs `body(rank)` on a thread per rank. An exception ends the test program, since the others would wait
// forever.
inline void RunThreads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&body, rank] {
      try {
        body(rank);
      } catch (const std::exception& e) {
        fmt::print(stderr, "rank {} threw: {}\n", rank, e.what());
        std::fflush(nullptr);
        std::_Exit(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Of host memory.
inline std::vector<double> ToDoubles(const Tensor& t) {
  const auto n = static_cast<std::size_t>(t.Elements());
  if (t.dtype == DType::kBF16) {
    std::vector<double> values;
    for (std::size_t i = 0; i < n; ++i) values.push_back(FromBf16(t.As<Bf16Bits>()[i]));
    return values;
  }
  if (t.dtype == DType::kF64) return {t.As<double>(), t.As<double>() + n};
  return {t.As<float>(), t.As<float>() + n};
}

// Of any device's memory, when nothing is under way.
inline std::vector<double> ToDoubles(const Tensor& t, Device& device) {
  std::vector<char> bytes(static_cast<std::size_t>(t.Bytes()));
  const auto stream = device.CreateStream();
  device.CopyToHost(bytes.data(), t.data, t.Bytes(), *stream);
  stream->Synchronize();
  Tensor host = t;
  host.data = bytes.data();
  return ToDoubles(host);
}

inline Backend MakeRemoteBackend(Rendezvous& rendezvous, World world) {
  Backend backend;
  auto device = std::make_unique<RemoteDevice>();
  backend.clock = CreateSteadyClock();
  backend.ops = std::make_unique<RemoteOps>(*device);
  if (rendezvous.size() == 1) {
    backend.comm = CreateNullWorld(0, 1);
  } else if (world == World::kStaged) {
    backend.comm = CreateStagedWorld(CreateUcxWorld(rendezvous), *device);
  } else {  // in buckets small enough that there are several
    backend.comm =
        CreateStreamedWorld(std::make_unique<RemoteDriver>(*device), CreateUcxWorld(rendezvous), 4096);
  }
  backend.device = std::move(device);
  return backend;
}

inline Backend MakeBackend(Rendezvous& rendezvous, World world) {
  if (world == World::kStaged || world == World::kStreamed) return MakeRemoteBackend(rendezvous, world);
  Backend backend = CreateBackend("cpu", rendezvous);
  if (world == World::kDelayedUcx) backend.comm = CreateDelayedWorld(std::move(backend.comm));
  return backend;
}

// One rank's part of the outcome.
struct RankPart {
  std::vector<StepResult> steps;
  std::vector<Parameter> parameters;
  std::vector<std::vector<double>> values;
  std::vector<double> padding;  // elements that belong to no element of the model
};

inline RankPart TakePart(const RankTrainer& trainer, std::vector<StepResult> steps, Device& device) {
  RankPart part{std::move(steps), trainer.layout().parameters(), {}, {}};
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    part.values.push_back(ToDoubles(trainer.layout().parameter_tensors()[i].value, device));
    std::vector<bool> used(part.values.back().size(), false);
    ForEachRun(part.parameters[i], [&](std::int64_t local, std::int64_t, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k) used[local + k] = true;
    });
    for (std::size_t k = 0; k < used.size(); ++k) {
      if (!used[k]) part.padding.push_back(part.values.back()[k]);
    }
  }
  return part;
}

inline ThreadsOutcome Assemble(const std::vector<RankPart>& parts) {
  ThreadsOutcome outcome;
  outcome.steps = parts[0].steps;
  std::map<std::string, std::vector<bool>> seen;
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const RankPart& part = parts[rank];
    for (std::size_t s = 0; s < part.steps.size(); ++s) {
      if (part.steps[s].loss != outcome.steps[s].loss) outcome.differences.insert("loss");
      if (part.steps[s].grad_norm != outcome.steps[s].grad_norm) outcome.differences.insert("grad_norm");
    }
    for (const double value : part.padding) {
      if (value != 0) outcome.differences.insert("padding is not zero");
    }
    for (std::size_t i = 0; i < part.parameters.size(); ++i) {
      const Parameter& p = part.parameters[i];
      const auto size = static_cast<std::size_t>(ElementCount(p.global_shape));
      std::vector<double>& whole = outcome.weights[p.name];
      std::vector<bool>& written = seen[p.name];
      whole.resize(size);
      written.resize(size);
      ForEachRun(p, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
        for (std::int64_t k = 0; k < count; ++k) {
          const double value = part.values[i][local + k];
          if (written[global + k] && whole[global + k] != value) outcome.differences.insert(p.name);
          whole[global + k] = value;
          written[global + k] = true;
        }
      });
    }
  }
  for (const auto& [name, written] : seen) {
    for (const bool w : written) {
      if (!w) outcome.differences.insert(name + " is incomplete");
    }
  }
  return outcome;
}

// Runs config.lr.steps steps. `at_end` is called by each rank's thread after its last step.
inline ThreadsOutcome RunAsThreads(const TrainConfig& config, World world = World::kUcx,
                                   const std::function<void(RankTrainer&)>& at_end = {}) {
  const int ranks = static_cast<int>(RankCount(config.plan));
  auto rendezvous = CreateLocalRendezvous(ranks);
  std::vector<RankPart> parts(ranks);
  RunThreads(ranks, [&](int rank) {
    Backend backend = MakeBackend(*rendezvous[rank], world);
    RankTrainer trainer(config, rank, ranks, backend);
    std::vector<StepResult> steps;
    for (std::int64_t s = 0; s < config.lr.steps; ++s) steps.push_back(trainer.Step());
    if (at_end) at_end(trainer);
    parts[rank] = TakePart(trainer, std::move(steps), *backend.device);
    trainer.Barrier();
  });
  return Assemble(parts);
}

}  // namespace autocfg::test
