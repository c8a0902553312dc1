# Which version and revision a build gets from git. Run with cmake -P:
#   SOURCE    the source tree      VERSION   project()'s version, which builds without tags get
find_program(GIT git REQUIRED)
string(RANDOM LENGTH 12 unique)
set(scratch "${CMAKE_CURRENT_BINARY_DIR}/build_id_test_${unique}")
# The build directory often lies in a checkout, which is not to be found from there.
set(ENV{GIT_CEILING_DIRECTORIES} "${scratch}")
unset(ENV{GIT_DIR})

function(git directory)
  execute_process(
    COMMAND "${GIT}" -C "${directory}" -c user.name=test -c user.email=test@example.com -c commit.gpgsign=false -c tag.gpgsign=false ${ARGN}
    RESULT_VARIABLE failed OUTPUT_VARIABLE output ERROR_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE)
  if(failed)
    file(REMOVE_RECURSE "${scratch}")
    message(FATAL_ERROR "git ${ARGN}: ${output}")
  endif()
  set(git_output "${output}" PARENT_SCOPE)
endfunction()

# expect(CASE SOURCE_DIRECTORY VERSION REVISION_REGEX PACKAGE_VERSION_REGEX): what the header of a build there holds.
function(expect case directory version revision package)
  set(header "${scratch}/header.h")
  execute_process(
    COMMAND "${CMAKE_COMMAND}" "-DOUTPUT=${header}" "-DSOURCE=${directory}" -DFALLBACK=7.8.9 -P "${SOURCE}/cmake/BuildId.cmake"
    RESULT_VARIABLE failed)
  file(READ "${header}" text)
  file(REMOVE "${header}")
  if(failed OR NOT text MATCHES "#define AUTOCFG_VERSION \"${version}\"\n#define AUTOCFG_REVISION \"${revision}\"\n#define AUTOCFG_PACKAGE_VERSION \"${package}\"\n")
    message(SEND_ERROR "${case}: expected version ${version}, revision ${revision}, package ${package}; the header is\n${text}")
  endif()
endfunction()

set(repository "${scratch}/repository")
set(commit "[0-9a-f]+")
file(MAKE_DIRECTORY "${repository}/inner")
expect("no git" "${repository}" "7\\.8\\.9" "unknown" "7\\.8\\.9")
git("${repository}" init -q)
file(WRITE "${repository}/inner/file" "1")
git("${repository}" add .)
git("${repository}" commit -qm first)
expect("no tag" "${repository}" "7\\.8\\.9" "${commit}" "7\\.8\\.9~1\\.g${commit}")
git("${repository}" tag v1.2.3)
expect("a tag" "${repository}" "1\\.2\\.3" "${commit}" "1\\.2\\.3")
git("${repository}" commit -qm second --allow-empty)
git("${repository}" tag -a -m release v1.10.0)
git("${repository}" commit -qm third --allow-empty)
expect("commits after an annotated tag" "${repository}" "1\\.10\\.0" "${commit}" "1\\.10\\.0\\+1\\.g${commit}")
git("${repository}" tag v2.0.0-rc1)
git("${repository}" tag v2)
git("${repository}" tag nightly)
expect("tags of another form" "${repository}" "1\\.10\\.0" "${commit}" "1\\.10\\.0\\+1\\.g${commit}")
expect("inside another checkout" "${repository}/inner" "7\\.8\\.9" "${commit}" "7\\.8\\.9.*")
file(WRITE "${repository}/inner/file" "2")
expect("uncommitted changes" "${repository}" "1\\.10\\.0" "${commit}-dirty" "1\\.10\\.0\\+1\\.g${commit}\\.dirty")
file(REMOVE_RECURSE "${scratch}")

# A release sets project()'s version and the tag alike: an archive of it has no tags.
execute_process(
  COMMAND "${GIT}" -c "safe.directory=*" -C "${SOURCE}" describe --tags --abbrev=0 --match "v[0-9]*.[0-9]*.[0-9]*" --exclude "*-*"
  OUTPUT_VARIABLE tag RESULT_VARIABLE failed ERROR_QUIET OUTPUT_STRIP_TRAILING_WHITESPACE)
if(NOT failed AND tag MATCHES "^v([0-9]+\\.[0-9]+\\.[0-9]+)$" AND VERSION VERSION_LESS CMAKE_MATCH_1)
  message(SEND_ERROR "project() in CMakeLists.txt has version ${VERSION}, older than the tag ${tag}; set it to ${CMAKE_MATCH_1}")
endif()
