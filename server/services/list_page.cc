#include "server/services/list_page.h"

#include <algorithm>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace autocfg::server {
namespace {

constexpr int kDefaultPage = 50;
constexpr int kLargestPage = 200;
constexpr std::size_t kFieldBytes = 6;  // most that a field's number and length take

}  // namespace

absl::StatusOr<ListPage> ListPage::Of(int page_size) {
  if (page_size < 0)
    return absl::InvalidArgumentError(fmt::format("page_size is {}; it must not be negative", page_size));
  return ListPage(page_size == 0 ? kDefaultPage : std::min(page_size, kLargestPage));
}

bool ListPage::Takes(const google::protobuf::MessageLite& element) {
  const std::size_t bytes = bytes_ + element.ByteSizeLong() + kFieldBytes;
  if (count_ == most_ || (count_ > 0 && bytes > kMostPageBytes)) return false;
  ++count_;
  bytes_ = bytes;
  return true;
}

}  // namespace autocfg::server
