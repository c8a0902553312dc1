# Writes OUTPUT, a header with the build's identity: the project's VERSION and, if SOURCE is a git checkout,
# the output of `git describe` there (else "unknown"). Runs at every build; the file changes only if the
# identity does.
set(revision "unknown")
find_program(GIT git)
if(GIT)
  execute_process(
    COMMAND "${GIT}" -c "safe.directory=*" -C "${SOURCE}" describe --always --dirty --abbrev=12
    OUTPUT_VARIABLE described RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND described)
    set(revision "${described}")
  endif()
endif()
set(text "// Generated at build time; do not edit.\n#pragma once\n")
string(APPEND text "#define AUTOCFG_VERSION \"${VERSION}\"\n#define AUTOCFG_REVISION \"${revision}\"\n")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
