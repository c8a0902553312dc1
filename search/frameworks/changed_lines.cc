#include "search/frameworks/changed_lines.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "base/status_macros.h"
#include "fmt/format.h"
#include "search/frameworks/adapter.h"
#include "search/frameworks/framework_rules.h"
#include "search/plan/plan_options.h"
#include "search/text/engines.h"

namespace autocfg {
namespace {

struct TextEdit {
  std::size_t begin = 0, end = 0;
  std::string with;
};

std::size_t LineBegin(std::string_view text, std::size_t at) {
  const std::size_t before = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return before == std::string_view::npos ? 0 : before + 1;
}
std::size_t LineEnd(std::string_view text, std::size_t at) {
  return std::min(text.find('\n', at), text.size());
}
std::string_view IndentOf(std::string_view text, std::size_t begin) {
  return text.substr(begin, std::min(text.find_first_not_of(" \t", begin), text.size()) - begin);
}
std::string_view SectionOf(std::string_view name) {
  const std::size_t dot = name.rfind('.');
  return dot == std::string_view::npos ? "" : name.substr(0, dot);
}

const Setting* LastOf(const SettingsText& settings, std::string_view name) {
  const auto found = std::find_if(settings.settings.rbegin(), settings.settings.rend(),
                                  [&](const Setting& setting) { return setting.name == name; });
  return found == settings.settings.rend() ? nullptr : &*found;
}

// Whether the text is one object in braces, behind comments.
bool IsInBraces(std::string_view text) {
  std::size_t at = text.find_first_not_of(" \t\r\n");
  while (at != std::string_view::npos && text[at] == '#')
    at = text.find_first_not_of(" \t\r\n", LineEnd(text, at));
  return at != std::string_view::npos && text[at] == '{';
}

class PlanEditor {
 public:
  // Refers to all of them.
  PlanEditor(const FrameworkAdapter& adapter, const SettingsText& theirs, const SettingsText& now,
             const SettingsText& then)
      : adapter_(adapter),
        theirs_(theirs),
        flags_(adapter.form == SettingsForm::kFlags),
        json_(adapter.form == SettingsForm::kJson || (adapter.may_have_braces && IsInBraces(theirs.text))),
        toml_(adapter.form == SettingsForm::kToml),
        overrides_(adapter.form == SettingsForm::kOverrides),
        now_(now),
        then_(then) {}

  // `keeps_batch`: writes the global batch out, which the file derives from what changes.
  std::vector<TextEdit> Edits(bool keeps_batch) {
    std::set<std::string> names;
    for (const Setting& setting : now_.settings) names.insert(setting.name);
    for (const Setting& setting : then_.settings) names.insert(setting.name);
    for (const std::string& name : names) {
      if (!IsOfTraining(name)) continue;
      const Setting* before = LastOf(now_, name);
      const Setting* after = LastOf(then_, name);
      const bool written = keeps_batch && after != nullptr && name == adapter_.global_batch;
      if (!written && before != nullptr && after != nullptr && before->values == after->values) continue;
      for (const auto& row : adapter_.spellings) {
        if (std::find(row.begin(), row.end(), name) == row.end()) continue;
        for (const std::string_view other : row) {
          if (other != name && LastOf(then_, other) == nullptr) Remove(other);
        }
      }
      if (after == nullptr) {
        Remove(name);
      } else if (const Setting* theirs = LastOf(theirs_, name); theirs == nullptr) {
        Add(*after);
      } else if (written) {
        Replace(*theirs, *after);
      } else if (theirs->values != after->values &&
                 !(name == adapter_.other_ranks && theirs->values == std::vector<std::string>{"-1"})) {
        Change(*theirs, *after);
      }
    }
    return std::move(edits_);
  }

 private:
  // Not of what starts the ranks.
  bool IsOfTraining(std::string_view name) const {
    return name.find(' ') == std::string_view::npos && (!flags_ || name.starts_with("--"));
  }

  void Replace(const Setting& theirs, const Setting& after) {
    Remove(theirs.name);
    Add(after);
  }
  void Change(const Setting& theirs, const Setting& after) {
    if (theirs.value_at == kNowhere || after.values.size() != 1) return Replace(theirs, after);
    Put({theirs.value_at, theirs.value_end, after.values.front()});
  }

  void Put(TextEdit edit) {
    const bool known = std::any_of(edits_.begin(), edits_.end(), [&](const TextEdit& other) {
      return other.begin == edit.begin && other.end == edit.end && other.with == edit.with &&
             edit.end > edit.begin;
    });
    if (!known) edits_.push_back(std::move(edit));
  }

