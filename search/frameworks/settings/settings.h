// The settings of a framework's file, whatever its form: names with values, and where they stand. Plain
// values; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace autocfg {

inline constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
// The largest whole number that a file may give.
inline constexpr std::int64_t kMostSize = (std::int64_t{1} << 31) - 1;

// Returns the part of a name after its last dot: what a line of its section has.
constexpr std::string_view LastPart(std::string_view name) { return name.substr(name.rfind('.') + 1); }

// Returns whether `names`, which have blanks between them, has the name; one that ends in '*' stands for all
// that begin so.
bool IsNamedBy(const char* names, std::string_view name);

struct Setting {
  std::string name;                 // "--micro-batch-size", "model.micro_batch_size"
  std::vector<std::string> values;  // none of a flag; several of a list
  std::string unknown = {};  // why the value cannot be known: "$(nproc) is not run"; empty: it is known
  std::size_t at = 0;        // where the name stands in the text; kNowhere: it is said at launch
  // The part of the text that holds the only value, without quotes. Of a variable, where it was set.
  // kNowhere: the text has the value in another form or in several places, or leaves it empty.
  std::size_t value_at = kNowhere;
  std::size_t value_end = kNowhere;
  bool quoted = false;  // a text, in a form that tells it from a number
  // Where it stands if that is another file, which the script writes or names: "ds.json:3".
  std::string place = {};
};

// Returns whether the value says that the setting does nothing: false, none, 0, and 1 if `one_is_off`.
bool IsOff(const Setting& setting, bool one_is_off);

struct LaunchWord {
  std::string text;
  std::string unknown = {};  // as of a setting
};

// A further file of a run.
struct LaunchFile {
  std::string name;  // for messages
  std::string text;
};

// What is said where a file or a script is launched, and what lies beside it.
struct LaunchWords {
  std::vector<LaunchWord> arguments = {};             // behind it: "--bf16", "trainer.num_nodes=4"
  std::map<std::string, std::string> variables = {};  // of a script's environment
  std::vector<LaunchFile> files = {};  // of the same form, of a framework whose runs may be several files
  // Returns the text of a file that lies beside the script; nothing if there is none. Null: there are none.
  std::function<std::optional<std::string>(const std::string& path)> beside = {};
};

// A file that an option names, as the script writes it or as it lies beside the script.
struct NamedText {
  std::string option;
  std::string file;                        // its name, as far as it is known
  std::optional<std::string> text = {};    // nothing: it cannot be known
  std::vector<std::string> unknowns = {};  // why parts of it cannot be known (kUnknownMark)
};
// Begins a value of a NamedText that cannot be known; the index of its reason follows.
inline constexpr std::string_view kUnknownMark = "\uf8ff";

struct SettingsText {
  std::string file;  // its name, for messages
  std::string text;
  std::size_t end = kNowhere;      // of the framework's file in the text; kNowhere: it is the whole text
  std::vector<Setting> settings;   // in the order of the file; the last of a name counts
  bool flags_are_present = false;  // a flag has no value: it is on if it is there
  bool is_log = false;             // a program printed the settings: no line of the text changes them
  std::vector<std::string> notes = {};
  std::vector<NamedText> named = {};  // files of settings that options name

  // Returns the number of the line, from 1 on; "train.sh:12", "train.sh as launched" of kNowhere.
  std::int64_t Line(std::size_t at) const;
  std::string Place(std::size_t at) const;
  std::string Place(const Setting& setting) const;
  // Whether the setting is an option without a value: it is on if it is there.
  bool IsFlag(const Setting& setting) const { return flags_are_present && setting.name.starts_with("--"); }
  std::size_t End() const { return end == kNowhere ? text.size() : end; }
};

// Looks settings up by name, with checked types. Keeps the first error, and skips all reads after it.
class SettingReader {
 public:
  // Refers to `text`.
  explicit SettingReader(const SettingsText& text) : text_(text) {}

  // Returns the setting; null if the file lacks it, or says null. Its value may be unknown.
  const Setting* Find(std::string_view name);
  // Returns the setting if its value is known. An unknown value is an error.
  const Setting* Known(std::string_view name);
  bool Has(std::string_view name) { return Find(name) != nullptr; }

  // Return the default if the file lacks it. A wrong type or range is an error.
  std::int64_t Whole(std::string_view name, std::int64_t otherwise, std::int64_t least = 1,
                     std::int64_t most = kMostSize);
  double Real(std::string_view name, double otherwise);
  bool Flag(std::string_view name, bool otherwise = false);
  std::string Text(std::string_view name, std::string_view otherwise = "");
  // As Whole, but the file must have it.
  std::int64_t Required(std::string_view name);

  // Refuses what autocfg does not model: a setting that is there and on, or a size above 1. `why` follows the
  // name: "experts are not modelled". One expert is none.
  void RefuseIfOn(std::string_view name, std::string_view why);
  void RefuseAboveOne(std::string_view name, std::string_view why);

  void Fail(const Setting& setting, std::string_view problem);  // "train.sh:12: --bf16 ..."
  void Fail(std::string_view problem);                          // "train.sh: ..."
  // Refuses a setting that contradicts another. `what` ends the message: "; leave one of them".
  void FailAgainst(const Setting& setting, const Setting& other, std::string_view what);
  // Refuses a setting whose name is nearly that of the missing one; without one, says the problem.
  void FailMissing(std::string_view name, std::string_view problem);
  void Note(std::string note) { notes_.push_back(std::move(note)); }
  void NoteOf(const Setting& setting, std::string_view what);

  bool ok() const { return status_.ok(); }
  const absl::Status& status() const { return status_; }
  const std::vector<std::string>& notes() const { return notes_; }
  // Notes flags that were asked for and stand twice with different values: the last one counts.
  void NoteRepeated();
  // Refuses a setting that nobody asked for and whose name is nearly one that was. Returns all that nobody
  // asked for.
  std::vector<const Setting*> FinishNames();

  const SettingsText& text() const { return text_; }

 private:
  bool IsBeforeUnknown(const Setting& flag) const;
  const Setting* Misspelt(std::string_view name) const;

  const SettingsText& text_;
  absl::Status status_ = absl::OkStatus();
  std::vector<std::string> notes_, asked_;
};

}  // namespace autocfg
