// A shared library that is opened at run time, so that the engine loads where it is missing, and its
// functions, by their names. Thread-safe.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace autocfg::cuda {

// What is missing, in a few words that open with the library's name and have no end of a sentence.
struct LibraryMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The library that a variable of the environment names by its value; where it is not set (null), or empty,
// `usual`.
std::string LibraryName(const char* value, const char* usual);

// Where functions are: of a library, or in tests of no library at all.
class SymbolSource {
 public:
  virtual ~SymbolSource() = default;
  virtual const std::string& name() const = 0;
  // Null where there is none.
  virtual void* Find(const char* symbol) const = 0;
};

// Throws LibraryMissing, with the dynamic loader's own words, where it cannot be opened. It is closed with
// the object, but for what Stay has been asked for.
class LoadedLibrary final : public SymbolSource {
 public:
  explicit LoadedLibrary(std::string name);
  const std::string& name() const override { return name_; }
  void* Find(const char* symbol) const override;
  // Keeps it open until the process ends: what it made may outlive any owner.
  void Stay() noexcept;

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::string name_;
  std::unique_ptr<void, Close> library_;
};

// Sets `function` to the one of this name; throws LibraryMissing, which names it, where there is none.
template <typename Function>
void FindFunction(const SymbolSource& source, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(source.Find(symbol));
  if (function == nullptr) throw LibraryMissing(source.name() + " has no " + symbol);
}

}  // namespace autocfg::cuda
