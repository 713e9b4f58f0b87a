# The two functions with which every folder says what it is: a library and what it may see, or a program.

set(CMAKE_CXX_STANDARD 23)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib)

find_program(DIJI_CCACHE ccache)
if(DIJI_CCACHE)
  set(CMAKE_C_COMPILER_LAUNCHER ${DIJI_CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${DIJI_CCACHE})
endif()

option(DIJI_ASAN "AddressSanitizer and UndefinedBehaviorSanitizer in every target" OFF)
option(DIJI_PCH "The most used headers parsed once: builds from nothing take less, missing includes hide" OFF)
if(DIJI_PCH)
  set(CMAKE_CXX_COMPILE_OPTIONS_PIE ${CMAKE_CXX_COMPILE_OPTIONS_PIC})  # one kind of code, or the headers do not fit
endif()
option(DIJI_TSAN "ThreadSanitizer in every target" OFF)
option(DIJI_QUICK_BUILD "Not optimised where tests spend no time: for builds that only tests run" OFF)
set(quick_targets diji_ops diji_passes diji_formats diji)

add_library(diji_flags INTERFACE)
target_include_directories(diji_flags INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/include)
target_compile_options(diji_flags INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Werror
  $<$<COMPILE_LANG_AND_ID:CXX,Clang>:-Wno-missing-designated-field-initializers>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-missing-field-initializers>
  $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-shadow>  # GCC's means a constructor's parameters too
  -fstack-protector-strong -fno-omit-frame-pointer)
target_compile_definitions(diji_flags INTERFACE _GLIBCXX_ASSERTIONS DIJI_VERSION="${PROJECT_VERSION}")
# Debian's lld answers to clang alone.
target_link_options(diji_flags INTERFACE
  $<$<OR:$<LINK_LANG_AND_ID:C,Clang>,$<LINK_LANG_AND_ID:CXX,Clang>>:-fuse-ld=lld>
  -Wl,-z,relro,-z,now -Wl,--build-id=sha1)
if(DIJI_ASAN)
  set(sanitizers -fsanitize=address,undefined,float-cast-overflow)
  target_compile_options(diji_flags INTERFACE ${sanitizers} -fno-sanitize-recover=all)
  target_link_options(diji_flags INTERFACE ${sanitizers})
endif()
if(DIJI_TSAN)
  target_compile_options(diji_flags INTERFACE -fsanitize=thread)
  target_link_options(diji_flags INTERFACE -fsanitize=thread)
endif()

# The headers are parsed once for each kind of code: by the first target that has it.
function(precompiled_headers target)
  set(first diji_base)
  # Of the tests all but those that reckon much themselves.
  if(DIJI_QUICK_BUILD AND
     (target IN_LIST quick_targets OR (target MATCHES "^unit_" AND NOT target STREQUAL unit_collective)))
    target_compile_options(${target} PRIVATE -O0)
    set(first diji_ops)
  endif()
  if(DIJI_PCH AND target STREQUAL first)
    target_precompile_headers(${target} PRIVATE
      <fmt/format.h> <algorithm> <expected> <functional> <map> <memory> <ranges> <set> <span> <string> <vector>
      ${CMAKE_SOURCE_DIR}/graph/builder.h)
  elseif(DIJI_PCH)
    target_precompile_headers(${target} REUSE_FROM ${first})
  endif()
endfunction()

# diji_library(NAME folder SOURCES a.cpp b.cpp LINKS lower folders and packages)
function(diji_library)
  cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  add_library(diji_${ARG_NAME} STATIC ${ARG_SOURCES})
  target_link_libraries(diji_${ARG_NAME} PUBLIC diji_flags ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  precompiled_headers(diji_${ARG_NAME})
endfunction()

# diji_unit_test(FOLDER LINKS ...): tests/unit/FOLDER/*.cpp as one doctest program; doctest's main is compiled once.
function(diji_unit_test FOLDER)
  cmake_parse_arguments(ARG "" "" "LINKS" ${ARGN})
  string(REPLACE "/" "_" name ${FOLDER})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/unit/${FOLDER}/*.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(unit_${name} ${sources})
  target_link_libraries(unit_${name} PRIVATE diji_test_main ${ARG_LINKS})
  precompiled_headers(unit_${name})
  target_compile_definitions(unit_${name} PRIVATE DIJI_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  # What searches plans and formulas for a counterexample finds no more under a sanitizer, and takes ten times as long.
  set(without)
  if(DIJI_ASAN OR DIJI_TSAN)
    set(without --test-suite-exclude=proof)
  endif()
  add_test(NAME unit.${name} COMMAND unit_${name} ${without})
endfunction()
