# The client library as others use it: find_package(autocfg) gives the target autocfg::client. One archive of its own, because the
# libraries of the build carry the build's flags and directories.
set(sources "${PROJECT_SOURCE_DIR}/base/os/host.cc" "${PROJECT_SOURCE_DIR}/base/os/trace_parent.cc" "${PROJECT_SOURCE_DIR}/base/text.cc")
foreach(source IN ITEMS client/rpc client/study_client client/study_watcher rpc/address rpc/call rpc/channel rpc/tls_files rpc/token_file rpc/unreachable)
  list(APPEND sources "${PROJECT_SOURCE_DIR}/proto/${source}.cc")
endforeach()
add_library(autocfg_client_package STATIC ${sources} $<TARGET_OBJECTS:autocfg_proto> $<TARGET_OBJECTS:autocfg_grpc>)
add_library(autocfg::client ALIAS autocfg_client_package)
set_target_properties(autocfg_client_package PROPERTIES OUTPUT_NAME autocfg_client EXPORT_NAME client
                      ARCHIVE_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/client_package")
target_compile_features(autocfg_client_package PUBLIC cxx_std_20)
target_link_libraries(autocfg_client_package PRIVATE "$<BUILD_INTERFACE:autocfg_flags>" fmt::fmt
  PUBLIC gRPC::grpc++ protobuf::libprotobuf absl::status absl::statusor absl::synchronization absl::time OpenSSL::Crypto Threads::Threads)
target_include_directories(autocfg_client_package PRIVATE "$<BUILD_INTERFACE:${CMAKE_CURRENT_BINARY_DIR}>"
  INTERFACE "$<INSTALL_INTERFACE:include>")
autocfg_unity(autocfg_client_package ${AUTOCFG_UNITY_BATCH})
autocfg_lightly_optimized(autocfg_client_package)

include(CMakePackageConfigHelpers)
set(package "${CMAKE_BINARY_DIR}/client_package")
set(destination "lib/cmake/autocfg")
configure_package_config_file("${CMAKE_CURRENT_LIST_DIR}/autocfgConfig.cmake.in" "${package}/autocfgConfig.cmake" INSTALL_DESTINATION ${destination})
write_basic_package_version_file("${package}/autocfgConfigVersion.cmake" VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(TARGETS autocfg_client_package EXPORT autocfg ARCHIVE DESTINATION lib COMPONENT client)
install(EXPORT autocfg NAMESPACE autocfg:: FILE autocfgTargets.cmake DESTINATION ${destination} COMPONENT client)
install(FILES "${package}/autocfgConfig.cmake" "${package}/autocfgConfigVersion.cmake" DESTINATION ${destination} COMPONENT client)
install(FILES "${PROJECT_SOURCE_DIR}/proto/rpc/endpoint.h" "${PROJECT_SOURCE_DIR}/proto/client/study_client.h" "${PROJECT_SOURCE_DIR}/proto/client/study_watcher.h"
        DESTINATION include/autocfg/client COMPONENT client)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/autocfg/v1/model.pb.h" "${CMAKE_CURRENT_BINARY_DIR}/autocfg/v1/study_service.pb.h"
        DESTINATION include/autocfg/v1 COMPONENT client)
