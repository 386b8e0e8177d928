/* A library for LD_PRELOAD that makes one system call of a process fail.
 *
 * Calls are counted per kind (open, read, write, ...), and only on files below the given folders: descriptors are followed from the call
 * that opened them. The loader, the C library and the program file are therefore not disturbed.
 *
 *   FAULT_BELOW   folders, separated by ':'; absolute, without symbolic links
 *   FAULT_MATCH   only paths that contain this text (optional)
 *   FAULT_KIND    the kind of call that fails (see `kinds`); without it, calls are only counted
 *   FAULT_NUMBER  the number of the call of this kind that fails, from 1
 *   FAULT_ERROR   the number of the error (errno), or `short` (half of the bytes are read or written) or `shrink` (the file is cut to half
 *                 of its length after it was opened or mapped)
 *   FAULT_REPEAT  if set, all later calls of this kind fail too
 *   FAULT_REPORT  a file with `struct report`, mapped, so that it can be read after a kill; the offset of the clock is read from it
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, SYNC, RENAME, MAP, TRUNCATE, UNLINK, MKDIR, STAT, LOCK, LIST, CHMOD, KINDS };

static const char *const kinds[KINDS] = {"open",   "read",  "write", "sync", "rename", "map",  "truncate",
                                         "unlink", "mkdir", "stat",  "lock", "list",   "chmod"};

/* The driver reads and writes this layout (`Report` in injector.py). */
struct report {
    _Atomic uint64_t calls[KINDS];
    _Atomic uint64_t faults;
    /* Seconds that are added to the time of day. */
    _Atomic int64_t clock_offset;
    /* The path of the first failed call. */
    char path[PATH_MAX];
};

enum { MAX_FILES = 65536 };

static struct report unreported;
static struct report *report = &unreported;
static const char *below, *match;
static enum kind failing = KINDS;
static uint64_t number;
static int error, is_short, is_shrink, is_lasting;
/* The paths of open files below the folders, by descriptor. */
static _Atomic(char *) files[MAX_FILES];

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

typedef long (*system_call)(long, ...);

static system_call direct(void) {
    static system_call found;
    if (!found) found = REAL(syscall);
    return found;
}

/* Makes a system call that is not counted. */
#define DIRECT(...) direct()(__VA_ARGS__)

