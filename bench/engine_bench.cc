// Times a training step of a model (sequence 256, micro batch 4, fp32, one rank, one thread). After each
// step, times all of its matrix products alone, including those of attention: the same shapes, the same
// number of times, through the same BLAS.
//
// usage: autocfg_engine_bench STEPS MODEL_FILE. Prints one JSON object; blas_kernels are those of OpenBLAS,
// chosen as for ranks. The first step and the first round of products are a warm-up and are not counted.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_device.h"
#include "nlohmann/json.hpp"
#include "search/cost/op_lists/action_ops.h"
#include "search/text/model_json.h"
#include "trainer/calibrate/scratch_op.h"
#include "trainer/comm/rendezvous.h"
#include "trainer/program/blas_restart.h"
#include "trainer/run/rank_trainer.h"

namespace autocfg {
namespace {

double Seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The matrix products of one attention op (kernels/cpu/attention.cc), on one head's scratch memory: causal,
// in blocks of 128 rows.
class AttentionProducts {
 public:
  explicit AttentionProducts(const OpDesc& op)
      : backward_(op.kind == OpKind::kAttentionBackward),
        heads_(op.dims[0] * op.dims[2]),
        seq_(op.dims[1]),
        dim_(op.dims[3]),
        ld_((op.dims[2] + 2 * op.dims[4]) * op.dims[3]),
        a_(seq_ * ld_, 0.5f),
        b_(seq_ * ld_, 0.5f),
        c_(seq_ * ld_, 0.0f),
        scores_(128 * seq_, 0.5f) {}

  void Run() {
    for (std::int64_t head = 0; head < heads_; ++head) {
      for (std::int64_t first = 0; first < seq_; first += 128) {
        const std::int64_t rows = std::min<std::int64_t>(128, seq_ - first), cols = first + rows;
        const auto scores = [&] {
          cpu::Gemm(Transpose::kNo, Transpose::kYes, rows, cols, dim_, 1.0f, a_.data(), ld_, b_.data(), ld_,
                    0.0f, scores_.data(), cols);
        };
        const auto by_row = [&] {
          cpu::Gemm(Transpose::kNo, Transpose::kNo, rows, dim_, cols, 1.0f, scores_.data(), cols, b_.data(),
                    ld_, 0.0f, c_.data(), ld_);
        };
        const auto by_column = [&] {
          cpu::Gemm(Transpose::kYes, Transpose::kNo, cols, dim_, rows, 1.0f, scores_.data(), cols, a_.data(),
                    ld_, 0.0f, c_.data(), ld_);
        };
        scores();
        by_row();
        if (backward_) {
          scores();
          by_column();
          by_column();
        }
      }
    }
  }

 private:
  const bool backward_;
  const std::int64_t heads_, seq_, dim_, ld_;
  std::vector<float> a_, b_, c_, scores_;
};

// Every matrix product of one step, with its number of occurrences.
class StepProducts {
 public:
  StepProducts(const trainer::TrainConfig& config, const RankProgram& program, Device& device, Ops& ops,
               Stream& stream) {
    for (const Action& action : program) {
      for (const OpDesc& op : ActionOps(config, 0, action)) {
        if (op.kind == OpKind::kMatmul || op.kind == OpKind::kAttentionForward ||
            op.kind == OpKind::kAttentionBackward) {
          ++count_[WithoutEpilogue(op)];
        }
      }
    }
    for (const auto& [op, count] : count_) {
      if (op.kind == OpKind::kMatmul) {
        auto scratch = std::make_shared<trainer::ScratchOp>(op, device, ops, stream);
        run_[op] = [scratch] { scratch->Run(); };
      } else {
        auto products = std::make_shared<AttentionProducts>(op);
        run_[op] = [products] { products->Run(); };
      }
    }
  }

  void Run() {
    for (const auto& [op, count] : count_) {
      for (int i = 0; i < count; ++i) run_[op]();
    }
  }

 private:
  // Returns the product without its epilogue.
  static OpDesc WithoutEpilogue(OpDesc op) {
    op.epilogue = Epilogue::kNone;
    op.bias = false;
    op.activation = Activation::kGelu;
    return op;
  }

  std::map<OpDesc, int> count_;
  std::map<OpDesc, std::function<void()>> run_;
};

int Main(int steps, const std::string& file) {
  trainer::TrainConfig config;
  std::ifstream text(file);
  config.model =
      ParseModelText(std::string(std::istreambuf_iterator<char>(text), std::istreambuf_iterator<char>()))
          .value();
  FillDefaults(config.model);
  config.workload = {.global_batch = 4, .seq_len = 256, .precision = ParsePrecision("fp32").value()};
  config.plan = ParallelPlan{{}, {.micro_batch = 4}};
  config.lr.steps = steps + 1;
  config.seed = 1;

  const auto rendezvous = trainer::CreateLocalRendezvous(1);
  trainer::Backend backend = trainer::CreateBackend(EngineDevice::kCpu, *rendezvous[0]);
  trainer::RankTrainer trainer(config, 0, 1, backend);
  const auto stream = backend.device->CreateStream();
  StepProducts products(config, trainer.program(), *backend.device, *backend.ops, *stream);

  nlohmann::json result = {{"blas_kernels", cpu::ChosenBlasCore()},
                           {"engine_step_s", nlohmann::json::array()},
                           {"matrix_products_s", nlohmann::json::array()},
                           {"loss", nlohmann::json::array()}};
  for (int step = 0; step <= steps; ++step) {
    trainer::StepResult outcome;
    const double step_s = Seconds([&] { outcome = trainer.Step(); });
    const double products_s = Seconds([&] { products.Run(); });
    if (step == 0) continue;
    result["engine_step_s"].push_back(step_s);
    result["matrix_products_s"].push_back(products_s);
    result["loss"].push_back(outcome.loss);
  }
  std::cout << result.dump() << "\n";
  return 0;
}

}  // namespace
}  // namespace autocfg

int main(int argc, char** argv) {
  autocfg::trainer::RestartForBlas(argv);
  const int steps = argc == 3 ? std::atoi(argv[1]) : 0;
  if (steps < 1 || steps > 1000) {
    std::cerr << "usage: autocfg_engine_bench STEPS (1 to 1000) MODEL_FILE\n";
    return 2;
  }
  return autocfg::Main(steps, argv[2]);
}
