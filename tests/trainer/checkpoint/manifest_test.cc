// Tests of the checksum and of the manifest of a checkpoint.
#include "trainer/checkpoint/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "tests/trainer/thread_ranks.h"
#include "trainer/checkpoint/checksum.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::uint64_t ChecksumOf(const std::string& text) {
  Checksum checksum;
  checksum.Add(text.data(), static_cast<std::int64_t>(text.size()));
  return checksum.Value();
}

std::string Bytes(std::size_t count) {
  std::string text(count, '\0');
  for (std::size_t i = 0; i < count; ++i) text[i] = static_cast<char>(i * 37 + i / 256);
  return text;
}

// Stored values must not change from version to version. These are of an implementation in Python.
TEST(Checksum, HasTheValuesThatFilesHold) {
  EXPECT_EQ(ChecksumOf(""), 0xfea9f14c11a02dd1u);
  EXPECT_EQ(ChecksumOf("a"), 0x5636823dcf12cf13u);
  EXPECT_EQ(ChecksumOf(Bytes(1000)), 0x1d2b0af8ff4ac536u);
}

TEST(Checksum, DoesNotDependOnHowTheBytesAreCut) {
  const std::string text = Bytes(300);
  for (std::size_t first = 0; first <= text.size(); first += 7) {
    for (std::size_t second = first; second <= text.size(); second += 11) {
      Checksum checksum;
      checksum.Add(text.data(), static_cast<std::int64_t>(first));
      checksum.Add(text.data() + first, static_cast<std::int64_t>(second - first));
      checksum.Add(text.data() + second, static_cast<std::int64_t>(text.size() - second));
      EXPECT_EQ(checksum.Value(), ChecksumOf(text)) << first << " " << second;
    }
  }
}

TEST(Checksum, ChangesWithEveryBitAndWithTheLength) {
  const std::string text = Bytes(100);
  std::set<std::uint64_t> seen = {ChecksumOf(text)};
  std::size_t count = 1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    for (int bit = 0; bit < 8; ++bit, ++count) {
      std::string changed = text;
      changed[i] = static_cast<char>(changed[i] ^ (1 << bit));
      seen.insert(ChecksumOf(changed));
    }
  }
  for (std::size_t length = 0; length < text.size(); ++length, ++count)
    seen.insert(ChecksumOf(text.substr(0, length)));
  for (std::size_t zeros = 1; zeros < 70; ++zeros, ++count)
    seen.insert(ChecksumOf(text + std::string(zeros, '\0')));
  EXPECT_EQ(seen.size(), count);
}

Manifest Example() {
  return {.step = 6,
          .sequences = 48,
          .run = IdentityOf(test::SmallConfig(), "the pattern of the seed"),
          .plan = "tp=2,pp=1,dp=1,mbs=1",
          .files = {{0, 1234, 0xfedcba9876543210u}, {3, 99, 1}}};
}

TEST(ManifestText, IsReadBack) {
  const Manifest manifest = Example();
  const Manifest read = ParseManifest(ManifestText(manifest), "m");
  EXPECT_EQ(read.step, 6);
  EXPECT_EQ(read.sequences, 48);
  EXPECT_EQ(read.run, manifest.run);
  EXPECT_EQ(read.plan, manifest.plan);
  ASSERT_EQ(read.files.size(), 2u);
  EXPECT_EQ(read.files[0].checksum, 0xfedcba9876543210u);
  EXPECT_EQ(read.files[1].rank, 3);
  EXPECT_EQ(read.files[1].bytes, 99);
}

std::string Refusal(const std::string& text) {
  try {
    ParseManifest(text, "ckpt/step-6/manifest.json");
  } catch (const BadInput& e) {
    return e.what();
  }
  return "no error";
}

TEST(ManifestText, CutOffAnywhereIsRefusedByName) {
  const std::string text = ManifestText(Example());
  for (std::size_t length = 0; length < text.size(); ++length) {
    EXPECT_THAT(Refusal(text.substr(0, length)),
                AllOf(HasSubstr("ckpt/step-6/manifest.json"), HasSubstr("cut off")))
        << length;
  }
}

TEST(ManifestText, ChangedAnywhereIsRefusedByName) {
  const std::string text = ManifestText(Example());
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ' || text[i] == '\n') continue;  // layout says nothing
    std::string changed = text;
    changed[i] = static_cast<char>(changed[i] ^ 1);
    EXPECT_THAT(Refusal(changed), HasSubstr("ckpt/step-6/manifest.json")) << "byte " << i << " of:\n"
                                                                          << changed;
  }
}

TEST(ManifestText, OfAnotherVersionOrFileSaysSo) {
  std::string text = ManifestText(Example());
  text.replace(text.find("\"version\": 1"), 12, "\"version\": 2");
  EXPECT_THAT(Refusal(text), HasSubstr("has version 2; this trainer reads version 1"));
  EXPECT_THAT(Refusal("{}"), HasSubstr("is not the manifest of a checkpoint"));
  EXPECT_THAT(Refusal("[1]"), HasSubstr("not a JSON object"));
}

TrainConfig CosineRun() {
  TrainConfig c = test::SmallConfig();
  c.lr.decay = LrDecay::kCosine;
  return c;
}