__attribute__((constructor)) static void start(void) {
    below = getenv("FAULT_BELOW");
    match = getenv("FAULT_MATCH");
    const char *kind = getenv("FAULT_KIND"), *what = getenv("FAULT_ERROR"), *n = getenv("FAULT_NUMBER");
    for (int i = 0; kind && i < KINDS; i++)
        if (strcmp(kind, kinds[i]) == 0) failing = i;
    number = n ? strtoull(n, NULL, 10) : 0;
    is_short = what && strcmp(what, "short") == 0;
    is_shrink = what && strcmp(what, "shrink") == 0;
    error = what ? atoi(what) : EIO;
    is_lasting = getenv("FAULT_REPEAT") != NULL;
    const char *path = getenv("FAULT_REPORT");
    int fd = path ? (int)DIRECT(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        void *map = (void *)DIRECT(SYS_mmap, NULL, sizeof(struct report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (map != MAP_FAILED) report = map;
        DIRECT(SYS_close, fd);
    }
}

/* Writes the absolute path of a name into `path`. Returns whether it contains FAULT_MATCH and is below one of the folders. */
static int is_below(int folder, const char *name, char *path) {
    if (!below || !name) return 0;
    if (name[0] == '/') {
        snprintf(path, PATH_MAX, "%s", name);
    } else {
        char link[64], base[PATH_MAX];
        if (folder == AT_FDCWD)
            snprintf(link, sizeof link, "/proc/self/cwd");
        else
            snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = DIRECT(SYS_readlinkat, AT_FDCWD, link, base, sizeof base - 1);
        if (length < 0) return 0;
        base[length] = 0;
        if (snprintf(path, PATH_MAX, "%s/%s", base, name) >= PATH_MAX) return 0;
    }
    if (match && *match && !strstr(path, match)) return 0;
    for (const char *start = below; start && *start;) {
        const char *end = strchr(start, ':');
        size_t length = end ? (size_t)(end - start) : strlen(start);
        if (length && strncmp(path, start, length) == 0 && (path[length] == '/' || path[length] == 0)) return 1;
        start = end ? end + 1 : NULL;
    }
    return 0;
}

static const char *file_of(int fd) { return fd >= 0 && fd < MAX_FILES ? files[fd] : NULL; }

/* Stores the path of a descriptor. The old path is not freed, because another thread could still use it. There are few such paths. */
static void follow(int fd, const char *path) {
    if (fd >= 0 && fd < MAX_FILES) files[fd] = path ? strdup(path) : NULL;
}

/* Counts a call on a path. Returns whether the call must fail. */
static int must_fail(enum kind kind, const char *path) {
    if (!path) return 0;
    uint64_t n = atomic_fetch_add(&report->calls[kind], 1) + 1;
    if (kind != failing || !number || (is_lasting ? n < number : n != number)) return 0;
    if (atomic_fetch_add(&report->faults, 1) == 0) snprintf(report->path, PATH_MAX, "%s", path);
    return 1;
}

static void shrink(const char *path) {
    struct stat info;
    int fd = (int)DIRECT(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0) return;
    if (DIRECT(SYS_fstat, fd, &info) == 0) DIRECT(SYS_ftruncate, fd, info.st_size / 2);
    DIRECT(SYS_close, fd);
}

/* Fails a call on a file or path: `failed` is its result. */
#define FAIL(kind, path, failed)                                                                                                           \
    if (must_fail(kind, path)) {                                                                                                           \
        errno = error;                                                                                                                     \
        return failed;                                                                                                                     \
    }

#define OPEN_FUNCTION(declaration, folder, name, flags, call)                                                                              \
    declaration {                                                                                                                          \
        mode_t mode = 0;                                                                                                                   \
        if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                                                           \
            va_list rest;                                                                                                                  \
            va_start(rest, flags);                                                                                                         \
            mode = va_arg(rest, mode_t);                                                                                                   \
            va_end(rest);                                                                                                                  \
        }                                                                                                                                  \
        char path[PATH_MAX];                                                                                                               \
        int counted = is_below(folder, name, path);                                                                                        \
        int fails = counted && must_fail(OPEN, path);                                                                                      \
        if (fails && !is_shrink) {                                                                                                         \
            errno = error;                                                                                                                 \
            return -1;                                                                                                                     \
        }                                                                                                                                  \
        int fd = call;                                                                                                                     \
        follow(fd, counted && fd >= 0 ? path : NULL);                                                                                      \
        if (fails && fd >= 0) shrink(path);                                                                                                \
        return fd;                                                                                                                         \
    }

OPEN_FUNCTION(int open(const char *name, int flags, ...), AT_FDCWD, name, flags, REAL(open)(name, flags, mode))
OPEN_FUNCTION(int open64(const char *name, int flags, ...), AT_FDCWD, name, flags, REAL(open64)(name, flags, mode))
OPEN_FUNCTION(int openat(int at, const char *name, int flags, ...), at, name, flags, REAL(openat)(at, name, flags, mode))
OPEN_FUNCTION(int openat64(int at, const char *name, int flags, ...), at, name, flags, REAL(openat64)(at, name, flags, mode))

int close(int fd) {
    follow(fd, NULL);
    return REAL(close)(fd);
}

#define READ_OR_WRITE(kind, declaration, fd, count, call)                                                                                  \
    ssize_t declaration {                                                                                                                  \
        if (must_fail(kind, file_of(fd))) {                                                                                                \
            if (!is_short) {                                                                                                               \
                errno = error;                                                                                                             \
                return -1;                                                                                                                 \
            }                                                                                                                              \
            count = count > 1 ? count / 2 : count;                                                                                         \
        }                                                                                                                                  \
        return call;                                                                                                                       \
    }

READ_OR_WRITE(READ, read(int fd, void *buffer, size_t count), fd, count, REAL(read)(fd, buffer, count))
READ_OR_WRITE(READ, pread(int fd, void *buffer, size_t count, off_t at), fd, count, REAL(pread)(fd, buffer, count, at))
READ_OR_WRITE(READ, pread64(int fd, void *buffer, size_t count, off64_t at), fd, count, REAL(pread64)(fd, buffer, count, at))
READ_OR_WRITE(READ, readv(int fd, const struct iovec *parts, int count), fd, count, REAL(readv)(fd, parts, count))
READ_OR_WRITE(WRITE, write(int fd, const void *buffer, size_t count), fd, count, REAL(write)(fd, buffer, count))
READ_OR_WRITE(WRITE, pwrite(int fd, const void *buffer, size_t count, off_t at), fd, count, REAL(pwrite)(fd, buffer, count, at))
READ_OR_WRITE(WRITE, pwrite64(int fd, const void *buffer, size_t count, off64_t at), fd, count, REAL(pwrite64)(fd, buffer, count, at))
READ_OR_WRITE(WRITE, writev(int fd, const struct iovec *parts, int count), fd, count, REAL(writev)(fd, parts, count))
READ_OR_WRITE(WRITE, copy_file_range(int from, off64_t *at, int to, off64_t *to_at, size_t count, unsigned flags), to, count,
              REAL(copy_file_range)(from, at, to, to_at, count, flags))

#define ON_FILE(kind, declaration, fd, call)                                                                                               \
    int declaration {                                                                                                                      \
        FAIL(kind, file_of(fd), -1)                                                                                                        \
        return call;                                                                                                                       \
    }

ON_FILE(SYNC, fsync(int fd), fd, REAL(fsync)(fd))
ON_FILE(SYNC, fdatasync(int fd), fd, REAL(fdatasync)(fd))
ON_FILE(TRUNCATE, ftruncate(int fd, off_t size), fd, REAL(ftruncate)(fd, size))
ON_FILE(TRUNCATE, ftruncate64(int fd, off64_t size), fd, REAL(ftruncate64)(fd, size))
ON_FILE(LOCK, flock(int fd, int operation), fd, REAL(flock)(fd, operation))
ON_FILE(CHMOD, fchmod(int fd, mode_t mode), fd, REAL(fchmod)(fd, mode))
ON_FILE(CHMOD, fchown(int fd, uid_t user, gid_t group), fd, REAL(fchown)(fd, user, group))
ON_FILE(STAT, fstat(int fd, struct stat *to), fd, REAL(fstat)(fd, to))
ON_FILE(STAT, fstat64(int fd, struct stat64 *to), fd, REAL(fstat64)(fd, to))

#define FCNTL(name)                                                                                                                        \
    int name(int fd, int command, ...) {                                                                                                   \
        va_list rest;                                                                                                                      \
        va_start(rest, command);                                                                                                           \
        void *argument = va_arg(rest, void *);                                                                                             \
        va_end(rest);                                                                                                                      \
        if (command == F_SETLK || command == F_SETLKW || command == F_OFD_SETLK) FAIL(LOCK, file_of(fd), -1)                               \
        int result = REAL(name)(fd, command, argument);                                                                                    \
        if ((command == F_DUPFD || command == F_DUPFD_CLOEXEC) && result >= 0) follow(result, file_of(fd));                                \
        return result;                                                                                                                     \
    }

FCNTL(fcntl)
FCNTL(fcntl64)

#define MAP_FUNCTION(name, offset_type)                                                                                                    \
    void *name(void *address, size_t length, int protection, int flags, int fd, offset_type offset) {                                      \
        const char *path = flags & MAP_ANONYMOUS ? NULL : file_of(fd);                                                                     \
        int fails = must_fail(MAP, path);                                                                                                  \
        if (fails && !is_shrink) {                                                                                                         \
            errno = error;                                                                                                                 \
            return MAP_FAILED;                                                                                                             \
        }                                                                                                                                  \
        void *map = (void *)DIRECT(SYS_mmap, address, length, protection, flags, fd, offset);                                             \
        if (fails && map != MAP_FAILED) shrink(path);                                                                                      \
        return map;                                                                                                                        \
    }

MAP_FUNCTION(mmap, off_t)
MAP_FUNCTION(mmap64, off64_t)

#define ON_PATH(kind, declaration, folder, name, call)                                                                                     \
    int declaration {                                                                                                                      \
        char path[PATH_MAX];                                                                                                               \
        if (is_below(folder, name, path)) FAIL(kind, path, -1)                                                                             \
        return call;                                                                                                                       \
    }

ON_PATH(RENAME, rename(const char *from, const char *to), AT_FDCWD, to, REAL(rename)(from, to))
ON_PATH(RENAME, renameat(int at, const char *from, int to_at, const char *to), to_at, to, REAL(renameat)(at, from, to_at, to))

/* nuq exchanges two folders by a direct system call. All other direct calls are made unchanged. */
long syscall(long call, ...) {
    long arguments[6];
    va_list rest;
    va_start(rest, call);
    for (int i = 0; i < 6; i++) arguments[i] = va_arg(rest, long);
    va_end(rest);
    char path[PATH_MAX];
    if (call == SYS_renameat2 && is_below((int)arguments[2], (const char *)arguments[3], path)) FAIL(RENAME, path, -1)
    return DIRECT(call, arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], arguments[5]);
}

