// Runs a training job with its ranks as threads of the test, and collects their results.
#pragma once

#include <fmt/format.h>

#include <algorithm>
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
#include "trainer/config/train_config.h"
#include "trainer/run/rank_trainer.h"
#include "trainer/run/runner.h"

namespace autocfg::test {

enum class World {
  kUcx,
  kDelayedUcx,
  kStaged,    // on the remote device, over UCX in host memory
  kStreamed,  // on the remote device, ordered on its streams
};

struct TrainedRun {
  std::vector<trainer::StepResult> steps;
  std::map<std::string, std::vector<double>> weights;  // every parameter of the model, assembled
  std::set<std::string> differences;                   // between ranks that should be equal
};

// A model small enough for hundreds of runs, whose vocabulary needs padding; 10 steps in fp64 with clipping,
// decay, warm-up and cosine active.
inline trainer::TrainConfig SmallConfig() {
  trainer::TrainConfig c;
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
  c.lr = {.lr = 1e-2, .min_lr = 1e-3, .decay = trainer::LrDecay::kCosine, .warmup_steps = 2, .steps = 10};
  c.clip_norm = 0.5;
  c.seed = 17;
  return c;
}

// Runs `body(rank)` on a thread per rank. An exception ends the test program, since the other ranks would
// wait forever.
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

// Converts a tensor in host memory.
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

// Converts a tensor in any device's memory. Requires that nothing is in flight.
inline std::vector<double> ToDoubles(const Tensor& t, Device& device) {
  std::vector<char> bytes(static_cast<std::size_t>(t.Bytes()));
  const auto stream = device.CreateStream();
  device.CopyToHost(bytes.data(), t.data, t.Bytes(), *stream);
  stream->Synchronize();
  Tensor host = t;
  host.data = bytes.data();
  return ToDoubles(host);
}

inline trainer::Backend MakeRemoteBackend(trainer::Rendezvous& rendezvous, World world) {
  trainer::Backend backend;
  auto device = std::make_unique<RemoteDevice>();
  backend.clock = trainer::CreateSteadyClock();
  backend.ops = std::make_unique<RemoteOps>(*device);
  if (rendezvous.size() == 1) {
    backend.comm = trainer::CreateNullWorld(0, 1);
  } else if (world == World::kStaged) {
    backend.comm = trainer::CreateStagedWorld(trainer::CreateUcxWorld(rendezvous), *device);
  } else {
    backend.comm = trainer::CreateStreamedWorld(std::make_unique<RemoteDriver>(*device),
                                                trainer::CreateUcxWorld(rendezvous));
  }
  backend.device = std::move(device);
  return backend;
}

inline trainer::Backend MakeBackend(trainer::Rendezvous& rendezvous, World world) {
  if (world == World::kStaged || world == World::kStreamed) return MakeRemoteBackend(rendezvous, world);
  trainer::Backend backend = trainer::CreateBackend(EngineDevice::kCpu, rendezvous);
  if (world == World::kDelayedUcx) backend.comm = trainer::CreateDelayedWorld(std::move(backend.comm));
  return backend;
}

// One rank's part of the outcome.
struct RankPart {
  std::vector<trainer::StepResult> steps;
  std::vector<trainer::Parameter> parameters;
  std::vector<std::vector<double>> values;  // by parameter; only the kept ones are set
  std::vector<trainer::ElementRange> kept;  // by parameter
  std::vector<double> padding;              // elements that correspond to no element of the model
};

inline RankPart TakePart(const trainer::RankTrainer& trainer, std::vector<trainer::StepResult> steps,
                         Device& device) {
  RankPart part{std::move(steps), trainer.layout().parameters(), {}, {}, {}};
  for (std::size_t i = 0; i < part.parameters.size(); ++i) {
    const trainer::ParameterTensors& t = trainer.layout().parameter_tensors()[i];
    const trainer::ElementRange kept = t.kept;
    part.kept.push_back(kept);
    part.values.emplace_back(static_cast<std::size_t>(trainer::ElementCount(part.parameters[i].shape)));
    if (kept.count > 0) {
      const std::vector<double> values = ToDoubles(t.kept_value, device);
      std::copy(values.begin(), values.end(), part.values.back().begin() + kept.first);
    }
    std::vector<bool> used(part.values.back().size(), false);
    trainer::ForEachRun(part.parameters[i], [&](std::int64_t local, std::int64_t, std::int64_t count) {
      for (std::int64_t k = 0; k < count; ++k) used[local + k] = true;
    });
    for (std::size_t k = 0; k < used.size(); ++k) {
      if (!used[k]) part.padding.push_back(part.values.back()[k]);
    }
  }
  return part;
}

inline TrainedRun Assemble(const std::vector<RankPart>& parts) {
  TrainedRun outcome;
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
      const trainer::Parameter& p = part.parameters[i];
      const auto size = static_cast<std::size_t>(trainer::ElementCount(p.global_shape));
      std::vector<double>& whole = outcome.weights[p.name];
      std::vector<bool>& written = seen[p.name];
      whole.resize(size);
      written.resize(size);
      trainer::ForEachRun(p, [&](std::int64_t local, std::int64_t global, std::int64_t count) {
        for (std::int64_t k = 0; k < count; ++k) {
          const trainer::ElementRange kept = part.kept[i];
          if (local + k < kept.first || local + k >= kept.first + kept.count) continue;
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

// Runs config.lr.steps steps. Each rank's thread calls `at_end` after its last step.
inline TrainedRun RunAsThreads(const trainer::TrainConfig& config, World world = World::kUcx,
                               const std::function<void(trainer::RankTrainer&)>& at_end = {}) {
  const int ranks = static_cast<int>(RankCount(config.plan));
  auto rendezvous = trainer::CreateLocalRendezvous(ranks);
  std::vector<RankPart> parts(ranks);
  RunThreads(ranks, [&](int rank) {
    trainer::Backend backend = MakeBackend(*rendezvous[rank], world);
    trainer::RankTrainer trainer(config, rank, ranks, backend);
    std::vector<trainer::StepResult> steps;
    for (std::int64_t s = 0; s < config.lr.steps; ++s) steps.push_back(trainer.Step());
    if (at_end) at_end(trainer);
    trainer.CompleteParameters();
    parts[rank] = TakePart(trainer, std::move(steps), *backend.device);
    trainer.Barrier();
  });
  return Assemble(parts);
}

}  // namespace autocfg::test
