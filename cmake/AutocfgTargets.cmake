# The flags and the few functions that every directory of the project shares.

set(AUTOCFG_WARNINGS -Wall -Wextra)
if(AUTOCFG_WERROR)
  list(APPEND AUTOCFG_WARNINGS -Werror)
endif()

# What sources include and the build makes: all that clang-tidy needs of a build.
add_custom_target(generated_sources)
# The programs of the tests labelled unit, and what those run.
add_custom_target(unit_tests)

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
  # absl's mutexes are known to it, and gRPC's core is not looked at. First on the line of what is linked.
  add_library(autocfg_tsan OBJECT
    "${CMAKE_CURRENT_LIST_DIR}/tsan/absl_mutex.cc" "${CMAKE_CURRENT_LIST_DIR}/tsan/grpc_batch.cc"
    "${CMAKE_CURRENT_LIST_DIR}/tsan/options.cc")
  target_compile_options(autocfg_tsan PRIVATE ${AUTOCFG_WARNINGS} ${sanitizer})
  set(program "$<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>")
  target_link_options(autocfg_flags INTERFACE "$<${program}:$<TARGET_OBJECTS:autocfg_tsan>>")
  target_link_libraries(autocfg_flags INTERFACE absl::synchronization absl::time)
  set_property(TARGET autocfg_flags PROPERTY INTERFACE_LINK_DEPENDS "$<TARGET_OBJECTS:autocfg_tsan>")
endif()

# What nvcc gets in place of them: the host compiler's warnings, less those that its generated code earns.
list(JOIN AUTOCFG_WARNINGS "," cuda_host_warnings)
add_library(autocfg_cuda_flags INTERFACE)
target_compile_options(autocfg_cuda_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=${cuda_host_warnings}> $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr>)

# autocfg_library(NAME DIRS dir... DEPS target...): every .cc directly in the given directories
# (relative to the calling one) becomes one static library.
function(autocfg_library name)
  cmake_parse_arguments(ARG "" "" "DIRS;DEPS" ${ARGN})
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
endfunction()

# autocfg_tests(NAME DIR dir LABEL label DEPS target... [TIMEOUT s]): every *_test.cc directly in DIR becomes one
# test program, run by ctest as one test with the given label. The target unit_tests builds those of the label unit.
function(autocfg_tests name)
  cmake_parse_arguments(ARG "" "DIR;LABEL;TIMEOUT" "DEPS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${ARG_DIR}/*_test.cc")
  if(NOT sources)
    return()
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${sources})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  target_link_libraries(${name} PRIVATE autocfg_flags autocfg_build_paths ${ARG_DEPS} GTest::gmock_main)
  if(AUTOCFG_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # With sanitizers g++ warns wrongly of std::regex and std::function in the standard library's own headers.
    target_compile_options(${name} PRIVATE -Wno-maybe-uninitialized)
  endif()
  if(ARG_LABEL STREQUAL "unit")
    add_dependencies(unit_tests ${name})
  endif()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  if(AUTOCFG_SANITIZE STREQUAL "thread")
    # UCX's own memory hooks call intercepted functions when a thread is already gone for the sanitizer.
    set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT UCX_MEM_EVENTS=no UCX_MEM_MMAP_HOOK_MODE=none)
  endif()
endfunction()
