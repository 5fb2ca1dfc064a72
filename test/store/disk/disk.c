/*
 * Preloaded into a gateway (LD_PRELOAD), it stands between the program and the disk:
 *   DISK_DELAY_MS  each fsync and fdatasync takes so much longer.
 *   DISK_FAIL      while this file exists, a sync of a file whose name ends in "-wal" fails with EIO.
 *   DISK_HOLD      while this file exists, a sync waits whose file has a name that ends as the text in it. Once one waits, there is
 *                  a file of the same name with ".waits" after it.
 *   DISK_LOG       this file gets a record of each operation on rouse.db and its log in DISK_FOLDER.
 * A record is an operation ('c'reate, 'w'rite, 't'runcate, 's'ync begins, 'e'nds), a file ('d'atabase, 'l'og, 'f'older),
 * 1 if the process's first thread did it, 5 bytes for nothing, an offset or a size, and a length (both 8 bytes, little endian);
 * after a write its bytes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int record_fd = -1;
static const char *folder;

static void __attribute__((constructor)) begin(void) {
  const char *path = getenv("DISK_LOG");
  folder = getenv("DISK_FOLDER");
  if (path && folder) record_fd = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

static int ends_with(const char *text, const char *end) {
  size_t n = strlen(text), m = strlen(end);
  return n >= m && strcmp(text + n - m, end) == 0;
}

static char kind_of_path(const char *path) {
  if (!folder || strncmp(path, folder, strlen(folder)) != 0) return 0;
  if (strcmp(path, folder) == 0) return 'f';
  path += strlen(folder);
  return strcmp(path, "/rouse.db") == 0 ? 'd' : strcmp(path, "/rouse.db-wal") == 0 ? 'l' : 0;
}

static void path_of(int fd, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, PATH_MAX - 1);
  path[n < 0 ? 0 : n] = 0;
}

static char kind_of(int fd) {
  char path[PATH_MAX];
  if (record_fd < 0) return 0;
  path_of(fd, path);
  return kind_of_path(path);
}

static void record(char operation, char kind, uint64_t offset, const void *bytes, uint64_t length) {
  char head[24] = {operation, kind, syscall(SYS_gettid) == getpid()};
  memcpy(head + 8, &offset, 8);
  memcpy(head + 16, &length, 8);
  struct iovec parts[2] = {{head, sizeof head}, {(void *)bytes, bytes ? length : 0}};
  if (writev(record_fd, parts, 2) < 0) abort();
}

static ssize_t recorded_write(ssize_t (*real)(int, const void *, size_t, off_t), int fd, const void *bytes, size_t length, off_t at) {
  char kind = kind_of(fd);
  if (!kind) return real(fd, bytes, length, at);
  pthread_mutex_lock(&mutex);
  ssize_t done = real(fd, bytes, length, at);
  int error = errno;
  if (done > 0) record('w', kind, (uint64_t)at, bytes, (uint64_t)done);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return done;
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) { return recorded_write(REAL(pwrite), fd, bytes, length, at); }
ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) { return recorded_write(REAL(pwrite64), fd, bytes, length, at); }

static int recorded_truncate(int (*real)(int, off_t), int fd, off_t size) {
  char kind = kind_of(fd);
  if (!kind) return real(fd, size);
  pthread_mutex_lock(&mutex);
  int done = real(fd, size);
  int error = errno;
  if (done == 0) record('t', kind, (uint64_t)size, NULL, 0);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return done;
}

int ftruncate(int fd, off_t size) { return recorded_truncate(REAL(ftruncate), fd, size); }
int ftruncate64(int fd, off64_t size) { return recorded_truncate(REAL(ftruncate64), fd, size); }

static void wait_while_held(const char *path) {
  const char *hold = getenv("DISK_HOLD");
  char end[64], waits[PATH_MAX];
  FILE *file;
  if (hold) snprintf(waits, sizeof waits, "%s.waits", hold);
  for (; hold && (file = fopen(hold, "r")); usleep(1000)) {
    end[fread(end, 1, sizeof end - 1, file)] = 0;
    fclose(file);
    if (!ends_with(path, end)) return;
    close(REAL(open)(waits, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  }
}

static int slow_sync(int (*real)(int), int fd) {
  const char *delay = getenv("DISK_DELAY_MS"), *fail = getenv("DISK_FAIL");
  char path[PATH_MAX], kind = kind_of(fd);
  if (kind) {
    pthread_mutex_lock(&mutex);
    record('s', kind, (uint64_t)fd, NULL, 0);
    pthread_mutex_unlock(&mutex);
  }
  if (delay) usleep((useconds_t)atoi(delay) * 1000);
  path_of(fd, path);
  wait_while_held(path);
  int done = real(fd);
  if (fail && ends_with(path, "-wal") && access(fail, F_OK) == 0) {
    errno = EIO;
    return -1;
  }
  if (kind && done == 0) {
    pthread_mutex_lock(&mutex);
    record('e', kind, (uint64_t)fd, NULL, 0);
    pthread_mutex_unlock(&mutex);
  }
  return done;
}

int fsync(int fd) { return slow_sync(REAL(fsync), fd); }
int fdatasync(int fd) { return slow_sync(REAL(fdatasync), fd); }

static int recorded_open(int (*real)(const char *, int, ...), const char *path, int flags, mode_t mode) {
  char kind = record_fd >= 0 && (flags & O_CREAT) ? kind_of_path(path) : 0;
  if (!kind) return real(path, flags, mode);
  pthread_mutex_lock(&mutex);
  int is_new = access(path, F_OK) != 0;
  int fd = real(path, flags, mode);
  int error = errno;
  if (fd >= 0 && is_new) record('c', kind, 0, NULL, 0);
  pthread_mutex_unlock(&mutex);
  errno = error;
  return fd;
}

static mode_t mode_of(int flags, va_list rest) { return flags & (O_CREAT | O_TMPFILE) ? (mode_t)va_arg(rest, int) : 0; }

int open(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return recorded_open(REAL(open), path, flags, mode);
}

int open64(const char *path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  mode_t mode = mode_of(flags, rest);
  va_end(rest);
  return recorded_open(REAL(open64), path, flags, mode);
}
