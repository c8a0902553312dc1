// Text of messages and reports for people: untrusted bytes made printable, suggestions for misspelled names,
// sizes with units. Pure, thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace autocfg::base {

// Returns `text` for one line of a message: control characters, invisible characters and bytes that are not
// UTF-8 become \xNN; text longer than about 60 bytes is cut and ends in "...".
std::string Printable(std::string_view text);

// Returns `text` cut to `most` bytes, between two characters; what is cut ends in "...", beyond the limit.
std::string Cut(std::string_view text, std::size_t most);

// Returns `text` without the blanks, tabs and line breaks at its ends.
std::string_view Trimmed(std::string_view text);

// Returns `text` as one line without control characters, which become blanks (a run of them one, at the ends
// none), cut as Cut does. For text of others; keeps what Printable would escape or shorten.
std::string OneLine(std::string_view text, std::size_t most = std::string_view::npos);

// Returns the last `most` bytes of `bytes` as UTF-8 (RFC 3629). Invalid bytes and control characters except
// tab and line feed become '?'.
std::string CleanUtf8(std::string_view bytes, std::size_t most);

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

// Returns "a, b or c": what may be given in place of a wrong value. Empty if there are no names.
std::string ChoiceText(const std::vector<std::string>& names);

std::string BytesText(std::int64_t bytes);  // "512 B", "1.5 KiB", "23.0 GiB"
std::string SecondsText(double seconds);    // "850 us", "12.3 ms", "1.25 s", "2 min 05 s"
std::string CountText(std::int64_t count);  // "1,234,567"

}  // namespace autocfg::base
