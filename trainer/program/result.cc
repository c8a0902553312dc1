#include "trainer/program/result.h"

#include <algorithm>
#include <new>
#include <string>
#include <utility>

#include "kernels/device.h"
#include "trainer/comm/communicator.h"
#include "trainer/layout/errors.h"

namespace autocfg::trainer {
namespace {

v1::RankError Error(const char* code, std::string message) {
  std::replace(message.begin(), message.end(), '\n', ' ');
  v1::RankError error;
  error.set_code(code);
  error.set_message(std::move(message));
  return error;
}

}  // namespace

v1::RankError ToRankError(const std::exception_ptr& error) {
  try {
    std::rethrow_exception(error);
  } catch (const DoesNotFit& e) {
    v1::RankError result = Error("RESOURCE_EXHAUSTED", e.what());
    result.set_over_bytes(e.over_bytes);
    result.set_region(e.region);
    return result;
  } catch (const DeviceOutOfMemory& e) {
    v1::RankError result = Error("RESOURCE_EXHAUSTED", e.what());
    // With fragmentation, the free memory may exceed the request.
    result.set_over_bytes(
        std::max<std::int64_t>(e.wanted_bytes - std::max<std::int64_t>(e.available_bytes, 0), 0));
    return result;
  } catch (const std::bad_alloc&) {
    return Error("RESOURCE_EXHAUSTED", "the host has no memory left for the trainer itself");
  } catch (const BadInput& e) {
    return Error("INVALID_ARGUMENT", e.what());
  } catch (const NotSupported& e) {
    return Error("UNIMPLEMENTED", e.what());
  } catch (const CommError& e) {
    return Error("UNAVAILABLE", e.what());
  } catch (const std::exception& e) {
    return Error("INTERNAL", e.what());
  }
}

}  // namespace autocfg::trainer
