// "Did you mean": the names nearest to one that is not known. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autocfg {

// At most three names by edit distance, nearest first, those within half the length of `name`, or that begin
// with it; all if none is near and there are six at most. Neither case nor hyphens, underscores and blanks
// count.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known);

// "; did you mean a, b or c?" or "" when nothing is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& known);

// The same of presets, for which a file can stand: where none is near it lists them all, and says so.
std::string DidYouMeanPreset(std::string_view name, const std::vector<std::string>& presets);

// The same where the message lists the names itself: "" too where none is nearer than the others.
std::string DidYouMeanOfListed(std::string_view name, const std::vector<std::string>& known);

}  // namespace autocfg
