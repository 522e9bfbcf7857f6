/* recording_file.h - the records of a recording, for its writer and its reader. */
#ifndef CLI_DIVERGE_RECORDING_FILE_H
#define CLI_DIVERGE_RECORDING_FILE_H

#define RECORDING_MAGIC "reprise recording 1\n"

enum { RECORD_FRONT = 12, RECORD_SUM = 8, MAX_STEP_TOKENS = 4096 }; /* bytes in front of a payload, and behind it */

enum { RECORD_HEAD = 1, RECORD_STEP, RECORD_NODE, RECORD_END };

#endif
