# Toolchain for a cross build for aarch64 whose programs run in qemu. Needs the Debian packages gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross and qemu-user-static, and the libraries that scripts/arm64-libs.sh fetches. Criterion cannot be used:
# it restarts its program for each test, which fails under qemu. The tests use the runner of tests/plain instead.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-libs)
set(ENV{PKG_CONFIG_LIBDIR} $ENV{PKG_CONFIG_SYSROOT_DIR}/usr/lib/aarch64-linux-gnu/pkgconfig)
