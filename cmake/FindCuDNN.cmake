# Finds the headers of cuDNN, which has no CMake files of its own, and defines the target CuDNN::headers. The
# library is opened at run time.
find_path(CuDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CuDNN REQUIRED_VARS CuDNN_INCLUDE_DIR)
mark_as_advanced(CuDNN_INCLUDE_DIR)
if(CuDNN_FOUND AND NOT TARGET CuDNN::headers)
  add_library(CuDNN::headers INTERFACE IMPORTED)
  set_target_properties(CuDNN::headers PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${CuDNN_INCLUDE_DIR}")
endif()
