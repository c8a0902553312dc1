// The files that a bash script writes, as far as they are known without running it: the text of `cat`, `echo`
// and here-documents, and templates that `sed` fills in. Plain values; not thread-safe.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "search/frameworks/shell/shell_words.h"

namespace autocfg {

// Returns the text of a file that lies beside the script; nothing if there is none.
using FileReader = std::function<std::optional<std::string>(const std::string& path)>;

// Returns what names a file: the text of the word, with a mark for each part that cannot be known.
std::string FileKeyOf(const ShellWord& path);

// The text that the commands of a script may make in all; what is beyond cannot be known.
inline constexpr std::size_t kMostFileText = std::size_t{4} << 20;

class ShellFiles {
 public:
  explicit ShellFiles(FileReader beside = {}) : beside_(std::move(beside)) {}

  // How a command writes its output.
  struct Writing {
    bool append = false;   // >>
    bool perhaps = false;  // under a condition or in a loop
  };

  // Returns what a command prints, if it is `cat`, `echo` or `sed`; nothing if it cannot be known. `input`:
  // what the command before a '|' prints.
  std::optional<ShellWord> OutputOf(const std::vector<ShellWord>& words,
                                    const std::optional<ShellWord>& input);

  // Writes a file; nothing: its text cannot be known.
  void Write(const ShellWord& path, std::optional<ShellWord> text, Writing how);

  // Returns the text of a file: as the script wrote it, else as it lies beside the script. Nothing: there is
  // none, or its text cannot be known. `path` is its name as far as that is known.
  std::optional<ShellWord> Read(const std::string& key, const std::string& path) const;
  // Returns whether the script writes the file, known or not.
  bool Writes(const std::string& key) const { return written_.contains(key); }

 private:
  std::optional<ShellWord> Read(const ShellWord& path) const { return Read(FileKeyOf(path), TextOf(path)); }
  std::optional<ShellWord> Concatenated(const std::vector<ShellWord>& paths,
                                        const std::optional<ShellWord>& input);
  std::optional<ShellWord> Edited(const std::vector<ShellWord>& words, const std::optional<ShellWord>& input);

  // Counts a text that a command made; nothing above kMostFileText.
  std::optional<ShellWord> Counted(std::optional<ShellWord> text);

  FileReader beside_;
  std::size_t made_ = 0;
  std::map<std::string, std::optional<ShellWord>> written_;  // by FileKeyOf
};

}  // namespace autocfg
