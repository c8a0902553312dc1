# Writes OUTPUT, a header with the build's identity. Runs at every build and touches the file only when the identity changes.
#
#   AUTOCFG_VERSION   the nearest tag vX.Y.Z of SOURCE, without its v. FALLBACK, the version of project(), if SOURCE is not the
#                     top of a git checkout or has no such tag (release archives, shallow clones).
#   AUTOCFG_REVISION  the commit, with "-dirty" if tracked files have changes; "unknown" outside of git.

# autocfg_version(VARIABLE SOURCE FALLBACK): sets VARIABLE to the version as described above.
function(autocfg_version variable source fallback)
  set(${variable} "${fallback}" PARENT_SCOPE)
  find_program(GIT git)
  if(NOT GIT)
    return()
  endif()
  # An archive unpacked inside another checkout must not take that one's tags.
  execute_process(
    COMMAND "${GIT}" -c "safe.directory=*" -C "${source}" rev-parse --show-prefix
    OUTPUT_VARIABLE prefix RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed OR prefix)
    return()
  endif()
  execute_process(
    COMMAND "${GIT}" -c "safe.directory=*" -C "${source}" describe --tags --abbrev=0 --match "v[0-9]*.[0-9]*.[0-9]*" --exclude "*-*"
    OUTPUT_VARIABLE tag RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND tag MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)$")
    set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
  endif()
endfunction()

# autocfg_revision(VARIABLE SOURCE): sets VARIABLE to the revision as described above.
function(autocfg_revision variable source)
  set(${variable} "unknown" PARENT_SCOPE)
  find_program(GIT git)
  if(NOT GIT)
    return()
  endif()
  # Never a tag's name: what is built is known by its commit.
  execute_process(
    COMMAND "${GIT}" -c "safe.directory=*" -C "${source}" describe --always --dirty --abbrev=12 --exclude "*"
    OUTPUT_VARIABLE described RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(NOT failed AND described)
    set(${variable} "${described}" PARENT_SCOPE)
  endif()
endfunction()

autocfg_version(version "${SOURCE}" "${FALLBACK}")
autocfg_revision(revision "${SOURCE}")
set(text "// Generated at build time; do not edit.\n#pragma once\n")
string(APPEND text "#define AUTOCFG_VERSION \"${version}\"\n#define AUTOCFG_REVISION \"${revision}\"\n")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
