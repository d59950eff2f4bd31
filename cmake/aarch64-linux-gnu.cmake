# Cross-compiles for 64-bit Arm with Debian's g++-aarch64-linux-gnu and runs the tests under qemu-user. The libraries are in
# QKV_SYSROOT, which scripts/nightly neon fills.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(QKV_SYSROOT ${CMAKE_CURRENT_LIST_DIR}/../build/neon/sysroot CACHE PATH "Debian packages for arm64, unpacked")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES QKV_SYSROOT)
cmake_path(ABSOLUTE_PATH QKV_SYSROOT NORMALIZE OUTPUT_VARIABLE CMAKE_SYSROOT)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)

# A processor with NEON and without SVE, for which oneDNN has kernels that these tests are not about.
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-cpu;neoverse-n1;-L;${CMAKE_SYSROOT})
