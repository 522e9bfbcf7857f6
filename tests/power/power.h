/* power.h - simulates the loss of power while files are written. The linker's --wrap sends the calls of the library for
 * files to record.c, which lists what they do in one folder. states.c then makes the contents of the folder that a disk
 * may have if power fails after the first, second, third, ... of them:
 *
 *     bytes of a file         since its last fsync, any of its blocks may be lost, and its length may be the old one
 *     entries of a folder     since its last fsync, any of the creations, renames, links and removals may be lost
 *
 * All combinations are tried where they are few, else a random sample with a fixed seed. A rename takes effect as a
 * whole, and two changes of one name in their order, as in every file system with a journal. A file whose entry is on
 * the disk need not have its bytes there, and an fsync of a file is none of its entry. */
#ifndef TESTS_POWER_POWER_H
#define TESTS_POWER_POWER_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { POWER_NAME = 160 };

typedef enum PowerKind {
    POWER_CREATE,      /* `to` is a new, empty file */
    POWER_FOLDER,      /* `to` is a new folder */
    POWER_LINK,        /* `to` is another name of the file */
    POWER_RENAME,      /* `from` becomes `to` */
    POWER_UNLINK,      /* `from` is removed */
    POWER_DATA,        /* the file has these bytes now */
    POWER_SYNC,        /* fsync of the file */
    POWER_SYNC_FOLDER, /* fsync of the folder `from` */
    POWER_MARK         /* power_mark was called */
} PowerKind;

/* Paths are relative to the recorded folder, which is "" itself. */
typedef struct PowerOp {
    PowerKind kind;
    int       file; /* index, in the order in which files appeared; -1: a folder, or none */
    char      from[POWER_NAME], to[POWER_NAME];
    char     *data;
    size_t    n;
} PowerOp;

/* Bugs that the tests plant: calls that do nothing, or something else. */
typedef enum PowerBug {
    POWER_NO_BUG,
    POWER_NO_SYNC,        /* no fsync of files */
    POWER_NO_SYNC_FOLDER, /* no fsync of folders */
    POWER_LATE_SYNC,      /* fsync of a file only when it is closed: after its rename */
    POWER_LINK_IS_RENAME, /* the old file is renamed instead of linked */
    POWER_NO_LINKS        /* no bug: a file system without hard links */
} PowerBug;

/* Begins a record. What is in the folder is on the disk. Its path is absolute and has no links. */
void power_record(const char *folder, PowerBug bug);

/* Something is promised from here on. */
void power_mark(void);

/* Ends the record. */
void power_stop(void);

/* The operations of the last record; the first n_initial ones made what was in the folder. */
const PowerOp *power_ops(int *n, int *n_initial);

/* Writes the last record to a file outside of the folder, and reads it again, in another process. */
void power_save(const char *path);
void power_load(const char *path);

/* NULL, or what is wrong with the contents of the folder after a loss. `marks`: calls of power_mark before it. */
typedef const char *PowerCheck(const char *folder, int marks);

typedef struct PowerResult {
    int  states, bad; /* different contents of the folder, and those that the check refused */
    bool sampled;     /* not all combinations were tried */
    char first[512];  /* the first that was refused */
} PowerResult;

/* Makes each state in the folder, which is emptied before and afterwards, and checks it. */
PowerResult power_each_state(const char *folder, PowerCheck *check);

#endif
