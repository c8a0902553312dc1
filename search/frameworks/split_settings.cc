#include "search/frameworks/split_settings.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "fmt/format.h"

namespace autocfg {
namespace {

// With '-' in them. A name has one of these anywhere.
constexpr char kWordsOfSplitting[] =
    "parallel pipeline shard fsdp offload recompute checkpoint-activations overlap expert "
    "microbatch micro-batch activations-checkpoint stage dp-mapping activation-checkpoint "
    "ac-granularity saved-activations ulysses hsdp checkpoint-num-layers bubble zbv- zb-runtime "
    "dualpipe zero-mode remat ring-attention sparse-attention swap-attention -degree tp-size "
    "pp-size dp-size schedules-method";

// Short words, of which a name has one between two '-' or '.'.
constexpr std::string_view kShortWords[] = {"tp", "pp", "dp", "cp", "ep", "sp", "mp", "noop"};

const HarmlessSetting* FindHarmless(std::span<const HarmlessSetting> table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const HarmlessSetting& harmless) {
    return IsNamedBy(harmless.names, name);
  });
  return found == table.end() ? nullptr : &*found;
}

bool HasShortWord(const std::string& words) {
  const std::vector<std::string> all = absl::StrSplit(words, absl::ByAnyChar("-."));
  return std::find_first_of(all.begin(), all.end(), std::begin(kShortWords), std::end(kShortWords)) !=
         all.end();
}

// A size of 1 splits nothing.
bool IsSize(const std::string& name) {
  return name.ends_with("size") || name.ends_with("degree") ||
         HasShortWord(name.substr(name.find_last_of("-.") + 1));
}

}  // namespace

bool SpeaksOfSplitting(std::string_view name) {
  std::string words(name);
  std::replace(words.begin(), words.end(), '_', '-');
  for (const auto word : absl::StrSplit(kWordsOfSplitting, ' ')) {
    if (absl::StrContains(words, word)) return true;
  }
  return HasShortWord(words);
}

void RefuseUnreadSplits(std::span<const HarmlessSetting> table, const std::vector<const Setting*>& unread,
                        SettingReader& read) {
  for (const Setting* setting : unread) {
    const HarmlessSetting* harmless = FindHarmless(table, setting->name);
    const bool noted = harmless != nullptr && harmless->noted;
    if ((!SpeaksOfSplitting(setting->name) && !noted) || IsOff(*setting, IsSize(setting->name))) continue;
    if (harmless != nullptr && harmless->why == kSaysDefault) {
      const std::string positive = absl::StrCat("--", setting->name.substr(std::string_view("--no-").size()));
      if (const Setting* on = read.Find(positive)) read.FailAgainst(*setting, *on, "; leave one of them");
      continue;
    }
    if (harmless == nullptr) {
      const std::string perhaps = setting->unknown.empty() ? "" : fmt::format(" ({})", setting->unknown);
      read.Fail(*setting, fmt::format("is unknown to autocfg, and by its name it may change how the work is "
                                      "split{}; leave it out to predict without it",
                                      perhaps));
    } else if (noted) {
      read.NoteOf(*setting, harmless->why);
    }
  }
}

}  // namespace autocfg
