/* A stand-in for NVRTC, tests/libfake_nvrtc.so in the build folder. FAKE_NVRTC in the environment names a function,
 * which then fails. A source's PTX stands behind "PTX:" in its text; a line with "#error" is an error. */
#ifndef FAKE_NVRTC_H
#define FAKE_NVRTC_H

#define FAKE_NVRTC_VARIABLE "FAKE_NVRTC"

typedef struct FakeNvrtcStats {
    int compiled, live; /* programs */
} FakeNvrtcStats;

FakeNvrtcStats fake_nvrtc_stats(void);

#endif
