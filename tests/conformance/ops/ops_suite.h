// The contract of every Ops that computes. Each op is compared with the definitions in ops_reference.h, on
// seeded random inputs, with outputs poisoned with NaN first, at even and odd sizes. Each kind of op has its
// tests in a header of its own. Include this one in one test file and instantiate OpsSuite.
#pragma once

#include "tests/conformance/ops/ops_suite_activations.h"
#include "tests/conformance/ops/ops_suite_embeddings.h"
#include "tests/conformance/ops/ops_suite_linear.h"
#include "tests/conformance/ops/ops_suite_norms.h"
#include "tests/conformance/ops/ops_suite_optimizer.h"
