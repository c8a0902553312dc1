# Writes OUTPUT, a header with the build's identity. Runs at every build and touches the file only when the identity changes.
#
#   AUTOCFG_VERSION   the nearest tag vX.Y.Z of SOURCE, without its v. FALLBACK, the version of project(), if SOURCE is not the
#                     top of a git checkout or has no such tag (release archives, shallow clones).
#   AUTOCFG_REVISION  the commit, with "-dirty" if tracked files have changes; "unknown" outside of git.
#   AUTOCFG_PACKAGE_VERSION  of packages, in Debian's order: at a tag, the version; N commits after it, VERSION+N.gCOMMIT; without tags,
#                     VERSION~N.gCOMMIT, which is older than VERSION; outside of git, the version. ".dirty" as above.

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

# autocfg_package_version(VARIABLE SOURCE VERSION REVISION): sets VARIABLE to the version of packages as described above.
function(autocfg_package_version variable source version revision)
  set(${variable} "${version}" PARENT_SCOPE)
  if(revision STREQUAL "unknown")
    return()
  endif()
  find_program(GIT git)
  set(git "${GIT}" -c "safe.directory=*" -C "${source}")
  execute_process(COMMAND ${git} rev-list --count "v${version}..HEAD" OUTPUT_VARIABLE count RESULT_VARIABLE untagged
                  ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(mark "+")
  if(untagged)
    execute_process(COMMAND ${git} rev-list --count HEAD OUTPUT_VARIABLE count ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
    set(mark "~")
  endif()
  string(REGEX REPLACE "-dirty$" ".dirty" commit "${revision}")
  if(untagged OR NOT count STREQUAL "0")
    string(APPEND version "${mark}${count}.g${commit}")
  elseif(commit MATCHES "\\.dirty$")
    string(APPEND version "+dirty")
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

autocfg_version(version "${SOURCE}" "${FALLBACK}")
autocfg_revision(revision "${SOURCE}")
autocfg_package_version(package_version "${SOURCE}" "${version}" "${revision}")
set(text "// Generated at build time; do not edit.\n#pragma once\n")
string(APPEND text "#define AUTOCFG_VERSION \"${version}\"\n#define AUTOCFG_REVISION \"${revision}\"\n")
string(APPEND text "#define AUTOCFG_PACKAGE_VERSION \"${package_version}\"\n")
set(before "")
if(EXISTS "${OUTPUT}")
  file(READ "${OUTPUT}" before)
endif()
if(NOT before STREQUAL text)
  file(WRITE "${OUTPUT}" "${text}")
endif()
