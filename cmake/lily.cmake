# Rules shared by every folder: warnings, sanitizers, and the one-target-a-folder helpers.

add_library(lily_options INTERFACE)
target_compile_features(lily_options INTERFACE cxx_std_20)
target_compile_options(lily_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion -Wnon-virtual-dtor -Wold-style-cast
  -Woverloaded-virtual -Wnull-dereference -Wdouble-promotion -Wformat=2 -Wimplicit-fallthrough
  -ffp-contract=off -fno-math-errno)
if(LILY_WERROR)
  target_compile_options(lily_options INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Both report paths inside the standard library at -O2 and above (string concatenation in g++ 12).
  target_compile_options(lily_options INTERFACE -Wno-null-dereference -Wno-restrict)
endif()
if(LILY_SANITIZE)
  target_compile_options(lily_options INTERFACE -fsanitize=${LILY_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lily_options INTERFACE -fsanitize=${LILY_SANITIZE})
endif()
if(LILY_COVERAGE)
  target_compile_options(lily_options INTERFACE --coverage -fprofile-update=atomic)
  target_link_options(lily_options INTERFACE --coverage)
endif()
target_include_directories(lily_options INTERFACE ${CMAKE_SOURCE_DIR}/src)

# lily_library(name): a static library of the .cpp files that lie in the calling folder.
function(lily_library name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC lily_options)
endfunction()

# lily_test(name LIBS ... [TIMEOUT s] [LABELS ...]): a GoogleTest binary of the calling folder's .cpp files; every test is one ctest entry a binary.
function(lily_test name)
  cmake_parse_arguments(arg "" "TIMEOUT" "LIBS;LABELS;SOURCES" ${ARGN})
  if(NOT arg_SOURCES)
    file(GLOB arg_SOURCES CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  if(NOT arg_SOURCES)
    return()
  endif()
  add_executable(${name} ${arg_SOURCES})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} lily_options GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE LILY_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  if(arg_TIMEOUT)
    set_tests_properties(${name} PROPERTIES TIMEOUT ${arg_TIMEOUT})
  endif()
  if(arg_LABELS)
    set_tests_properties(${name} PROPERTIES LABELS "${arg_LABELS}")
  endif()
endfunction()

# lily_pkg_library(target package names...): find_package where the system ships a config, else pkg-config.
function(lily_pkg_library target package)
  find_package(${package} CONFIG QUIET)
  if(NOT TARGET ${target})
    pkg_check_modules(${package}_pc REQUIRED IMPORTED_TARGET ${ARGN})
    add_library(${target} INTERFACE IMPORTED GLOBAL)
    target_link_libraries(${target} INTERFACE PkgConfig::${package}_pc)
  endif()
endfunction()
