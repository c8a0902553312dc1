// The page of a report: one file of HTML that opens without a network, with its style, its code, Chart.js
// (embedded at build time) and its data. Pure, thread-safe.
#pragma once

#include <string>
#include <string_view>

namespace autocfg::server {

// A file that was compiled in (cmake/EmbedPages.cmake).
std::string_view EmbeddedPage(std::string_view name);

// Returns the code of the page, without Chart.js.
std::string ReportCode();

// Returns the page. `title`: any text. `json`: a JSON value; text in it that would end the script that holds
// it is escaped.
std::string ReportPage(std::string_view title, std::string_view json);

// Returns the text with the characters escaped that mean something in HTML.
std::string EscapeHtml(std::string_view text);

// Returns the JSON with every '<', '>', '&' and line separator as an escape of its string, so that it may
// stand in a script. The value is the same.
std::string EscapeJson(std::string_view json);

}  // namespace autocfg::server
