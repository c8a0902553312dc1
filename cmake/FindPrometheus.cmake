# Defines Prometheus::core from the system's prometheus/registry.h and libprometheus-cpp-core: what counts and writes metrics, without its
# own HTTP server.
find_path(PROMETHEUS_INCLUDE_DIR prometheus/registry.h)
find_library(PROMETHEUS_CORE_LIBRARY prometheus-cpp-core)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Prometheus REQUIRED_VARS PROMETHEUS_CORE_LIBRARY PROMETHEUS_INCLUDE_DIR)
if(Prometheus_FOUND AND NOT TARGET Prometheus::core)
  add_library(Prometheus::core INTERFACE IMPORTED)
  target_include_directories(Prometheus::core INTERFACE "${PROMETHEUS_INCLUDE_DIR}")
  target_link_libraries(Prometheus::core INTERFACE "${PROMETHEUS_CORE_LIBRARY}")
endif()
