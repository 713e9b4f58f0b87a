# What the toolchain files of one architecture each share: clang makes code for any target; scripts/cpu-check lays the
# target's C and C++ libraries, and the qemu that runs what was built, below build/cross.
set(CMAKE_SYSTEM_NAME Linux)
set(triple ${CMAKE_SYSTEM_PROCESSOR}-linux-gnu)
get_filename_component(cross ${CMAKE_CURRENT_LIST_DIR}/../build/cross/usr ABSOLUTE)
foreach(language C CXX)
  set(CMAKE_${language}_COMPILER_TARGET ${triple})
  set(CMAKE_${language}_FLAGS_INIT --gcc-install-dir=${cross}/lib/gcc-cross/${triple}/14)
endforeach()
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
# The sysroot is the linker's alone: headers that fit all processors stay those of this machine.
foreach(kind EXE SHARED)
  set(CMAKE_${kind}_LINKER_FLAGS_INIT "-fuse-ld=lld -Wl,--sysroot=${cross}/..")
endforeach()
set(CMAKE_CROSSCOMPILING_EMULATOR ${cross}/bin/qemu-${CMAKE_SYSTEM_PROCESSOR} -L ${cross}/${triple})
