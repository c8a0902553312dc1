// "Did you mean": the names nearest to one that is not known. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

// At most three names by edit distance, nearest first, those within half the length of `name`; all if none is
// near and there are few.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known);

// "; did you mean a, b or c?" or "" when nothing is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& known);

// The same where the message lists the names itself: "" too where none is nearer than the others.
std::string DidYouMeanOfListed(std::string_view name, const std::vector<std::string>& known);

}  // namespace autocfg