ON_PATH(UNLINK, unlink(const char *name), AT_FDCWD, name, REAL(unlink)(name))
ON_PATH(UNLINK, unlinkat(int at, const char *name, int flags), at, name, REAL(unlinkat)(at, name, flags))
ON_PATH(UNLINK, rmdir(const char *name), AT_FDCWD, name, REAL(rmdir)(name))
ON_PATH(MKDIR, mkdir(const char *name, mode_t mode), AT_FDCWD, name, REAL(mkdir)(name, mode))
ON_PATH(CHMOD, chmod(const char *name, mode_t mode), AT_FDCWD, name, REAL(chmod)(name, mode))
ON_PATH(STAT, stat(const char *name, struct stat *to), AT_FDCWD, name, REAL(stat)(name, to))
ON_PATH(STAT, stat64(const char *name, struct stat64 *to), AT_FDCWD, name, REAL(stat64)(name, to))
ON_PATH(STAT, lstat(const char *name, struct stat *to), AT_FDCWD, name, REAL(lstat)(name, to))
ON_PATH(STAT, lstat64(const char *name, struct stat64 *to), AT_FDCWD, name, REAL(lstat64)(name, to))
ON_PATH(STAT, access(const char *name, int mode), AT_FDCWD, name, REAL(access)(name, mode))

