# Rules for every target: C17, warnings as errors, and floating point as written.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON) # accept4, memfd_create, _GNU_SOURCE
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_compile_definitions(_GNU_SOURCE FDSERVER_VERSION="${PROJECT_VERSION}")
include_directories(${PROJECT_SOURCE_DIR})

# Bits are part of the contract (docs/NUMERICS.md): no contraction, no reassociation, in any target.
# Asserts stay in release builds: there are few, none of them in a loop, and continuing would be worse.
add_compile_options($<$<COMPILE_LANGUAGE:C>:-UNDEBUG>)
add_compile_options($<$<COMPILE_LANGUAGE:C>:-Wall> $<$<COMPILE_LANGUAGE:C>:-Wextra>
                    $<$<COMPILE_LANGUAGE:C>:-Werror> $<$<COMPILE_LANGUAGE:C>:-Wvla>
                    $<$<COMPILE_LANGUAGE:C>:-ffp-contract=off> $<$<COMPILE_LANGUAGE:C>:-fno-fast-math>)
if(CMAKE_BUILD_TYPE MATCHES "Rel")
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-fstack-protector-strong>)
  add_compile_definitions($<$<COMPILE_LANGUAGE:C>:_FORTIFY_SOURCE=2>)
endif()
if(FDSERVER_SANITIZE)
  add_compile_options($<$<COMPILE_LANGUAGE:C>:-fsanitize=${FDSERVER_SANITIZE}>
                      $<$<COMPILE_LANGUAGE:C>:-fno-omit-frame-pointer>
                      $<$<COMPILE_LANGUAGE:C>:-fno-sanitize-recover=all>)
  add_link_options(-fsanitize=${FDSERVER_SANITIZE})
endif()
