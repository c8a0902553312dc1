# Packages: cpack --config build/CPackConfig.cmake -G DEB (autocfg, autocfg-cuda, libautocfg-client-dev) or -G TGZ (one archive that runs
# from any directory). docs/install.md describes them.
set(packages "${CMAKE_BINARY_DIR}/packages")

# What a package has beside the programs: units, the worker's settings, the manual, completion. Not part of `cmake --install`.
foreach(unit IN ITEMS autocfg-server autocfg-worker)
  file(READ "${PROJECT_SOURCE_DIR}/deploy/systemd/${unit}.service" text)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/deploy/systemd/${unit}.service")
  string(REPLACE "/usr/local/bin/" "/usr/bin/" text "${text}")
  string(REGEX REPLACE "# Before:[^[]*" "" text "${text}")  # how to install it by hand
  file(WRITE "${packages}/${unit}.service" "${text}")
  install(FILES "${packages}/${unit}.service" DESTINATION lib/systemd/system COMPONENT system EXCLUDE_FROM_ALL)
endforeach()
install(FILES "${PROJECT_SOURCE_DIR}/deploy/debian/worker.env" DESTINATION /etc/autocfg COMPONENT system EXCLUDE_FROM_ALL)
install(CODE "set(AUTOCFG_PROGRAM \"${CMAKE_BINARY_DIR}/bin/autocfg\")" COMPONENT system EXCLUDE_FROM_ALL)
install(SCRIPT "${CMAKE_CURRENT_LIST_DIR}/InstallManual.cmake" COMPONENT system EXCLUDE_FROM_ALL)

# The documents that each Debian package has.
foreach(documented IN ITEMS autocfg:system libautocfg-client-dev:client_documents autocfg-cuda:cuda_documents)
  string(REGEX MATCH "(.*):(.*)" found "${documented}")
  set(directory "share/doc/${CMAKE_MATCH_1}")
  set(component "${CMAKE_MATCH_2}")
  install(FILES "${PROJECT_SOURCE_DIR}/deploy/debian/copyright" DESTINATION ${directory} COMPONENT ${component} EXCLUDE_FROM_ALL)
  install(CODE "execute_process(COMMAND gzip -n9c \"${PROJECT_SOURCE_DIR}/CHANGELOG.md\" RESULT_VARIABLE failed
    OUTPUT_FILE \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${directory}/changelog.gz\")
  if(failed)
    message(FATAL_ERROR \"autocfg: gzip failed on CHANGELOG.md\")
  endif()" COMPONENT ${component} EXCLUDE_FROM_ALL)
endforeach()

set(CPACK_PACKAGE_NAME autocfg)
set(CPACK_PACKAGE_VENDOR "The autocfg authors")
set(CPACK_PACKAGE_CONTACT "The autocfg authors <autocfg@autocfg.invalid>" CACHE STRING "Maintainer of the packages: NAME <ADDRESS>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "fastest way of splitting LLM training, by measurement")
set(CPACK_RESOURCE_FILE_LICENSE "${PROJECT_SOURCE_DIR}/LICENSE")
set(CPACK_GENERATOR "DEB;TGZ")
set(CPACK_STRIP_FILES ON)
set(CPACK_THREADS 0)
set(CPACK_PROJECT_CONFIG_FILE "${packages}/cpack.cmake")
configure_file("${CMAKE_CURRENT_LIST_DIR}/PackageConfig.cmake.in" "${CPACK_PROJECT_CONFIG_FILE}" @ONLY)

# One package of programs: they start each other, so they belong in one directory and to one version. The GPU engine is apart because it
# needs CUDA's libraries.
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_COMPONENTS_ALL programs system client client_documents)
if(TARGET autocfg_cuda)
  list(APPEND CPACK_COMPONENTS_ALL cuda cuda_documents)
endif()
set(CPACK_COMPONENT_PROGRAMS_GROUP main)
set(CPACK_COMPONENT_SYSTEM_GROUP main)
set(CPACK_COMPONENT_CLIENT_GROUP dev)
set(CPACK_COMPONENT_CLIENT_DOCUMENTS_GROUP dev)
set(CPACK_COMPONENT_CUDA_GROUP cuda)
set(CPACK_COMPONENT_CUDA_DOCUMENTS_GROUP cuda)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS OFF)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)

set(CPACK_DEBIAN_MAIN_PACKAGE_NAME autocfg)
set(CPACK_DEBIAN_MAIN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_MAIN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_MAIN_PACKAGE_DEPENDS "adduser")
set(CPACK_DEBIAN_MAIN_PACKAGE_SUGGESTS "autocfg-cuda")
set(CPACK_DEBIAN_MAIN_DESCRIPTION "autocfg answers which way of splitting the training of a language\n \
model over a cluster is the fastest that fits in memory. This package\n has the command line, the coordinator and the worker.")
set(control "${PROJECT_SOURCE_DIR}/deploy/debian")
set(CPACK_DEBIAN_MAIN_PACKAGE_CONTROL_EXTRA "${control}/postinst;${control}/prerm;${control}/postrm;${control}/conffiles")

set(CPACK_DEBIAN_DEV_PACKAGE_NAME libautocfg-client-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "libgrpc++-dev, libprotobuf-dev, libabsl-dev, libfmt-dev, libssl-dev")
set(CPACK_DEBIAN_DEV_DESCRIPTION "Library for clients of an autocfg coordinator, with its headers and its\n CMake package.")

set(CPACK_DEBIAN_CUDA_PACKAGE_NAME autocfg-cuda)
set(CPACK_DEBIAN_CUDA_PACKAGE_SECTION science)
if(CUDAToolkit_VERSION_MAJOR)
  # NVIDIA's names. Not dependencies: the libraries may also come with a toolkit or with PyTorch.
  set(cuda_version "${CUDAToolkit_VERSION_MAJOR}-${CUDAToolkit_VERSION_MINOR}")
  set(CPACK_DEBIAN_CUDA_PACKAGE_RECOMMENDS "cuda-cudart-${cuda_version}, libcublas-${cuda_version}")
endif()
set(CPACK_DEBIAN_CUDA_DESCRIPTION "The engine with which autocfg measures on NVIDIA GPUs. It needs their\n driver, CUDA's runtime and cuBLASLt.")

include(CPack)
