// Inputs as people write them (8k, 200Gb/s, $2.10, tp<=4): bad ones, each refused in one clear line.
#include <gtest/gtest.h>

#include "tests/cli/one_clear_line.h"

namespace autocfg::cli {
namespace {

std::string ClusterFile(const std::string& inter_node) {
  return R"({"device": {"name": "x", "kind": "cuda", "memory_bytes": "80GB", "memory_bytes_per_s": "3.35TB/s",
    "flops_per_s": {"bf16": "989TFLOP/s"}}, "nodes": 2, "gpus_per_node": 8,
    "intra_node_bytes_per_s": "450GB/s", "inter_node_bytes_per_s": )" +
         inter_node + "}";
}

TEST(WrittenInputs, BadOptionsAreOneClearLine) {
  const auto refuse = [](const char* option, const char* value, const std::vector<std::string>& says) {
    SCOPED_TRACE(std::string(option) + " " + value);
    ExpectOneClearLine({"search", "--predict-only", "--model", "gpt2-tiny", "--cluster", "h100-sxm:1x8",
                        "--global-batch", "8", option, value},
                       2, says);
  };
  refuse("--seq-len", "8kk",
         {"--seq-len: invalid value '8kk': unknown unit 'kk'; write 8192 or 8k (k is 1024)"});
  refuse("--seq-len", "0k", {"--seq-len: invalid value '0k'; expected a whole number from 1 to 100000000"});
  refuse("--seq-len", "0.0001k", {"--seq-len: invalid value '0.0001k'; expected a whole number"});
  refuse("--seq-len", "8m", {"did you mean 8M?"});
  refuse("--seq-len", "1e3", {"--seq-len: invalid value '1e3'; expected a whole number"});
  refuse("--seq-len", "k", {"--seq-len: invalid value 'k'"});
  refuse("--seq-len", "8k,8kk", {"invalid value '8kk': unknown unit"});
  ExpectOneClearLine({"predict", "--model", "gpt2-tiny", "--cluster", "h100-sxm:1x8", "--global-batch", "8",
                      "--plan", "dp=8,mbs=1", "--seq-len", "64,32"},
                     2, {"--seq-len: invalid value '64,32': it is a list; give one value"});
  refuse("--tokens", "1t", {"--tokens: invalid value '1t': unknown unit 't'; did you mean 1T?"});
  refuse("--tokens", "1GB", {"--tokens: invalid value '1GB': unknown unit 'GB'; write 300e9, 300B or 1.5T"});
  refuse("--tokens", "1e19", {"--tokens: invalid value '1e19'; expected a number from 1 to 1e+18"});
  refuse("--price-per-gpu-hour", "$", {"--price-per-gpu-hour: invalid value '$'; write 2.10 or '$2.10'"});
  for (const char* left : {".10", "$.10"})
    refuse("--price-per-gpu-hour", left,
           {"a shell makes .10 of an unquoted $2.10", "or 0.10 if it is meant"});
  refuse("--price-per-gpu-hour", "$0", {"--price-per-gpu-hour: invalid value '$0'; expected a number from"});
  refuse("--price-per-gpu-hour", "2.10/h", {"invalid value '2.10/h'"});
  refuse("--price-per-gpu-hour", "$2,10", {"invalid value '$2,10'"});
  refuse("--mtbf-hours", "2w",
         {"--mtbf-hours: invalid value '2w': unknown unit 'w'; write 90, 90s, 10m or 2h"});
  refuse("--space", "tp=>4", {"--space: 'tp=>4' has its signs the wrong way round; write tp>=4"});
  refuse("--space", "tp=<=4", {"--space: 'tp=<=4' has its signs the wrong way round; write tp<=4"});
  refuse("--space", "recompute=selective:mlp,norm",
         {"--space: recompute=norm is not valid; it must be selective:norm, with '+' between the names"});
  refuse("--space", "tp>8", {"--space: tp>8 holds no value; tp takes 1, 2, 4, 8 here"});
  refuse("--space", "mbs=4-1", {"--space: mbs=4-1 holds no value; write the smaller number first"});
  refuse("--space", "mbs=1-x", {"--space: mbs=1-x is not a range of whole numbers; write mbs=1-4"});
  refuse("--space", "schedule>=1f1b", {"--space: schedule>=1f1b: schedule takes no bound"});
  refuse("--space", "tp<=4,8", {"--space: tp<=4 is a bound beside other values"});
  refuse("--space", "tpp<=4", {"--space: unknown axis tpp; did you mean tp, pp or vpp?"});
  refuse("--space", "recompute=full:x", {"--space", "full:x"});
  refuse("--space", "recompute=none:*", {"--space", "none:*"});
}

TEST(WrittenInputs, BadTextsOfClusterFilesAreOneClearLine) {
  const ScratchDirectory files;
  const auto refuse = [&](const std::string& value, const std::vector<std::string>& says) {
    SCOPED_TRACE(value);
    const auto file = files.Write("cluster.json", ClusterFile(value));
    ExpectOneClearLine(
        {"predict", "--model", "gpt2-tiny", "--cluster", file, "--global-batch", "8", "--plan", "dp=8"}, 2,
        says);
  };
  refuse(R"("200gb/s")", {"inter_node_bytes_per_s: invalid value '200gb/s': it could be 200GB/s or 200Gb/s "
                          "(b is a bit, B a byte); write which"});
  refuse(R"("200G")", {"invalid value '200G': it could be 200GB/s", "write which"});
  refuse(R"("200")", {"inter_node_bytes_per_s is \"200\"; it must be a number, or a text with a unit"});
  refuse(R"("fast")", {"inter_node_bytes_per_s: invalid value 'fast'; write 400GB/s (bytes) or 200Gb/s"});
  refuse(R"("")", {"inter_node_bytes_per_s is \"\"; it must be a number, or a text with a unit"});
  refuse(R"("-200Gb/s")", {"invalid value '-200Gb/s'"});
  refuse(R"("0GB/s")", {"inter_node_bytes_per_s is 0; it must be positive"});
  refuse(R"("400GiB")", {"invalid value '400GiB': unknown unit 'GiB'; did you mean 400GiB/s?"});
  refuse(R"("9e9TB/s")", {"inter_node_bytes_per_s is 9e+21; at most 1e+15"});
}

}  // namespace
}  // namespace autocfg::cli
