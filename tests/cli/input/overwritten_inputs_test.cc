// A verb that would write over a file that it reads refuses, and the file stays.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/cli/program.h"
#include "tests/worker/engines/engine_texts.h"

namespace autocfg::cli {
namespace {

using testing::HasSubstr;

constexpr const char* kSmallModel =
    R"({"name": "small", "layers": 2, "hidden": 32, "heads": 2, "vocab": 128, "max_seq_len": 16})";
constexpr const char* kSmallCluster = R"({"device": "h100-sxm", "nodes": 1, "gpus_per_node": 8})";

class OverwrittenInput : public testing::Test {
 protected:
  // Expects one error line that names both options, and the file as it was.
  void ExpectRefused(const std::vector<std::string>& args, const std::string& file, const std::string& says) {
    const std::string before = ReadWhole(file);
    const Finished finished = RunAutocfg(home_, args);
    EXPECT_EQ(finished.exit_code, 2) << args[0] << ": " << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(says));
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1) << finished.err;
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(ReadWhole(file), before) << args[0];
  }
  static std::string Says(const std::string& option, const std::string& file, const std::string& of) {
    return option + ": " + file + " is also the file of " + of + "; name another file\n";
  }

  const ScratchDirectory home_;
  const std::string any_ = home_.Write("run.sh", "torchrun pretrain_gpt.py\n");
  const std::string model_ = home_.Write("m.json", kSmallModel);
  const std::string cluster_ = home_.Write("c.json", kSmallCluster);
};

TEST_F(OverwrittenInput, IsRefusedByEachVerb) {
  const std::vector<std::string> search = {"search", "--model",        model_, "--cluster",
                                           cluster_, "--global-batch", "8",    "--predict-only"};
  const auto with = [](std::vector<std::string> args, const std::vector<std::string>& more) {
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  ExpectRefused({"import", any_, "--output", any_}, any_, Says("--output", any_, "FILE"));
  ExpectRefused({"report", "--input", any_, "--output", any_}, any_, Says("--output", any_, "--input"));
  ExpectRefused({"export", "--to", "megatron", "--input", any_, "--output", any_}, any_,
                Says("--output", any_, "--input"));
  ExpectRefused({"export", "--to", "megatron", "--study", "1", "--db", any_, "--output", any_}, any_,
                Says("--output", any_, "--db"));
  const std::string evidence = home_.Write("d.json.evidence.txt", "{}");
  ExpectRefused({"export", "--to", "deepspeed", "--input", evidence, "--output", home_ / "d.json"}, evidence,
                Says("--output", evidence, "--input"));
  ExpectRefused({"calibrate", "--measurements", any_, "--cluster", "h100-sxm:1x8", "--output", any_}, any_,
                Says("--output", any_, "--measurements"));
  ExpectRefused({"calibrate", "--measurements", any_, "--cluster", cluster_, "--output", cluster_}, cluster_,
                Says("--output", cluster_, "--cluster"));
  ExpectRefused(with(search, {"--output", model_}), model_, Says("--output", model_, "--model"));
  ExpectRefused(with(search, {"--output", cluster_}), cluster_, Says("--output", cluster_, "--cluster"));
  ExpectRefused(with(search, {"--rejected", model_}), model_, Says("--rejected", model_, "--model"));
  ExpectRefused(with(search, {"--output", model_, "--seq-len", "8,16"}), model_,
                Says("--output", model_, "--model"));
  std::filesystem::create_directory(home_ / "engines");
  const std::string engine = home_.Write("engines/toy.json", worker::GoodEngine().dump());
  ExpectRefused({"search", "--model", model_, "--cluster", "local:1x1", "--global-batch", "8", "--engines",
                 std::filesystem::path(engine).parent_path(), "--output", engine},
                engine, Says("--output", engine, "--engines"));
  ExpectRefused({"predict", "--model", model_, "--cluster", "h100-sxm:1x8", "--global-batch", "8", "--plan",
                 "dp=8", "--trace", model_},
                model_, Says("--trace", model_, "--model"));
}

TEST_F(OverwrittenInput, IsRefusedByTrain) {
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"train", "--model", model_, "--plan", "dp=1", "--steps", "1"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  };
  ExpectRefused(train({"--data", any_, "--save", any_}), any_, Says("--save", any_, "--data"));
  const std::string init = home_.Write("init.csv", "weights");
  ExpectRefused(train({"--init", init, "--log", init}), init, Says("--log", init, "--init"));
  ExpectRefused(train({"--save", model_}), model_, Says("--save", model_, "--model"));
  const std::string log = home_.Write("data.csv", "some bytes of text");
  ExpectRefused(train({"--data", log, "--log", log}), log, Says("--log", log, "--data"));
  ExpectRefused(train({"--trace", model_}), model_, Says("--trace", model_, "--model"));
  const std::string index = home_.Write("pair.idx", "index");
  home_.Write("pair.bin", "data");
  ExpectRefused(train({"--data", home_ / "pair", "--save", index}), index, Says("--save", index, "--data"));
}

TEST_F(OverwrittenInput, IsSeenThroughLinks) {
  const std::string link = home_ / "link", hard = home_ / "hard";
  std::filesystem::create_symlink("run.sh", link);
  std::filesystem::create_hard_link(any_, hard);
  ExpectRefused({"import", any_, "--output", link}, any_, Says("--output", link, "FILE"));
  ExpectRefused({"import", link, "--output", any_}, any_, Says("--output", any_, "FILE"));
  ExpectRefused({"import", any_, "--output", hard}, any_, Says("--output", hard, "FILE"));
}

}  // namespace
}  // namespace autocfg::cli
