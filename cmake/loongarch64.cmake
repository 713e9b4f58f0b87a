# Linux on 64-bit LoongArch.
set(CMAKE_SYSTEM_PROCESSOR loongarch64)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
