/* Faults of the system, for one process and its children: the N-th call on files of a place fails, or is the moment of a
 * signal, of a change of the input or of a step of the clock.
 *
 * Built by the tests and loaded with LD_PRELOAD, so that libraries meet the fault too, not Python alone. The rule is in a
 * file that all processes map (server.py has the same layout). Every call on a place is counted, and logged to a file.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { INPUT, OUTPUT, SCRATCH, CACHE, STDOUT, PLACES };
enum { OPEN = 1, MAKE = 2, READ = 4, WRITE = 8, NAME = 16, SYNC = 32, REMOVE = 64 };
enum { NOTHING, FAIL, SIGNAL, GROW, SHRINK, REPLACE, STEP };

struct rule {
    int places, calls; /* bits: which calls count */
    int number;        /* the call of the fault, from 1 */
    int action;
    int argument;      /* errno, signal, or the seconds of a step */
    int sticky;        /* later calls fail too */
    int after;         /* the fault comes after the call */
    int pid;           /* the process that gets the signal */
    int count, fired;
    char root[256];
    char source[256];  /* the input that changes; beside it source.more and source.new */
    char log[256];
};

static struct rule *rule;
static signed char place_of[65536];
static char folders[PLACES][8] = {"in", "out", "tmp", "home", ""};

#define REAL(name) ((__typeof__(&name))real(#name))
static void *real(const char *name) { return dlsym(RTLD_NEXT, name); }

int faults_use(const char *path) {
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDWR, 0);
    if (fd < 0) return -1;
    rule = mmap(0, sizeof(struct rule), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    memset(place_of, -1, sizeof place_of);
    return sizeof(struct rule);
}

/* Only the command's own: stdout of its helpers is a pipe to it. */
void faults_on_stdout(void) { place_of[1] = STDOUT; }

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FAULTS_RULE");
    if (path) faults_use(path);
}

static int place(int folder, const char *path) {
    if (!rule || !path) return -1;
    if (path[0] != '/' && folder != AT_FDCWD) return folder >= 0 && folder < 65536 ? place_of[folder] : -1;
    size_t length = strlen(rule->root);
    if (path[0] == '/') {
        if (strncmp(path, rule->root, length) || path[length] != '/') return -1;
        path += length + 1;
    } else {
        char here[512];
        if (!getcwd(here, sizeof here) || strncmp(here, rule->root, length)) return -1;
        if (here[length] == '/') path = here + length + 1;
        else while (path[0] == '.' && path[1] == '/') path += 2;
    }
    for (int n = 0; n < STDOUT; n++) {
        length = strlen(folders[n]);
        if (!strncmp(path, folders[n], length) && (path[length] == '/' || !path[length])) return n;
    }
    return -1;
}

static int place_of_fd(int fd) { return rule && fd >= 0 && fd < 65536 ? place_of[fd] : -1; }

static void copy_onto(const char *suffix) {
    char from[300], data[65536];
    snprintf(from, sizeof from, "%s%s", rule->source, suffix);
    int in = syscall(SYS_openat, AT_FDCWD, from, O_RDONLY, 0);
    int out = syscall(SYS_openat, AT_FDCWD, rule->source, O_WRONLY | O_APPEND, 0);
    long n;
    while (in >= 0 && out >= 0 && (n = syscall(SYS_read, in, data, sizeof data)) > 0) syscall(SYS_write, out, data, n);
    syscall(SYS_close, in), syscall(SYS_close, out);
}

static void change(void) {
    char other[300];
    struct stat facts;
    switch (rule->action) {
    case SIGNAL: syscall(SYS_kill, rule->argument == SIGKILL && !rule->pid ? getpid() : rule->pid, rule->argument); break;
    case GROW: copy_onto(".more"); break;
    case SHRINK: if (!stat(rule->source, &facts)) syscall(SYS_truncate, rule->source, facts.st_size / 2); break;
    case REPLACE:
        snprintf(other, sizeof other, "%s.new", rule->source);
        syscall(SYS_renameat2, AT_FDCWD, other, AT_FDCWD, rule->source, 0);
        break;
    }
}

/* Return 1 where the call must fail, with errno. after: 1 in the look behind the call. */
static int look(int at, int call, int after, const char *what) {
    if (!rule || at < 0) return 0;
    if (!after && rule->log[0]) {
        char line[600];
        int n = snprintf(line, sizeof line, "%d %d %s\n", at, call, what ? what : "");
        int fd = syscall(SYS_openat, AT_FDCWD, rule->log, O_WRONLY | O_APPEND | O_CREAT, 0644);
        if (n > 0) syscall(SYS_write, fd, line, n);
        syscall(SYS_close, fd);
    }
    if (!(rule->places & 1 << at) || !(rule->calls & call) || rule->after != after || !rule->action) return 0;
    int number = __sync_add_and_fetch(&rule->count, 1);
    if (number < rule->number || (number > rule->number && !rule->sticky)) return 0;
    __sync_fetch_and_add(&rule->fired, 1);
    if (rule->action == FAIL) return errno = rule->argument, 1;
    if (number == rule->number) { int kept = errno; change(); errno = kept; }
    return 0;
}

static int opened(int fd, int at) {
    if (rule && fd >= 0 && fd < 65536) place_of[fd] = at;
    return fd;
}

static int flags_call(int flags) {
    if (flags & O_DIRECTORY && (flags & O_TMPFILE) != O_TMPFILE) return OPEN;
    return flags & (O_WRONLY | O_RDWR | O_CREAT) ? MAKE : OPEN;
}

