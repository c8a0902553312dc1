// Runs the suites of the store on stores in files and in memory.
#include "server/store/sqlite/sqlite_store.h"
#include "tests/conformance/store_calibrations_suite.h"
#include "tests/conformance/store_fairness_suite.h"
#include "tests/conformance/store_gangs_suite.h"
#include "tests/conformance/store_leases_suite.h"
#include "tests/conformance/store_placement_suite.h"
#include "tests/conformance/store_reports_suite.h"
#include "tests/conformance/store_retention_suite.h"
#include "tests/conformance/store_studies_suite.h"
#include "tests/conformance/store_tokens_suite.h"
#include "tests/conformance/store_trials_suite.h"
#include "tests/conformance/store_workers_suite.h"
#include "tests/support/temp_dir.h"

namespace autocfg::server {
namespace {

std::shared_ptr<Store> InFile() {
  auto directory = std::make_unique<TempDir>();
  auto store = OpenSqliteStore(directory->File("store.db"), {.kept_rejections = kKeptRejections});
  if (!store.ok()) {
    ADD_FAILURE() << store.status();
    return nullptr;
  }
  // Deletes the directory after the store.
  return std::shared_ptr<Store>(
      store->release(), [directory = std::shared_ptr<TempDir>(std::move(directory))](Store* p) { delete p; });
}

std::shared_ptr<Store> InMemory() {
  auto store = OpenMemoryStore({.kept_rejections = kKeptRejections});
  if (!store.ok()) {
    ADD_FAILURE() << store.status();
    return nullptr;
  }
  return std::shared_ptr<Store>(*std::move(store));
}

const auto kStores = testing::Values(StoreMaker{"File", InFile}, StoreMaker{"Memory", InMemory});
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreRetentionSuite, kStores, StoreMakerName);
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreSuite, kStores, StoreMakerName);
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreGangSuite, kStores, StoreMakerName);
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreFairnessSuite, kStores, StoreMakerName);
INSTANTIATE_TEST_SUITE_P(Sqlite, StoreCalibrationSuite, kStores, StoreMakerName);

}  // namespace
}  // namespace autocfg::server
