// One page of a list RPC, bounded in elements and in bytes. Not thread-safe.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "google/protobuf/message_lite.h"
#include "server/store/records.h"

namespace autocfg::server {

// A page has more bytes only if its first element does. 4 KiB less than gRPC clients accept by default, for
// the page's token.
inline constexpr std::size_t kMostPageBytes = (std::size_t{4} << 20) - (std::size_t{4} << 10);

class ListPage {
 public:
  // `page_size`: that of the request; 0 asks for the default. InvalidArgument if it is negative.
  static absl::StatusOr<ListPage> Of(int page_size);

  // What to read from the store: enough that an element is left over if the list goes on.
  ListLimit Limit() const { return {most_ + 1, kMostPageBytes}; }

  // Returns whether the page has room for the next element, which then belongs to it. If not, the page ends,
  // and its token is that of the element before. The first element always has room.
  bool Takes(const google::protobuf::MessageLite& element);

 private:
  explicit ListPage(int most) : most_(most) {}

  int most_;
  int count_ = 0;
  std::size_t bytes_ = 0;
};

}  // namespace autocfg::server