#define OPENER(name, head, call_head)                                                                                  \
    int name head {                                                                                                    \
        mode_t mode = 0;                                                                                               \
        if (flags & (O_CREAT | O_TMPFILE)) { va_list rest; va_start(rest, flags); mode = va_arg(rest, int); va_end(rest); } \
        int at = place(folder_, path), call = flags_call(flags);                                                       \
        if (look(at, call, 0, path)) return -1;                                                                        \
        int fd = opened(REAL(name) call_head, at);                                                                     \
        return look(at, call, 1, path) ? -1 : fd;                                                                      \
    }
#define folder_ AT_FDCWD
OPENER(open, (const char *path, int flags, ...), (path, flags, mode))
OPENER(open64, (const char *path, int flags, ...), (path, flags, mode))
#undef folder_
#define folder_ folder
OPENER(openat, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
OPENER(openat64, (int folder, const char *path, int flags, ...), (folder, path, flags, mode))
#undef folder_

#define FOPEN(name)                                                                                                    \
    FILE *name(const char *path, const char *mode) {                                                                   \
        int at = place(AT_FDCWD, path), call = strpbrk(mode, "wa+") ? MAKE : OPEN;                                     \
        if (look(at, call, 0, path)) return NULL;                                                                      \
        FILE *file = REAL(name)(path, mode);                                                                           \
        if (file) opened(fileno(file), at);                                                                            \
        return file;                                                                                                   \
    }
FOPEN(fopen)
FOPEN(fopen64)

#define CALL(type, name, call, at, what, head, arguments)                                                              \
    type name head {                                                                                                   \
        int at_ = (at);                                                                                                \
        if (look(at_, call, 0, what)) return -1;                                                                       \
        type result = REAL(name) arguments;                                                                            \
        return look(at_, call, 1, what) ? -1 : result;                                                                 \
    }
CALL(ssize_t, read, READ, place_of_fd(fd), 0, (int fd, void *data, size_t size), (fd, data, size))
CALL(ssize_t, pread, READ, place_of_fd(fd), 0, (int fd, void *data, size_t size, off_t from), (fd, data, size, from))
CALL(ssize_t, pread64, READ, place_of_fd(fd), 0, (int fd, void *data, size_t size, off64_t from), (fd, data, size, from))
CALL(ssize_t, readv, READ, place_of_fd(fd), 0, (int fd, const struct iovec *v, int n), (fd, v, n))
CALL(ssize_t, write, WRITE, place_of_fd(fd), 0, (int fd, const void *data, size_t size), (fd, data, size))
CALL(ssize_t, pwrite, WRITE, place_of_fd(fd), 0, (int fd, const void *data, size_t size, off_t to), (fd, data, size, to))
CALL(ssize_t, pwrite64, WRITE, place_of_fd(fd), 0, (int fd, const void *data, size_t size, off64_t to), (fd, data, size, to))
CALL(ssize_t, writev, WRITE, place_of_fd(fd), 0, (int fd, const struct iovec *v, int n), (fd, v, n))
CALL(ssize_t, sendfile, WRITE, place_of_fd(to), 0, (int to, int from, off_t *at_from, size_t size), (to, from, at_from, size))
CALL(ssize_t, sendfile64, WRITE, place_of_fd(to), 0, (int to, int from, off64_t *at_from, size_t size), (to, from, at_from, size))
CALL(ssize_t, copy_file_range, WRITE, place_of_fd(to), 0,
     (int from, off64_t *at_from, int to, off64_t *at_to, size_t size, unsigned flags), (from, at_from, to, at_to, size, flags))
CALL(int, fsync, SYNC, place_of_fd(fd), 0, (int fd), (fd))
CALL(int, fdatasync, SYNC, place_of_fd(fd), 0, (int fd), (fd))
CALL(int, rename, NAME, place(AT_FDCWD, to), to, (const char *from, const char *to), (from, to))
CALL(int, renameat, NAME, place(f2, to), to, (int f1, const char *from, int f2, const char *to), (f1, from, f2, to))
CALL(int, renameat2, NAME, place(f2, to), to, (int f1, const char *from, int f2, const char *to, unsigned flags), (f1, from, f2, to, flags))
CALL(int, link, NAME, place(AT_FDCWD, to), to, (const char *from, const char *to), (from, to))
CALL(int, linkat, NAME, place(f2, to), to, (int f1, const char *from, int f2, const char *to, int flags), (f1, from, f2, to, flags))
CALL(int, mkdir, MAKE, place(AT_FDCWD, path), path, (const char *path, mode_t mode), (path, mode))
CALL(int, unlink, REMOVE, place(AT_FDCWD, path), path, (const char *path), (path))
CALL(int, unlinkat, REMOVE, place(folder, path), path, (int folder, const char *path, int flags), (folder, path, flags))
CALL(int, rmdir, REMOVE, place(AT_FDCWD, path), path, (const char *path), (path))

int close(int fd) {
    if (rule && fd >= 0 && fd < 65536 && fd != 1) place_of[fd] = -1;
    return REAL(close)(fd);
}

int dup2(int from, int to) {
    if (rule && to >= 0 && to < 65536) place_of[to] = place_of_fd(from);
    return REAL(dup2)(from, to);
}

static int step(void) { return rule && rule->action == STEP && rule->fired ? rule->argument : 0; }

int clock_gettime(clockid_t clock, struct timespec *now) {
    int result = syscall(SYS_clock_gettime, clock, now);
    if (!result && clock == CLOCK_REALTIME) now->tv_sec += step();
    return result;
}

int gettimeofday(struct timeval *now, void *zone) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec, now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *to) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (to) *to = exact.tv_sec;
    return exact.tv_sec;
}
