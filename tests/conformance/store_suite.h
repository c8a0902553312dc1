// The contract of Store. Include in one test file and instantiate:
//   INSTANTIATE_TEST_SUITE_P(Name, StoreSuite, testing::Values(StoreMaker{...}), StoreMakerName);
//   INSTANTIATE_TEST_SUITE_P(Name, StoreGangSuite, testing::Values(StoreMaker{...}), StoreMakerName);
//   INSTANTIATE_TEST_SUITE_P(Name, StoreCalibrationSuite, testing::Values(StoreMaker{...}), StoreMakerName);
#pragma once

#include "tests/conformance/store_calibrations_suite.h"
#include "tests/conformance/store_gangs_suite.h"
#include "tests/conformance/store_leases_suite.h"
#include "tests/conformance/store_placement_suite.h"
#include "tests/conformance/store_reports_suite.h"
#include "tests/conformance/store_studies_suite.h"
#include "tests/conformance/store_trials_suite.h"
#include "tests/conformance/store_workers_suite.h"
