# Flags and functions shared by all directories of the project.

set(AUTOCFG_WARNINGS -Wall -Wextra)
if(AUTOCFG_WERROR)
  list(APPEND AUTOCFG_WARNINGS -Werror)
endif()

# What sources include and the build makes: all that clang-tidy needs of a build.
add_custom_target(generated_sources)
# The programs of the tests labelled unit, and what those run.
add_custom_target(unit_tests)
# And those of the label sanitized.
add_custom_target(sanitized_tests)
add_dependencies(sanitized_tests unit_tests)
# Those of the label threads.
add_custom_target(threads_tests)

add_library(autocfg_flags INTERFACE)
target_include_directories(autocfg_flags INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}")
target_compile_options(autocfg_flags INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:${AUTOCFG_WARNINGS}>" "$<$<COMPILE_LANGUAGE:CXX>:-march=x86-64-v3>")
if(AUTOCFG_SANITIZE)
  list(JOIN AUTOCFG_SANITIZE "," sanitizers)
  set(sanitizer -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(autocfg_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitizer}>")
  target_link_options(autocfg_flags INTERFACE -fsanitize=${sanitizers})
endif()
if(AUTOCFG_SANITIZE STREQUAL "thread")
  # These objects make absl's mutexes visible to ThreadSanitizer and hide gRPC's core from it. They come first
  # on the link line.
  add_library(autocfg_tsan OBJECT
    "${CMAKE_CURRENT_LIST_DIR}/tsan/absl_mutex.cc" "${CMAKE_CURRENT_LIST_DIR}/tsan/grpc_batch.cc"
    "${CMAKE_CURRENT_LIST_DIR}/tsan/options.cc")
  target_compile_options(autocfg_tsan PRIVATE ${AUTOCFG_WARNINGS} ${sanitizer})
  set(program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
  target_link_options(autocfg_flags INTERFACE "$<${program}:$<TARGET_OBJECTS:autocfg_tsan>>")
  target_link_libraries(autocfg_flags INTERFACE absl::synchronization absl::time)
  set_property(TARGET autocfg_flags PROPERTY INTERFACE_LINK_DEPENDS "$<TARGET_OBJECTS:autocfg_tsan>")
endif()

# nvcc's replacement for these flags: the host compiler's warnings, except those that its generated code
# causes.
list(JOIN AUTOCFG_WARNINGS "," cuda_host_warnings)
add_library(autocfg_cuda_flags INTERFACE)
target_compile_options(autocfg_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_host_warnings}> $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>
  $<$<COMPILE_LANGUAGE:CUDA>:-lineinfo>)  # compute-sanitizer names the line

# Most of the time of a build goes to parsing the same headers (gRPC, CLI11, JSON, gtest) and compiling their templates once per source.
# With AUTOCFG_UNITY the sources of a library or test program are compiled in batches, which costs less than half the CPU time. A change
# then recompiles a batch instead of a file. The release preset sets it. The others do not: their edits compile one file, and they show
# that each source compiles alone, as ./dev lint does.
option(AUTOCFG_UNITY "Compile the sources of a library or test program in batches" OFF)
# Most sources of a library in a batch: smaller batches use more cores and less memory, larger ones less CPU time. It is no option, so that
# names that meet in a batch meet on every machine.
set(AUTOCFG_UNITY_BATCH 48)

# autocfg_unity(TARGET MOST): compiles its sources in batches of equal size, MOST or less, if AUTOCFG_UNITY is on. Sources with the property
# AUTOCFG_ALONE, and those that the calling directory adds later, are compiled alone. Names in anonymous namespaces must differ within a
# target.
#
# CMake's own batches (UNITY_BUILD) name sources by absolute paths, so that no two checkouts could share a compiler cache.
function(autocfg_unity target most)
  if(NOT AUTOCFG_UNITY)
    return()
  endif()
  get_target_property(sources ${target} SOURCES)
  set(alone)
  set(together)
  foreach(source IN LISTS sources)
    get_source_file_property(is_alone "${source}" AUTOCFG_ALONE)
    # The build's number changes at every commit.
    if(is_alone OR source MATCHES "/build_id\\.cc$" OR NOT source MATCHES "\\.cc$")
      list(APPEND alone "${source}")
    else()
      list(APPEND together "${source}")
    endif()
  endforeach()
  list(LENGTH together count)
  if(count EQUAL 0)
    return()
  endif()
  math(EXPR batches "(${count} + ${most} - 1) / ${most}")
  math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  set(number 0)
  while(together)
    list(SUBLIST together 0 ${size} batch)
    list(REMOVE_ITEM together ${batch})
    set(includes)
    foreach(source IN LISTS batch)
      cmake_path(ABSOLUTE_PATH source)
      cmake_path(IS_PREFIX CMAKE_BINARY_DIR "${source}" is_generated)
      if(is_generated)
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_BINARY_DIR}")
      else()
        cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
      endif()
      string(APPEND includes "#include \"${source}\"\n")
    endforeach()
    set(file "${CMAKE_CURRENT_BINARY_DIR}/batches/${target}_${number}.cc")
    file(CONFIGURE OUTPUT "${file}" CONTENT "${includes}" @ONLY)
    list(APPEND alone "${file}")
    math(EXPR number "${number} + 1")
  endwhile()
  set_property(TARGET ${target} PROPERTY SOURCES ${alone})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # g++ takes every included source for a header, in which an anonymous namespace would be an error. It collects its garbage every
    # few MB by default, which costs a batch a seventh of its time; from 512 MB (in KB) on, a batch needs about 250 MB more.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage --param=ggc-min-heapsize=524288)
  endif()
endfunction()

# autocfg_lightly_optimized(TARGET): -O1 in release builds, for code that mostly waits for files, networks and people, and for tests that
# compute. It compiles a quarter faster than -O3. Kernels, costs, planning and the training engine keep -O3.
function(autocfg_lightly_optimized target)
  target_compile_options(${target} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>)
endfunction()

# autocfg_library(NAME [SEPARATE] DIRS dir... DEPS target...): builds one static library from every .cc directly in the
# given directories (relative to the calling one). SEPARATE: never in batches.
function(autocfg_library name)
  cmake_parse_arguments(ARG "SEPARATE" "" "DIRS;DEPS" ${ARGN})
  set(sources)
  foreach(dir IN LISTS ARG_DIRS)
    file(GLOB found CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cc")
    list(FILTER found EXCLUDE REGEX "/main\\.cc$")
    list(APPEND sources ${found})
  endforeach()
  if(NOT sources)
    set(sources "${CMAKE_BINARY_DIR}/${name}_empty.cc")
    file(WRITE "${CMAKE_BINARY_DIR}/${name}_empty.cc" "// No sources yet.\n")
  endif()
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC autocfg_flags ${ARG_DEPS})
  if(NOT ARG_SEPARATE)
    autocfg_unity(${name} ${AUTOCFG_UNITY_BATCH})
  endif()
endfunction()

# Sets what a test needs to run under the sanitizer of the build, if there is one.
function(autocfg_sanitizer_environment name)
  if(AUTOCFG_SANITIZE MATCHES "address")
    # For the programs that a test starts, too. Their standard error has only what they write.
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT
                 "LSAN_OPTIONS=suppressions=${PROJECT_SOURCE_DIR}/cmake/asan/leaks.txt:print_suppressions=0")
  endif()
  if(AUTOCFG_SANITIZE STREQUAL "thread")
    # UCX's memory hooks call intercepted functions when the sanitizer considers the thread ended.
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT UCX_MEM_EVENTS=no UCX_MEM_MMAP_HOOK_MODE=none)
  endif()