TEST(RunIdentity, NamesTheFirstFieldThatDiffers) {
  const RunIdentity here = IdentityOf(CosineRun(), "data");
  EXPECT_EQ(FirstDifference(here, here), "");
  TrainConfig other = CosineRun();
  other.model.layers = 12;
  other.seed = 3;
  EXPECT_EQ(FirstDifference(IdentityOf(other, "data"), here),
            "model.layers is 12 in the checkpoint and 4 in this run");
  RunIdentity longer = here;
  longer.emplace_back("model.new", "1");
  EXPECT_EQ(FirstDifference(longer, here), "model.new is 1 in the checkpoint and not a field of this run");
  EXPECT_EQ(FirstDifference(here, longer), "model.new is 1 in this run and not a field of the checkpoint");
}

// Checkpoints of before such a field resume, and those with it do.
TEST(RunIdentity, HasNoFieldThatIsPredictedOnly) {
  std::set<std::string> names;
  for (const auto& [name, value] : IdentityOf(CosineRun(), "data")) names.insert(name);
  EXPECT_TRUE(names.contains("model.output_softcap"));
  EXPECT_FALSE(names.contains("model.dropout"));
  EXPECT_FALSE(names.contains("model.attention_dropout"));
}

// What changes a step's numbers, and what does not.
TEST(RunIdentity, HasEverythingThatChangesTheSteps) {
  const TrainConfig run = CosineRun();
  const RunIdentity identity = IdentityOf(run, "data");
  const std::vector<std::function<void(TrainConfig&)>> changes = {
      [](TrainConfig& c) { c.model.hidden = 64; },
      [](TrainConfig& c) { c.model.norm_eps = 1e-6; },
      [](TrainConfig& c) { SetBiases(c.model, false); },
      [](TrainConfig& c) { c.model.rope_scaling = RopeScaling::kYarn; },
      [](TrainConfig& c) { c.model.rope_scaling_parameters.factor = 2; },
      [](TrainConfig& c) {
        c.model.rope_scaling_parameters.long_factor = {1, 2};
      },
      [](TrainConfig& c) {
        c.model.layer_kinds = {{.layers = 3, .window = 2}, {.layers = 1}};
      },
      [](TrainConfig& c) { c.model.tied_embeddings = false; },
      [](TrainConfig& c) { c.workload.seq_len = 4; },
      [](TrainConfig& c) { c.workload.global_batch = 16; },
      [](TrainConfig& c) { c.lr.lr *= 2; },
      [](TrainConfig& c) { c.lr.min_lr *= 2; },
      [](TrainConfig& c) { c.lr.warmup_steps = 3; },
      [](TrainConfig& c) { c.lr.steps = 11; },
      [](TrainConfig& c) { c.lr.decay = LrDecay::kConstant; },
      [](TrainConfig& c) { c.adamw.beta1 = 0.8; },
      [](TrainConfig& c) { c.adamw.beta2 = 0.8; },
      [](TrainConfig& c) { c.adamw.eps = 1e-7; },
      [](TrainConfig& c) { c.adamw.weight_decay = 0; },
      [](TrainConfig& c) { c.clip_norm = 1; },
      [](TrainConfig& c) { c.seed = 1; },
      [](TrainConfig& c) { c.workload.precision = *ParsePrecision("fp32"); },
      [](TrainConfig& c) { c.workload.precision = *ParsePrecision("fp32:moments=bf16"); },
      [](TrainConfig& c) { c.workload.optimizer.kind = OptimizerKind::kSgd; },
      [](TrainConfig& c) {
        c.workload.optimizer = {OptimizerKind::kSgd, 0.9};
      }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    TrainConfig other = run;
    changes[i](other);
    EXPECT_NE(FirstDifference(identity, IdentityOf(other, "data")), "") << "change " << i;
  }
  EXPECT_NE(FirstDifference(identity, IdentityOf(run, "other data")), "");
  TrainConfig kinds = run, others = run;
  kinds.model.layer_kinds = {{.layers = 3, .window = 2}, {.layers = 1}};
  others.model.layer_kinds = {{.layers = 3, .window = 2}, {.layers = 1, .window = 4}};
  EXPECT_EQ(FirstDifference(IdentityOf(kinds, "data"), IdentityOf(others, "data")),
            "model.layer_kinds.1.window is 4 in this run and not a field of the checkpoint");
  TrainConfig scaled = run;
  scaled.model.rope_scaling_parameters.long_factor = {1, 2};
  TrainConfig other = scaled;
  other.model.rope_scaling_parameters.long_factor = {1, 2.5};
  EXPECT_EQ(FirstDifference(IdentityOf(scaled, "data"), IdentityOf(other, "data")),
            "model.rope_scaling_parameters.long_factor is 1 2 in the checkpoint and 1 2.5 in this run");

  TrainConfig same = run;
  same.model.name = "other";
  same.plan.tp = 4;
  same.plan.micro_batch = 2;
  same.save_every = 3;
  EXPECT_EQ(FirstDifference(identity, IdentityOf(same, "data")), "");

  // A constant rate has no end, so a run may be prolonged.
  TrainConfig constant = run, longer = run;
  constant.lr.decay = longer.lr.decay = LrDecay::kConstant;
  longer.lr.steps = 100;
  EXPECT_EQ(FirstDifference(IdentityOf(constant, "data"), IdentityOf(longer, "data")), "");
}

}  // namespace
}  // namespace autocfg::trainer