  // Removes all settings of the name, with their lines if nothing else stands there.
  void Remove(std::string_view name) {
    const std::string_view text = theirs_.text;
    if (!removed_.insert(std::string(name)).second) return;
    for (const Setting& setting : theirs_.settings) {
      if (setting.name != name || setting.at == kNowhere) continue;
      std::size_t begin = setting.at;
      const std::size_t line_end = LineEnd(text, begin);
      std::size_t end = begin + setting.name.size();
      if (!flags_) {
        const std::size_t value_end = setting.value_at == kNowhere ? line_end : setting.value_end;
        end = std::max(end, value_end);
        if (json_ && end < text.size() && text[end] == '"') ++end;
        if (json_ && end < text.size() && text[end] == ',') ++end;
        if (toml_) end = line_end;
      } else {
        end = EndOfFlag(setting, line_end);
      }
      const std::size_t from = LineBegin(text, begin);
      const bool alone_before =
          text.substr(from, begin - from).find_first_not_of(" \t") == std::string_view::npos;
      std::size_t rest = end;
      while (rest < line_end &&
             (text[rest] == ' ' || text[rest] == '\t' || text[rest] == '\\' || text[rest] == '\r'))
        ++rest;
      if (alone_before && rest >= line_end) {
        const bool continues =
            line_end > from && text.substr(from, line_end - from).find('\\') != std::string_view::npos;
        const bool continued =
            from > 1 &&
            text.substr(LineBegin(text, from - 1), from - 1 - LineBegin(text, from - 1)).ends_with('\\');
        // The line before goes on in this one: an empty one ends the command.
        if (flags_ && continued && !continues) {
          Put({from, line_end, ""});
        } else {
          Put({from, std::min(line_end + 1, text.size()), ""});
        }
      } else {
        while (end < line_end && text[end] == ' ') ++end;
        Put({begin, end, ""});
      }
    }
  }

  // The end of a shell word. A quote or parenthesis without a partner in the word ends what it stands in.
  static std::size_t EndOfWord(std::string_view text, std::size_t begin, std::size_t line_end) {
    std::size_t open = 0;
    std::size_t at = begin;
    while (at < line_end && text[at] != ' ' && text[at] != '\t' && text[at] != '\r') {
      const char c = text[at];
      if (c == '"' || c == '\'') {
        const std::size_t close = text.find(c, at + 1);
        const std::size_t blank = text.find_first_of(" \t", at);
        if (close >= line_end || (at != begin && close > blank)) break;
        at = close;
      }
      if (c == ')' && open == 0) break;
      if (c == '(') ++open;
      if (c == ')') --open;
      ++at;
    }
    return at;
  }

  // The end of a flag and of its values on the line: what begins with a dash, or ends the line, follows.
  std::size_t EndOfFlag(const Setting& setting, std::size_t line_end) const {
    const std::string_view text = theirs_.text;
    std::size_t end = setting.at + setting.name.size();
    if (end < line_end && text[end] == '=') return EndOfWord(text, end + 1, line_end);
    for (std::size_t values = setting.values.size(); values > 0; --values) {
      std::size_t next = end;
      while (next < line_end && (text[next] == ' ' || text[next] == '\t')) ++next;
      if (next >= line_end || text[next] == '\\' || text.substr(next).starts_with("--")) break;
      end = EndOfWord(text, next, line_end);
    }
    return end;
  }

  // As our own file writes the setting: "--bf16", "key: value", several lines of a list.
  std::string OwnLines(const Setting& after) const {
    const std::string_view text = then_.text;
    std::size_t end = LineEnd(text, after.at);
    if (toml_ && text.substr(after.at, end - after.at).ends_with('['))
      end = std::min(text.find("\n]", after.at), text.size() - 2) + 2;
    std::string lines(text.substr(after.at, end - after.at));
    if (!flags_ && !toml_ && lines.ends_with(',')) lines.pop_back();
    return lines;
  }

  // Whether the setting says an option of the plan, besides the sizes of batches.
  bool IsOfPlan(std::string_view name) const {
    return name != adapter_.global_batch &&
           std::ranges::any_of(adapter_.saying, [&](const SayingSetting& saying) {
             return saying.setting == name && saying.option != "mbs";
           });
  }

  // The section in which a setting must stand; overrides name theirs.
  std::string_view SectionOfAnchor(std::string_view name) const { return overrides_ ? "" : SectionOf(name); }

