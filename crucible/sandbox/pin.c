/* Makes a program in a box see one clock and one source of randomness, whenever it runs.
 *
 * Preloaded. The wall clock starts at CRUCIBLE_CLOCK (seconds) in every process and moves by ten
 * microseconds with every look at it; what was written since the workspace was made, of which this
 * file is a part, is shown with the time at which the clock starts; random bytes follow from
 * CRUCIBLE_CLOCK. Monotonic clocks stay real, so that waiting works. Programs that are linked
 * statically, and calls inside the C library itself, are not reached.
 *
 * In a box randomness is no secret: nothing here may guard anything.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/types.h>
#include <time.h>
#include <unistd.h>

#define TICK_NS 10000ull
#define OWN_PATH "/opt/crucible/pin.so"

static uint64_t ticks, random_state;

static time_t start_of_clock(void)
{
    static time_t start;
    if (!start) {
        const char *text = getenv("CRUCIBLE_CLOCK");
        start = text ? (time_t)strtoll(text, NULL, 10) : 1;
    }
    return start;
}

static void now(struct timespec *out)
{
    uint64_t elapsed = __atomic_add_fetch(&ticks, 1, __ATOMIC_RELAXED) * TICK_NS;
    out->tv_sec = start_of_clock() + (time_t)(elapsed / 1000000000ull);
    out->tv_nsec = (long)(elapsed % 1000000000ull);
}

int clock_gettime(clockid_t clock, struct timespec *out)
{
    if (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI) {
        now(out);
        return 0;
    }
    return (int)syscall(SYS_clock_gettime, clock, out);
}

int gettimeofday(struct timeval *restrict out, void *restrict zone)
{
    struct timespec moment;
    (void)zone;
    now(&moment);
    out->tv_sec = moment.tv_sec;
    out->tv_usec = moment.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *out)
{
    struct timespec moment;
    now(&moment);
    if (out)
        *out = moment.tv_sec;
    return moment.tv_sec;
}

int timespec_get(struct timespec *out, int base)
{
    if (base != TIME_UTC)
        return 0;
    now(out);
    return base;
}

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_random(void)
{
    uint64_t step = __atomic_add_fetch(&random_state, 0x9e3779b97f4a7c15ull, __ATOMIC_RELAXED);
    uint64_t mixed = step + (uint64_t)start_of_clock();
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return mixed ^ (mixed >> 31);
}

static void fill(void *out, size_t size)
{
    unsigned char *bytes = out;
    while (size) {
        uint64_t word = next_random();
        size_t part = size < sizeof word ? size : sizeof word;
        memcpy(bytes, &word, part);
        bytes += part;
        size -= part;
    }
}

ssize_t getrandom(void *out, size_t size, unsigned int flags)
{
    (void)flags;
    fill(out, size);
    return (ssize_t)size;
}

int getentropy(void *out, size_t size)
{
    if (size > 256) {
        errno = EIO;
        return -1;
    }
    fill(out, size);
    return 0;
}

uint32_t arc4random(void) { return (uint32_t)next_random(); }
void arc4random_buf(void *out, size_t size) { fill(out, size); }
uint32_t arc4random_uniform(uint32_t bound) { return bound ? (uint32_t)(next_random() % bound) : 0; }

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static time_t made(void)
{
    static time_t moment;
    if (!moment) {
        struct stat own;
        __typeof__(&fstatat) real = REAL(fstatat);
        moment = real(AT_FDCWD, OWN_PATH, &own, 0) ? INT32_MAX : own.st_mtim.tv_sec;
    }
    return moment;
}

static void clamp(struct timespec *moment)
{
    if (moment->tv_sec >= made()) {
        moment->tv_sec = start_of_clock();
        moment->tv_nsec = 0;
    }
}

static int shown(int result, struct stat *out)
{
    if (!result) {
        clamp(&out->st_atim);
        clamp(&out->st_mtim);
        clamp(&out->st_ctim);
    }
    return result;
}

int fstatat(int folder, const char *restrict path, struct stat *restrict out, int flags)
{
    static __typeof__(&fstatat) real;
    if (!real)
        real = REAL(fstatat);
    return shown(real(folder, path, out, flags), out);
}

int fstat(int file, struct stat *out)
{
    static __typeof__(&fstat) real;
    if (!real)
        real = REAL(fstat);
    return shown(real(file, out), out);
}

int stat(const char *restrict path, struct stat *restrict out)
{
    return fstatat(AT_FDCWD, path, out, 0);
}

int lstat(const char *restrict path, struct stat *restrict out)
{
    return fstatat(AT_FDCWD, path, out, AT_SYMLINK_NOFOLLOW);
}

/* On 64-bit machines the two kinds of struct stat are one. */
int fstatat64(int folder, const char *restrict path, struct stat64 *restrict out, int flags)
{
    return fstatat(folder, path, (struct stat *)out, flags);
}
int fstat64(int file, struct stat64 *out) { return fstat(file, (struct stat *)out); }
int stat64(const char *restrict path, struct stat64 *restrict out)
{
    return stat(path, (struct stat *)out);
}
int lstat64(const char *restrict path, struct stat64 *restrict out)
{
    return lstat(path, (struct stat *)out);
}

static void clamp_x(struct statx_timestamp *moment)
{
    if (moment->tv_sec >= (int64_t)made()) {
        moment->tv_sec = (int64_t)start_of_clock();
        moment->tv_nsec = 0;
    }
}

int statx(int folder, const char *restrict path, int flags, unsigned int mask,
          struct statx *restrict out)
{
    static __typeof__(&statx) real;
    if (!real)
        real = REAL(statx);
    int result = real(folder, path, flags, mask, out);
    if (!result) {
        clamp_x(&out->stx_atime);
        clamp_x(&out->stx_mtime);
        clamp_x(&out->stx_ctime);
        clamp_x(&out->stx_btime);
    }
    return result;
}
