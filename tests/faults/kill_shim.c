/* A library to preload that kills the process between two system calls on its files, so
 * that a test can go through every such place.
 *
 *   KAN_KILL_DIR=PATH         calls on files in this directory (and on itself) count
 *   KAN_KILL_AT=N             SIGKILL just before the Nth counted call; unset or 0: never
 *   KAN_KILL_PARTIAL=1        where that call writes, half of its bytes are written first
 *   KAN_KILL_COUNT_FILE=PATH  gets the number of calls seen, at the end or at the kill
 *   KAN_KILL_TRACE=PATH       gets a line "call path" for each
 *
 * Counted: write, pwrite, writev, ftruncate, fsync, fdatasync, rename, link, unlink.
 * Calls that the C library makes inside itself (stdio) are not seen. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static char directory[PATH_MAX];
static long kill_at;
static int partial;
static const char *count_file, *trace_file;
static atomic_long seen;

/* What the shim itself writes goes around the functions it replaces. */
static void put(const char* path, int flags, const char* text) {
  const int file =
      (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CREAT | flags, 0644);
  if (file < 0) return;
  if (syscall(SYS_write, file, text, strlen(text)) < 0) abort();
  syscall(SYS_close, file);
}

static void report(void) {
  char text[32];
  if (count_file == NULL) return;
  snprintf(text, sizeof text, "%ld\n", atomic_load(&seen));
  put(count_file, O_TRUNC, text);
}

__attribute__((constructor)) static void start(void) {
  const char* path = getenv("KAN_KILL_DIR");
  const char* at = getenv("KAN_KILL_AT");
  if (path == NULL || realpath(path, directory) == NULL) {
    directory[0] = '\0';
    /* A directory that does not exist yet: an absolute path is taken as it is. */
    if (path != NULL) snprintf(directory, sizeof directory, "%s", path);
  }
  kill_at = at == NULL ? 0 : atol(at);
  partial = getenv("KAN_KILL_PARTIAL") != NULL;
  count_file = getenv("KAN_KILL_COUNT_FILE");
  trace_file = getenv("KAN_KILL_TRACE");
}

__attribute__((destructor)) static void end(void) { report(); }

static int inside(const char* path) {
  const size_t length = strlen(directory);
  return length > 0 && strncmp(path, directory, length) == 0 &&
         (path[length] == '/' || path[length] == '\0');
}

/* True where this call is the one not to be survived. */
static int fatal(const char* call, const char* path) {
  char line[PATH_MAX + 32];
  if (!inside(path)) return 0;
  const long number = atomic_fetch_add(&seen, 1) + 1;
  if (trace_file != NULL) {
    snprintf(line, sizeof line, "%s %s\n", call, path);
    put(trace_file, O_APPEND, line);
  }
  return kill_at > 0 && number == kill_at;
}

static void die(void) {
  report();
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int fatal_descriptor(const char* call, int file) {
  char link_name[64], path[PATH_MAX];
  snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", file);
  const ssize_t length = readlink(link_name, path, sizeof path - 1);
  if (length < 0) return 0;
  path[length] = '\0';
  return fatal(call, path);
}

static int fatal_path(const char* call, const char* name) {
  char parent[PATH_MAX], path[2 * PATH_MAX], real[PATH_MAX];
  snprintf(parent, sizeof parent, "%s", name);
  char* slash = strrchr(parent, '/');
  const char* last = slash == NULL ? name : name + (slash - parent) + 1;
  if (slash != NULL) *(slash == parent ? slash + 1 : slash) = '\0';
  if (realpath(slash == NULL ? "." : parent, real) == NULL) return 0;
  snprintf(path, sizeof path, "%s/%s", real, last);
  return fatal(call, path);
}

#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int file, const void* data, size_t size) {
  if (fatal_descriptor("write", file)) {
    if (partial) NEXT(write)(file, data, size / 2);
    die();
  }
  return NEXT(write)(file, data, size);
}

ssize_t pwrite(int file, const void* data, size_t size, off_t at) {
  if (fatal_descriptor("pwrite", file)) {
    if (partial) NEXT(pwrite)(file, data, size / 2, at);
    die();
  }
  return NEXT(pwrite)(file, data, size, at);
}

ssize_t pwrite64(int file, const void* data, size_t size, off64_t at) {
  if (fatal_descriptor("pwrite", file)) {
    if (partial) NEXT(pwrite64)(file, data, size / 2, at);
    die();
  }
  return NEXT(pwrite64)(file, data, size, at);
}

ssize_t writev(int file, const struct iovec* parts, int count) {
  if (fatal_descriptor("write", file)) {
    if (partial) NEXT(writev)(file, parts, count / 2);
    die();
  }
  return NEXT(writev)(file, parts, count);
}

int ftruncate(int file, off_t size) {
  if (fatal_descriptor("ftruncate", file)) die();
  return NEXT(ftruncate)(file, size);
}

int fsync(int file) {
  if (fatal_descriptor("fsync", file)) die();
  return NEXT(fsync)(file);
}

int fdatasync(int file) {
  if (fatal_descriptor("fsync", file)) die();
  return NEXT(fdatasync)(file);
}

int rename(const char* from, const char* to) {
  if (fatal_path("rename", from)) die();
  return NEXT(rename)(from, to);
}

int link(const char* from, const char* to) {
  if (fatal_path("link", to)) die();
  return NEXT(link)(from, to);
}

int unlink(const char* path) {
  if (fatal_path("unlink", path)) die();
  return NEXT(unlink)(path);
}
