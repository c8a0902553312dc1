#include <string>

#include "base/text.h"
#include "fmt/format.h"
#include "tests/fuzz/targets/fuzz_target.h"

namespace autocfg::test {

void CheckThat(bool holds, std::string_view what) {
  if (!holds) throw FuzzFailure(std::string(what));
}

void CheckMessage(std::string_view message) {
  CheckThat(!message.empty(), "an error without a message");
  CheckThat(message.size() <= kMostErrorBytes, fmt::format("an error of {} bytes", message.size()));
  CheckThat(message.find('\n') == std::string_view::npos,
            fmt::format("an error of several lines: {}", message));
  CheckThat(base::CleanUtf8(message, message.size()) == message, "an error that is not printable UTF-8");
}

bool CheckStatus(const absl::Status& status) {
  if (!status.ok()) CheckMessage(std::string_view(status.message().data(), status.message().size()));
  return status.ok();
}

}  // namespace autocfg::test
