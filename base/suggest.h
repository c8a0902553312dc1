// "Did you mean": suggests the known names nearest to an unknown one. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace autocfg::base {

// Returns at most three names by edit distance, nearest first: those within half the length of `name`, or
// that begin with it. Returns all names if none is near and there are at most six. Ignores case, hyphens,
// underscores and blanks.
std::vector<std::string> NearestNames(std::string_view name, const std::vector<std::string>& known);

// Returns "; did you mean a, b or c?", or "" if no name is near.
std::string DidYouMean(std::string_view name, const std::vector<std::string>& known);

// As DidYouMean, for presets, which a file may replace. If no name is near, lists all presets and says so.
std::string DidYouMeanPreset(std::string_view name, const std::vector<std::string>& presets);

// As DidYouMean, for messages that list all names themselves. Returns "" if no name is nearer than the
// others.
std::string DidYouMeanOfListed(std::string_view name, const std::vector<std::string>& known);

}  // namespace autocfg::base