  // Adds it before a setting of the same section. Of flags, before the last one of the plan, which may stand
  // in an array of such, else before the last one that our files have.
  void Add(const Setting& after) {
    const std::string_view text = theirs_.text;
    const std::string_view section = SectionOfAnchor(after.name);
    const Setting* anchor = nullptr;
    bool of_plan = false;
    for (const Setting& setting : theirs_.settings) {
      const bool same = SectionOfAnchor(setting.name) == section && setting.at != kNowhere &&
                        !removed_.contains(setting.name);
      const bool ours = IsOfTraining(setting.name) && LastOf(now_, setting.name) != nullptr;
      if (!same || (flags_ && (!ours || (of_plan && !IsOfPlan(setting.name))))) continue;
      anchor = &setting;
      of_plan = IsOfPlan(setting.name);
    }
    const std::string own = OwnLines(after);
    if (anchor == nullptr) {
      if (!section.empty()) AddToNewSection(std::string(section), own);
      return;
    }
    const std::size_t from = LineBegin(text, anchor->at), to = LineEnd(text, anchor->at);
    const std::string_view line = text.substr(from, to - from), indent = IndentOf(text, from);
    const bool begins = from + indent.size() == anchor->at;
    if (!begins) {
      Put({anchor->at, anchor->at, own + (json_ ? ", " : " ")});
      return;
    }
    const bool continued = from > 1 && text[from - 2] == '\\';
    const bool goes_on = (flags_ || overrides_) &&
                         (continued || line.find_last_not_of(" \t\r") != std::string_view::npos) &&
                         (continued || line.substr(0, line.find_last_not_of(" \t\r") + 1).ends_with('\\'));
    Put({from, from, fmt::format("{}{}{}\n", indent, own, goes_on ? " \\" : json_ ? "," : "")});
  }

  // Adds the section with the first of its settings. Of JSON, only a section of the outermost object.
  void AddToNewSection(const std::string& section, const std::string& own) {
    constexpr std::string_view kJsonEnd = "}, ";
    const std::string_view text = theirs_.text;
    const auto known = new_sections_.find(section);
    if (known != new_sections_.end()) {
      std::string& with = edits_[known->second].with;
      if (toml_) with += own + "\n";
      if (json_) with.insert(with.size() - kJsonEnd.size(), ", " + own);
      return;
    }
    const bool nested = section.find('.') != std::string::npos;
    if (toml_) {
      edits_.push_back({theirs_.End(), theirs_.End(), fmt::format("\n[{}]\n{}\n", section, own)});
    } else if (json_ && !nested && !theirs_.settings.empty()) {
      // The first setting stands in the outermost object, or in the first section of it.
      const std::string& first = theirs_.settings.front().name;
      const std::size_t at = text.find(fmt::format("\"{}\"", first.substr(0, first.find('.'))));
      if (at == std::string_view::npos) return;
      edits_.push_back({at, at, fmt::format("\"{}\": {{{}{}", section, own, kJsonEnd)});
    } else {
      return;
    }
    new_sections_[section] = edits_.size() - 1;
  }

