#include "cli/manual/manual_page.h"

#include <algorithm>
#include <cctype>
#include <string>

#include "base/os/process.h"
#include "cli/manual/command_words.h"
#include "cli/terminal/console.h"
#include "fmt/format.h"

namespace autocfg::cli {
namespace {

// Returns the text with what man(7) would read as a request or an escape made plain.
std::string Plain(const std::string& text) {
  std::string plain;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) plain += "\\&";
    if (c == '\\') {
      plain += "\\e";
    } else if (c == '-') {
      plain += "\\-";
    } else {
      plain += c;
    }
    line_begins = c == '\n';
  }
  return plain;
}

std::string UpperCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return text;
}

std::string Entry(const Word& word) {
  return fmt::format(".TP\n.B {}{}\n{}\n", Plain(word.text), word.takes_value ? " \\fIVALUE\\fR" : "",
                     Plain(word.about));
}

std::string Section(const std::string& title, const std::string& body) {
  return body.empty() ? "" : fmt::format(".SH {}\n{}", title, body);
}

// Sentences as they are, tables line by line.
std::string Footer(const std::string& footer) {
  return footer.empty() ? "" : ".nf\n" + Plain(footer) + "\n.fi\n";
}

std::string ExitStatus() {
  struct Status {
    int code;
    const char* meaning;
  };
  std::string text;
  for (const auto& [code, meaning] :
       {Status{kExitDone, "done"},
        Status{kExitNegative, "an honest negative answer: nothing fits, a run failed"},
        Status{kExitUsage, "bad input or usage"},
        Status{kExitUnreachable, "the service cannot be reached, or has no room"},
        Status{kExitInterrupted, "interrupted"}}) {
    text += fmt::format(".TP\n.B {}\n{}\n", code, meaning);
  }
  return text;
}

}  // namespace

std::string ManualPage(const CLI::App& app, const CLI::App& verb) {
  const bool whole = &app == &verb;
  const std::string name = whole ? app.get_name() : fmt::format("{}-{}", app.get_name(), verb.get_name());
  std::string about = verb.get_description();
  if (const std::string title = app.get_name() + ": "; about.starts_with(title)) about.erase(0, title.size());
  std::string commands, options, others;
  for (const Word& word : WordsOf(verb)) {
    // The options of all verbs stand on their own pages.
    const bool own = !whole || verb.get_option_no_throw(word.text) != nullptr;
    if (word.text.starts_with("--") && own) options += Entry(word);
  }
  for (const Word& below : VerbWords(verb)) {
    commands += Entry(below);
    if (whole) others += fmt::format(".BR {}\\-{} (1)\n", app.get_name(), below.text);
  }
  if (!whole) others = fmt::format(".BR {} (1)\n", app.get_name());
  const std::string usage =
      fmt::format(".B {}{}\n[\\fIOPTIONS\\fR]{}\n", app.get_name(), whole ? "" : " " + verb.get_name(),
                  commands.empty() ? "" : " \\fICOMMAND\\fR ...");
  return fmt::format(".TH {} 1 \"\" \"autocfg {}\" autocfg\n", UpperCase(Plain(name)),
                     Plain(base::Version())) +
         Section("NAME", fmt::format("{} \\- {}\n", Plain(name), Plain(about))) + Section("SYNOPSIS", usage) +
         Section("COMMANDS", commands) + Section("OPTIONS", options) +
         Section("DETAILS", Footer(verb.get_footer())) + Section("\"EXIT STATUS\"", ExitStatus()) +
         Section("\"SEE ALSO\"", others);
}

}  // namespace autocfg::cli