int statx(int at, const char *name, int flags, unsigned mask, struct statx *to) {
    /* The header states that the name is not null, so that a compiler may omit a check for null. Rust's library passes null to find out
     * whether the call exists. With `volatile`, the check stays. */
    const char *volatile given = name;
    char path[PATH_MAX];
    if (given && *given) {
        if (is_below(at, name, path)) FAIL(STAT, path, -1)
    } else {
        FAIL(STAT, file_of(at), -1)
    }
    return REAL(statx)(at, name, flags, mask, to);
}

ssize_t readlink(const char *name, char *to, size_t size) {
    char path[PATH_MAX];
    if (is_below(AT_FDCWD, name, path)) FAIL(STAT, path, -1)
    return REAL(readlink)(name, to, size);
}

DIR *opendir(const char *name) {
    char path[PATH_MAX];
    if (is_below(AT_FDCWD, name, path)) FAIL(LIST, path, NULL)
    return REAL(opendir)(name);
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    int result = (int)DIRECT(SYS_clock_gettime, clock, to);
    if (result == 0 && clock == CLOCK_REALTIME) to->tv_sec += report->clock_offset;
    return result;
}

int gettimeofday(struct timeval *to, void *zone) {
    int result = (int)DIRECT(SYS_gettimeofday, to, zone);
    if (result == 0) to->tv_sec += report->clock_offset;
    return result;
}

time_t time(time_t *to) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (to) *to = now.tv_sec;
    return now.tv_sec;
}
