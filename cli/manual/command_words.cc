#include "cli/manual/command_words.h"

#include <algorithm>

#include "fmt/format.h"
#include "search/plan/plan_options.h"
#include "search/text/cluster_json.h"
#include "search/text/model_json.h"

namespace autocfg::cli {

std::vector<Word> VerbWords(const CLI::App& app) {
  std::vector<Word> verbs;
  for (const CLI::App* verb : app.get_subcommands(nullptr))
    verbs.push_back({.text = verb->get_name(), .about = verb->get_description()});
  return verbs;
}

std::vector<Word> WordsOf(const CLI::App& verb) {
  std::vector<Word> words;
  const auto add = [&words](Word word) {
    const bool known =
        std::any_of(words.begin(), words.end(), [&](const Word& each) { return each.text == word.text; });
    if (!known) words.push_back(std::move(word));
  };
  for (Word& below : VerbWords(verb)) add(std::move(below));
  for (const CLI::Option* option : verb.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      add({.text = "--" + name,
           .about = option->get_description(),
           .takes_value = option->get_items_expected_max() > 0});
    }
  }
  for (const CLI::App* below : verb.get_subcommands(nullptr)) {
    for (Word& word : WordsOf(*below)) add(std::move(word));
  }
  return words;
}

std::vector<std::string> ModelWords() { return ModelPresetNames(); }

std::vector<std::string> ClusterWords() {
  std::vector<std::string> words = DevicePresetNames();
  words.insert(words.begin(), "local");
  return words;
}

std::vector<std::string> PlanWords() {
  std::vector<std::string> words;
  for (const PlanOption& option : PlanOptions()) {
    if (option.choices.empty()) words.push_back(fmt::format("{}=", option.name));
    for (const std::string_view choice : option.choices) {
      const std::size_t fixed = StandsForMany(choice) ? choice.find(':') + 1 : choice.size();
      words.push_back(fmt::format("{}={}", option.name, choice.substr(0, fixed)));
    }
  }
  return words;
}

}  // namespace autocfg::cli
