# Finds CuDNN, which has no CMake files of its own: the target CuDNN::CuDNN.
find_path(CuDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} /usr/local/cuda/include)
find_library(CuDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR} /usr/local/cuda/lib64)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CuDNN REQUIRED_VARS CuDNN_LIBRARY CuDNN_INCLUDE_DIR)
mark_as_advanced(CuDNN_LIBRARY CuDNN_INCLUDE_DIR)
if(CuDNN_FOUND AND NOT TARGET CuDNN::CuDNN)
  add_library(CuDNN::CuDNN SHARED IMPORTED)
  set_target_properties(CuDNN::CuDNN PROPERTIES
    IMPORTED_LOCATION "${CuDNN_LIBRARY}" INTERFACE_INCLUDE_DIRECTORIES "${CuDNN_INCLUDE_DIR}")
endif()
