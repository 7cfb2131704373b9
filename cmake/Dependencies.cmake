# The product needs libuv, msgpack-c and, if there is an nvcc, the CUDA runtime; OpenSSL for several nodes; scdoc
# makes the manual pages.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
pkg_check_modules(LIBUV REQUIRED IMPORTED_TARGET libuv)
# The pkg-config name of the C library differs between its versions.
pkg_search_module(MSGPACK REQUIRED IMPORTED_TARGET msgpack-c msgpackc msgpack)

add_library(fdserver_uv INTERFACE)
add_library(fdserver_msgpack INTERFACE)
if(FDSERVER_STATIC)
  find_library(LIBUV_ARCHIVE libuv_a.a HINTS ${LIBUV_LIBRARY_DIRS} REQUIRED)
  find_library(MSGPACK_ARCHIVE NAMES libmsgpack-c.a libmsgpackc.a HINTS ${MSGPACK_LIBRARY_DIRS} REQUIRED)
  target_include_directories(fdserver_uv INTERFACE ${LIBUV_INCLUDE_DIRS})
  target_include_directories(fdserver_msgpack INTERFACE ${MSGPACK_INCLUDE_DIRS})
  target_link_libraries(fdserver_uv INTERFACE ${LIBUV_ARCHIVE} Threads::Threads dl)
  target_link_libraries(fdserver_msgpack INTERFACE ${MSGPACK_ARCHIVE})
else()
  target_link_libraries(fdserver_uv INTERFACE PkgConfig::LIBUV Threads::Threads)
  target_link_libraries(fdserver_msgpack INTERFACE PkgConfig::MSGPACK)
endif()

set(HAVE_CUDA OFF)
if(FDSERVER_CUDA)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER) # else check_language() would not find an nvcc that was installed since
    unset(CMAKE_CUDA_COMPILER CACHE)
  endif()
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    find_package(CUDAToolkit REQUIRED)
    set(CMAKE_CUDA_STANDARD 17)
    set(CMAKE_CUDA_STANDARD_REQUIRED ON)
    set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
    # --fmad=false: only the fused multiply-adds of the source (docs/NUMERICS.md).
    add_compile_options($<$<COMPILE_LANGUAGE:CUDA>:--fmad=false>
                        $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-Werror,-ffp-contract=off>
                        $<$<COMPILE_LANGUAGE:CUDA>:--Werror=all-warnings>)
    set(HAVE_CUDA ON)
  else()
    message(STATUS "No nvcc found: building the host worker only")
  endif()
endif()

set(OPENSSL_USE_STATIC_LIBS ${FDSERVER_STATIC})
find_package(OpenSSL 3.0) # for fdbridge

find_program(SCDOC scdoc)
if(NOT SCDOC)
  message(STATUS "No scdoc found: the manual pages fdserver(8) and fdclient(1) are not built")
endif()