endfunction()

# autocfg_tests(NAME DIR dir LABEL label [COMPUTES] [SANITIZED] [THREADS] [PROOF] DEPS target... [TIMEOUT s] [SHARDS n]): builds one test program
# from every *_test.cc directly in DIR. ctest runs it as one test with the given label, or as n tests NAME_1 to NAME_n, each of which runs
# every n-th test of the program. COMPUTES: its own code takes long; the others are not optimized, which compiles a third faster.
#
# Further labels: SANITIZED: sanitized, which the sanitizers run beside the unit tests. THREADS: threads, which the thread sanitizer runs
# in continuous integration. PROOF: proof, whose failure continuous integration never repeats. The targets unit_tests, sanitized_tests and
# threads_tests build the programs of these labels.
function(autocfg_tests name)
  cmake_parse_arguments(ARG "COMPUTES;SANITIZED;THREADS;PROOF" "LABEL;TIMEOUT;SHARDS" "DIR;DEPS" ${ARGN})
  list(TRANSFORM ARG_DIR PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/" OUTPUT_VARIABLE patterns)
  list(TRANSFORM patterns APPEND "/*_test.cc")
  file(GLOB sources CONFIGURE_DEPENDS ${patterns})
  if(NOT sources)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(AUTOCFG_SANITIZE)
    math(EXPR ARG_TIMEOUT "5 * ${ARG_TIMEOUT}")  # against hangs; the sanitizers slow most tests ten times
  endif()
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE autocfg_flags autocfg_build_paths ${ARG_DEPS} GTest::gmock_main)
  autocfg_unity(${name} ${AUTOCFG_UNITY_BATCH})
  if(ARG_COMPUTES)
    autocfg_lightly_optimized(${name})
  else()
    target_compile_options(${name} PRIVATE $<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O0>)
  endif()
  if(AUTOCFG_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers, g++ gives false warnings about std::regex and std::function in the standard library's
    # headers.
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(ARG_LABEL STREQUAL "unit")
    add_dependencies(unit_tests ${name})
  endif()
  foreach(label sanitized threads proof)
    string(TOUPPER ${label} option)
    if(ARG_${option})
      list(APPEND ARG_LABEL ${label})
      if(TARGET ${label}_tests)
        add_dependencies(${label}_tests ${name})
      endif()
    endif()
  endforeach()
  set(tests ${name})
  if(ARG_SHARDS)
    set(tests)
    foreach(shard RANGE 1 ${ARG_SHARDS})
      list(APPEND tests ${name}_${shard})
    endforeach()
  endif()
  set(index 0)
  foreach(test IN LISTS tests)
    add_test(NAME ${test} COMMAND ${name})
    set_tests_properties(${test} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_TIMEOUT})
    if(ARG_SHARDS)
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${ARG_SHARDS} GTEST_SHARD_INDEX=${index})
      math(EXPR index "${index} + 1")
    endif()
    autocfg_sanitizer_environment(${test})
  endforeach()
endfunction()
