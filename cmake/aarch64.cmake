# A build for aarch64 on another machine, whose programs run in qemu: of the Debian packages gcc-aarch64-linux-gnu,
# libc6-dev-arm64-cross and qemu-user-static, with the libraries that scripts/arm64-libs.sh fetches.
# Criterion is none of them: it starts its program anew for each test, which qemu does not pass on; tests/plain serves.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static -L /usr/aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-libs)
set(ENV{PKG_CONFIG_LIBDIR} $ENV{PKG_CONFIG_SYSROOT_DIR}/usr/lib/aarch64-linux-gnu/pkgconfig)
