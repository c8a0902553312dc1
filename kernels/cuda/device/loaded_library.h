// A shared library that is opened at run time, and lookup of its functions by name. The engine therefore
// loads on machines without the library. Thread-safe.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

namespace autocfg::cuda {

// Describes what is missing, in a few words that start with the library's name and have no full stop.
struct LibraryMissing : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Returns `value`, the library that an environment variable names, or `usual` if the variable is unset (null)
// or empty.
std::string LibraryName(const char* value, const char* usual);

// A source of functions: a library, or a substitute in tests.
class SymbolSource {
 public:
  virtual ~SymbolSource() = default;
  virtual const std::string& name() const = 0;
  // Returns null if there is no such function.
  virtual void* Find(const char* symbol) const = 0;
};

// Throws LibraryMissing, with the dynamic loader's message, if the library cannot be opened. The destructor
// closes the library unless Stay was called.
class LoadedLibrary final : public SymbolSource {
 public:
  explicit LoadedLibrary(std::string name);
  const std::string& name() const override { return name_; }
  void* Find(const char* symbol) const override;
  // Keeps the library open until the process ends, because its objects may outlive any owner.
  void Stay() noexcept;

 private:
  struct Close {
    void operator()(void* library) const;
  };
  std::string name_;
  std::unique_ptr<void, Close> library_;
};

// Sets `function` to the function of this name. Throws LibraryMissing, naming it, if there is none.
template <typename Function>
void FindFunction(const SymbolSource& source, const char* symbol, Function*& function) {
  function = reinterpret_cast<Function*>(source.Find(symbol));
  if (function == nullptr) throw LibraryMissing(source.name() + " has no " + symbol);
}

}  // namespace autocfg::cuda
