#include "server/report/report_page.h"

#include <array>
#include <utility>

namespace autocfg::server {

std::string EscapeHtml(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '<': escaped += "&lt;"; break;
      case '>': escaped += "&gt;"; break;
      case '&': escaped += "&amp;"; break;
      case '"': escaped += "&quot;"; break;
      case '\'': escaped += "&#39;"; break;
      default: escaped += c;
    }
  }
  return escaped;
}

std::string EscapeJson(std::string_view json) {
  // U+2028 and U+2029 end a line of a script.
  constexpr std::string_view kSeparator = "\xe2\x80";
  std::string escaped;
  escaped.reserve(json.size());
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<') {
      escaped += "\\u003c";
    } else if (c == '>') {
      escaped += "\\u003e";
    } else if (c == '&') {
      escaped += "\\u0026";
    } else if (json.substr(i, 2) == kSeparator && i + 2 < json.size() &&
               (json[i + 2] == '\xa8' || json[i + 2] == '\xa9')) {
      escaped += json[i + 2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      escaped += c;
    }
  }
  return escaped;
}

std::string ReportCode() {
  std::string code;
  for (const std::string_view name :
       {"text.js", "charts.js", "plans.js", "timeline.js", "report.js", "start.js"})
    code += EmbeddedPage(name);
  return code;
}

std::string ReportPage(std::string_view title, std::string_view json) {
  const std::array<std::pair<std::string_view, std::string>, 6> parts = {
      {{"@TITLE@", EscapeHtml(title)},
       {"@STYLE@", std::string(EmbeddedPage("report.css"))},
       {"@CHARTS@", std::string(EmbeddedPage("chart.min.js"))},
       {"@NOTICE@", EscapeHtml(EmbeddedPage("chart_notice.txt"))},
       {"@CODE@", ReportCode()},
       {"@DATA@", EscapeJson(json)}}};
  const std::string_view page = EmbeddedPage("report.html");
  std::string filled;
  for (std::size_t at = 0; at < page.size();) {
    const std::size_t mark = page.find('@', at);
    filled += page.substr(at, mark - at);
    if (mark == std::string_view::npos) break;
    at = mark;
    for (const auto& [name, value] : parts) {
      if (page.substr(mark, name.size()) != name) continue;
      filled += value;
      at = mark + name.size();
      break;
    }
    if (at == mark) {  // a plain '@'
      filled += '@';
      ++at;
    }
  }
  return filled;
}

}  // namespace autocfg::server
