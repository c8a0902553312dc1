# Writes OUTPUT, a C++ file that contains every file of FILES (separated by '|') as a string, named as the file;
# see server/report/report_page.h.
string(REPLACE "|" ";" files "${FILES}")
set(body "// Generated from server/report/page and Chart.js; do not edit.\n#include <stdexcept>\n#include <string>\n\n")
string(APPEND body "#include \"server/report/report_page.h\"\n\n")
string(APPEND body "namespace autocfg::server {\n\nstd::string_view EmbeddedPage(std::string_view name) {\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  file(READ "${file}" text)
  string(APPEND body "  if (name == \"${name}\") return R\"embedded(${text})embedded\";\n")
endforeach()
string(APPEND body "  throw std::logic_error(\"no such page: \" + std::string(name));\n}\n\n}  // namespace autocfg::server\n")
file(WRITE "${OUTPUT}" "${body}")
