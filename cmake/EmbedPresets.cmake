# Writes OUTPUT, a C++ file that contains every ROOT/KIND/NAME.json as a string; see
# search/text/presets.h.
file(GLOB files "${ROOT}/*/*.json")
list(TRANSFORM files REPLACE "\\.json$" "")  # so that a name is before those that it begins
list(SORT files)
set(body "// Generated from search/data; do not edit.\n#include \"search/text/presets.h\"\n\n")
string(APPEND body "namespace autocfg {\n\nstd::span<const EmbeddedPreset> EmbeddedPresets() {\n")
string(APPEND body "  static constexpr EmbeddedPreset kPresets[] = {\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  get_filename_component(kind "${file}" DIRECTORY)
  get_filename_component(kind "${kind}" NAME)
  file(READ "${file}.json" text)
  string(APPEND body "      {\"${kind}\", \"${name}\", R\"json(${text})json\"},\n")
endforeach()
string(APPEND body "  };\n  return kPresets;\n}\n\n}  // namespace autocfg\n")
file(WRITE "${OUTPUT}" "${body}")