  const FrameworkAdapter& adapter_;
  const SettingsText& theirs_;
  const bool flags_, json_, toml_, overrides_;
  const SettingsText& now_;
  const SettingsText& then_;
  std::set<std::string> removed_;
  std::map<std::string, std::size_t> new_sections_;  // the edits that add them
  std::vector<TextEdit> edits_;
};

// Applies the edits; the lines that they are in, before and after.
absl::StatusOr<ChangedFile> Applied(const SettingsText& settings, std::vector<TextEdit> edits) {
  const std::string& text = settings.text;
  std::stable_sort(edits.begin(), edits.end(), [](const TextEdit& a, const TextEdit& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  ChangedFile changed;
  std::size_t done = 0;
  for (std::size_t i = 0; i < edits.size();) {
    const std::size_t from = LineBegin(text, edits[i].begin);
    std::size_t to = LineEnd(
        text, std::max(edits[i].begin, edits[i].end == edits[i].begin ? edits[i].end : edits[i].end - 1));
    changed.text += text.substr(done, from - done);
    std::string line;
    std::size_t at = from;
    bool whole = false;
    for (; i < edits.size() && edits[i].begin <= to; ++i) {
      if (edits[i].begin < at) return absl::FailedPreconditionError("settings that share a place change");
      line += text.substr(at, edits[i].begin - at) + edits[i].with;
      at = edits[i].end;
      whole = whole || (edits[i].end > to && edits[i].with.empty());
      if (edits[i].end > to + 1) to = LineEnd(text, edits[i].end - 1);
      if (whole) break;
    }
    if (whole) ++i;
    if (!whole) line += text.substr(at, to - at);
    // All options of a line that goes on are gone.
    if (settings.flags_are_present && !whole && to < text.size() && line.find('\\') != std::string::npos &&
        line.find_first_not_of(" \t\\\r") == std::string::npos) {
      whole = true;
      line.clear();
      at = to + 1;
    }
    done = whole ? at : to;
    changed.text += line;
    ChangedLine& entry = changed.lines.emplace_back(ChangedLine{.line = settings.Line(from)});
    const std::string before = text.substr(from, to - from);
    std::string rest = line;
    std::vector<std::string> after;
    if (!whole || !rest.empty()) {
      for (std::size_t cut = rest.find('\n'); cut != std::string::npos; cut = rest.find('\n')) {
        after.push_back(rest.substr(0, cut));
        rest.erase(0, cut + 1);
      }
      if (!whole || !rest.empty()) after.push_back(rest);
    }
    const bool added = !after.empty() && after.back() == before && after.size() > 1;
    if (added) after.pop_back();
    if (!added) entry.before = before;
    entry.after = std::move(after);
  }
  changed.text += text.substr(done);
  return changed;
}

// Returns whether a text says the plan, for the same model, batch and ranks.
bool FileSays(const std::string& text, const FrameworkRun& run, const FrameworkAdapter& adapter,
              ParallelPlan plan, const ReadingOptions& options) {
  const auto read = ReadFrameworkFile(run.framework, run.settings.file, text, options);
  if (!read.ok()) return false;
  for (const PlanOption& option : PlanOptions()) {
    if (adapter.script_says(option.name, plan)) option.copy(read->plan, plan);
  }
  ModelSpec model = run.model;
  if (adapter.has_padded_vocab && PaddedVocab(read->model, plan.tp) == PaddedVocab(model, plan.tp))
    model.vocab = read->model.vocab;
  return read->plan == plan && read->workload == run.workload && read->ranks == run.ranks &&
         read->model == model;
}

// Returns the options without those of the plan that change: then the file, or its script, says them.
ReadingOptions StillSaid(ReadingOptions options, const ParallelPlan& before, const ParallelPlan& after) {
  for (const PlanOption& option : PlanOptions()) {
    if (!option.equal(before, after)) options.plan.erase(std::string(option.name));
  }
  return options;
}

}  // namespace

absl::StatusOr<ChangedFile> ChangePlan(const FrameworkRun& run, const ParallelPlan& plan,
                                       const ReadingOptions& options) {
  const FrameworkAdapter& adapter = *FindFrameworkAdapter(run.framework);
  if (run.settings.is_log) {
    return absl::FailedPreconditionError(fmt::format(
        "{} is a log, which changes nothing; write a new file with autocfg export", run.settings.file));
  }
  ExportedRun exported;
  AUTOCFG_ASSIGN_OR_RETURN(exported.cluster.engine, EngineNamed(run.engine));
  exported.model = run.model;
  exported.workload = run.workload;
  // No exporter writes it. It is the same before and after, so the lines that say it stay.
  exported.workload.precision.products = ProductFormat::kCompute;
  Launch launch;
  std::vector<std::string> translated;
  const auto settings_of = [&](const ParallelPlan& of) -> absl::StatusOr<SettingsText> {
    exported.plan = of;
    if (adapter.script_says("recompute", of)) exported.plan.recompute = Recompute::kNone;
    AUTOCFG_ASSIGN_OR_RETURN(const auto file, Export(exported, adapter.target));
    launch = file.launch;
    translated = file.translated;
    return ReadSettings(run.framework, run.framework, file.text);
  };
  AUTOCFG_ASSIGN_OR_RETURN(const auto now, settings_of(run.plan));
  const auto environment = launch.environment;
  const std::vector<std::string> said = translated;
  AUTOCFG_ASSIGN_OR_RETURN(const auto then, settings_of(plan));
  ParallelPlan wanted = Canonical(plan);
  if (wanted.tp_overlap > 1) wanted.tp_overlap = kChunksOfSwitch;
  for (const bool keeps_batch : {false, true}) {
    auto changed = Applied(run.settings, PlanEditor(adapter, run.settings, now, then).Edits(keeps_batch));
    if (!changed.ok() || !FileSays(changed->text, run, adapter, wanted, StillSaid(options, run.plan, wanted)))
      continue;
    for (const auto& variable : launch.environment) {
      if (std::find(environment.begin(), environment.end(), variable) == environment.end())
        changed->besides.push_back(fmt::format("set {}={}", variable.first, variable.second));
    }
    for (const auto& variable : environment) {
      const bool kept = std::find(launch.environment.begin(), launch.environment.end(), variable) !=
                        launch.environment.end();
      if (!kept && LastOf(then, adapter.refuses_environment) != nullptr)
        changed->besides.push_back(fmt::format("do not set {}", variable.first));
    }
    if (adapter.script_says("recompute", plan) && RecomputeText(plan) != RecomputeText(run.plan)) {
      changed->besides.push_back(fmt::format("in your script, recompute={} in place of recompute={}",
                                             RecomputeText(plan), RecomputeText(run.plan)));
    }
    for (const std::string& what : translated) {
      if (std::find(said.begin(), said.end(), what) == said.end()) changed->besides.push_back(what);
    }
    return changed;
  }
  return absl::FailedPreconditionError(
      fmt::format("no change of single lines of {} makes it say this plan{}", run.settings.file,
                  adapter.exported ? "; write a new file with autocfg export" : ""));
}

}  // namespace autocfg
