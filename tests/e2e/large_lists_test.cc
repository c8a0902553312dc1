// Verbs that list what a coordinator has, more than one message of gRPC holds.
#include <gtest/gtest.h>

#include <string>

#include "nlohmann/json.hpp"
#include "tests/cli/program.h"
#include "tests/server/coordinator_fixture.h"

namespace autocfg::cli {
namespace {

constexpr int kElements = 6;
constexpr std::size_t kElementBytes = std::size_t{12} << 20;  // 72 MiB in all; a message has at most 64 MiB

class LargeListsTest : public server::CoordinatorFixture {
 protected:
  void Fill() {
    const auto store = server::OpenSqliteStore(dir_.File("autocfg.db"));
    ASSERT_TRUE(store.ok()) << store.status();
    const std::string text(kElementBytes, 'x');
    for (int i = 0; i < kElements; ++i) {
      v1::Study study;
      study.set_fingerprint("f");
      study.mutable_spec()->mutable_model()->set_name("m");
      study.mutable_spec()->add_space()->set_name(text);
      ASSERT_TRUE((*store)->CreateStudy("", study, 1).ok());
      v1::RegisterWorkerRequest worker;
      worker.set_worker("workers/" + std::to_string(i));
      worker.set_boot_id("boot");
      worker.mutable_inventory()->set_slots(1);
      worker.mutable_inventory()->set_device_kind("cpu");
      worker.mutable_inventory()->add_gpus()->set_left_out(text);
      ASSERT_TRUE((*store)->RegisterWorker(worker, 1).ok());
    }
  }
  Finished Run(const std::string& verb) {
    return RunAutocfg(home_, {verb, "--coordinator", coordinator_->address(), "--json"});
  }

  const ScratchDirectory home_;
};

TEST_F(LargeListsTest, AreListedWhole) {
  Fill();
  Open();
  for (const char* verb : {"studies", "workers"}) {
    const Finished list = Run(verb);
    ASSERT_EQ(list.exit_code, 0) << verb << ": " << list.err;
    EXPECT_EQ(nlohmann::json::parse(list.out).size(), static_cast<std::size_t>(kElements)) << verb;
  }
  // It lists the workers first.
  const Finished search =
      RunAutocfg(home_, {"search", "--model", "gpt2-124m", "--cluster", "h100-sxm:1x2", "--global-batch", "8",
                         "--predict-only", "--coordinator", coordinator_->address()});
  EXPECT_EQ(search.exit_code, 0) << search.err;
}

}  // namespace
}  // namespace autocfg::cli
