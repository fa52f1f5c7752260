/* SPDX-License-Identifier: Apache-2.0
 *
 * Tests reading and writing files on a real file system: permissions, links, pipes, full disks, concurrent readers.
 */
#include "base/file.h"

#include "tests/support/check.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static int enter_folder(void **state)
{
    char *folder = strdup("/tmp/autohete-file-XXXXXX");
    *state = folder;
    return !folder || !mkdtemp(folder) || chdir(folder);
}

static int leave_folder(void **state)
{
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf '%s'", (char *)*state);
    free(*state);
    return chdir("/") || system(command);
}

static void put(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void check_holds(const char *path, const char *text)
{
    char got[256] = {0};
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    (void)!fread(got, 1, sizeof got - 1, file);
    fclose(file);
    assert_string_equal(got, text);
}

static mode_t mode_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return about.st_mode & 07777;
}

static int entries(void)
{
    int n = 0;
    DIR *folder = opendir(".");
    while (readdir(folder))
        n++;
    closedir(folder);
    return n - 2; /* without . and .. */
}

TEST_IN(file, reads_what_is_there, enter_folder, leave_folder)
{
    struct ah_buffer bytes = {0};
    struct ah_error err = {0};
    put("a", "hello");
    ah_buffer_puts(&bytes, "> ");
    CHECK_OK(ah_file_read("a", 5, &bytes, &err), err);
    assert_string_equal(bytes.data, "> hello");
    put("empty", "");
    ah_buffer_release(&bytes);
    CHECK_OK(ah_file_read("empty", 0, &bytes, &err), err);
    assert_string_equal(bytes.data, "");
    CHECK_OK(ah_file_read("/proc/self/stat", 4096, &bytes, &err), err); /* its reported size is 0 */
    assert_true(bytes.size > 10);
    ah_buffer_release(&bytes);
}

TEST_IN(file, read_failures_name_the_path, enter_folder, leave_folder)
{
    struct ah_buffer bytes = {0};
    struct ah_error err = {0};
    put("long", "0123456789");
    ah_buffer_puts(&bytes, "kept");
    CHECK_FAILS(ah_file_read("none", 10, &bytes, &err), err, AH_E_IO, "none: cannot be read");
    CHECK_FAILS(ah_file_read(".", 10, &bytes, &err), err, AH_E_IO, "folder");
    CHECK_FAILS(ah_file_read("long", 9, &bytes, &err), err, AH_E_DOCUMENT,
                "long: is larger than the limit of 9 bytes");
    CHECK_FAILS(ah_file_read("/dev/zero", 100000, &bytes, &err), err, AH_E_DOCUMENT, "/dev/zero: is larger");
    CHECK_FAILS(ah_file_read("", 9, &bytes, &err), err, AH_E_IO, "'': cannot be read");
    assert_string_equal(bytes.data, "kept");
    assert_int_equal(bytes.size, 4);
    assert_false(bytes.failed);
    assert_int_equal(ah_file_read("none", 10, &bytes, NULL), AH_E_IO);
    ah_buffer_release(&bytes);
}

TEST_IN(file, dash_reads_standard_input, enter_folder, leave_folder)
{
    struct ah_buffer bytes = {0};
    struct ah_error err = {0};
    put("input", "from stdin");
    int kept = dup(STDIN_FILENO), fd = open("input", O_RDONLY);
    dup2(fd, STDIN_FILENO);
    close(fd);
    int rc = ah_file_read("-", 100, &bytes, &err);
    dup2(kept, STDIN_FILENO);
    close(kept);
    CHECK_OK(rc, err);
    assert_string_equal(bytes.data, "from stdin");
    ah_buffer_release(&bytes);
}

TEST_IN(file, new_files_get_the_umask, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    mode_t before = umask(027);
    CHECK_OK(ah_file_write("new", "abc", 3, &err), err);
    assert_int_equal(umask(before), 027);
    check_holds("new", "abc");
    assert_int_equal(mode_of("new"), 0640);
    assert_int_equal(entries(), 1);
}

TEST_IN(file, replacing_keeps_the_mode, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    put("old", "a longer text that was there");
    chmod("old", 0604);
    int seen = open("old", O_RDONLY); /* a reader that opened the file earlier still sees the old content */
    CHECK_OK(ah_file_write("old", "new", 3, &err), err);
    check_holds("old", "new");
    assert_int_equal(mode_of("old"), 0604);
    char text[8] = {0};
    assert_int_equal(read(seen, text, 7), 7);
    assert_string_equal(text, "a longe");
    close(seen);
    CHECK_OK(ah_file_write("old", NULL, 0, &err), err);
    check_holds("old", "");
    assert_int_equal(entries(), 1);
}

TEST_IN(file, links_are_followed_and_stay, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    char target[64];
    mkdir("d", 0777);
    put("d/real", "old");
    assert_int_equal(symlink("real", "d/second"), 0); /* a relative link starts at d, not at this folder */
    assert_int_equal(symlink("d/second", "first"), 0);
    CHECK_OK(ah_file_write("first", "new", 3, &err), err);
    check_holds("d/real", "new");
    assert_int_equal(readlink("first", target, sizeof target), 8);
    assert_int_equal(readlink("d/second", target, sizeof target), 4);
    assert_int_equal(symlink("d/missing", "dangling"), 0);
    CHECK_OK(ah_file_write("dangling", "made", 4, &err), err);
    check_holds("d/missing", "made");
    assert_int_equal(symlink("round", "round"), 0);
    CHECK_FAILS(ah_file_write("round", "x", 1, &err), err, AH_E_IO, "round: cannot be");
}

TEST_IN(file, write_failures_name_the_path, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    char name[PATH_MAX + 10];
    mkdir("d", 0777);
    put("plain", "x");
    CHECK_FAILS(ah_file_write("d", "x", 1, &err), err, AH_E_IO, "folder");
    CHECK_FAILS(ah_file_write("d/", "x", 1, &err), err, AH_E_IO, "d/: does not name a file");
    CHECK_FAILS(ah_file_write("", "x", 1, &err), err, AH_E_IO, "'': does not name a file");
    CHECK_FAILS(ah_file_write("-", "x", 1, &err), err, AH_E_USAGE, "'-'");
    CHECK_FAILS(ah_file_write("none/a", "x", 1, &err), err, AH_E_IO, "the folder 'none' does not exist");
    CHECK_FAILS(ah_file_write("plain/a", "x", 1, &err), err, AH_E_IO, "plain/a: ");
    int full = open("/dev/full", O_WRONLY);
    snprintf(name, sizeof name, "/dev/fd/%d", full); /* by a link: a bug would replace the device */
    CHECK_FAILS(ah_file_write(name, "x", 1, &err), err, AH_E_IO, "No space left");
    check_text_has(err.text, name);
    close(full);
    memset(name, 'n', 300);
    name[300] = '\0';
    CHECK_FAILS(ah_file_write(name, "x", 1, &err), err, AH_E_IO, "nnn");
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = '\0';
    CHECK_FAILS(ah_file_write(name, "x", 1, &err), err, AH_E_IO, "too long");
    assert_int_equal(ah_file_write("none/a", "x", 1, NULL), AH_E_IO);
    assert_int_equal(entries(), 2);
}

/* A file size limit simulates a full disk. */
TEST_IN(file, a_full_disk_loses_nothing, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    struct rlimit before, small;
    static char lots[100000];
    put("old", "precious");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    small = before;
    small.rlim_cur = 50000;
    setrlimit(RLIMIT_FSIZE, &small);
    int rc = ah_file_write("old", lots, sizeof lots, &err);
    int fresh = ah_file_write("new", lots, sizeof lots, NULL);
    setrlimit(RLIMIT_FSIZE, &before);
    CHECK_FAILS(rc, err, AH_E_IO, "old: cannot be written");
    assert_int_equal(fresh, AH_E_IO);
    check_holds("old", "precious");
    assert_int_equal(entries(), 1); /* neither a temporary file nor a new file is left */
}

TEST_IN(file, a_file_without_write_permission_stays, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    put("locked", "precious");
    chmod("locked", 0444);
    int as_root = geteuid() == 0;
    if (as_root && (chmod(".", 0777) || seteuid(65534)))
        check_skip("only the superuser may become another user");
    int rc = ah_file_write("locked", "x", 1, &err);
    if (as_root)
        assert_int_equal(seteuid(0), 0);
    CHECK_FAILS(rc, err, AH_E_IO, "locked: cannot be written: Permission denied");
    check_holds("locked", "precious");
}

struct reading {
    const char *path; /* NULL: read from fd */
    int fd;
    size_t total;
    unsigned char last;
};

/* Reads to the end of the file. Reads slowly at first, so that the writer must wait. */
static void *read_slowly(void *context)
{
    struct reading *reading = context;
    unsigned char bytes[4096];
    int fd = reading->path ? open(reading->path, O_RDONLY) : reading->fd;
    for (;;) {
        if (reading->total < 100000)
            usleep(2000);
        ssize_t got = read(fd, bytes, sizeof bytes);
        if (got <= 0)
            break;
        reading->total += (size_t)got;
        reading->last = bytes[got - 1];
    }
    close(fd);
    return NULL;
}

static void on_alarm(int number)
{
    (void)number;
}

/* Writing to a pipe survives interrupting signals and waits for the reader. */
TEST_IN(file, pipes_are_written_in_place, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    struct reading reading = {.path = "pipe"};
    static unsigned char lots[1000001];
    lots[1000000] = 77;
    assert_int_equal(mkfifo("pipe", 0666), 0);
    struct sigaction action = {.sa_handler = on_alarm}, before; /* no SA_RESTART: calls fail with EINTR */
    sigaction(SIGALRM, &action, &before);
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* the reader thread inherits this mask */
    pthread_t reader;
    pthread_create(&reader, NULL, read_slowly, &reading);
    int gate = open("pipe", O_WRONLY); /* returns once the reader has opened the pipe */
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    struct itimerval often = {{0, 500}, {0, 500}}, never = {0};
    setitimer(ITIMER_REAL, &often, NULL);
    int rc = ah_file_write("pipe", lots, sizeof lots, &err);
    setitimer(ITIMER_REAL, &never, NULL);
    close(gate);
    pthread_join(reader, NULL);
    sigaction(SIGALRM, &before, NULL);
    CHECK_OK(rc, err);
    assert_int_equal(reading.total, sizeof lots);
    assert_int_equal(reading.last, 77);
    struct stat about;
    assert_int_equal(stat("pipe", &about), 0);
    assert_true(S_ISFIFO(about.st_mode));
}

/* The writer waits for a non-blocking descriptor that cannot take more bytes. */
TEST_IN(file, descriptors_are_written_in_place, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    int ends[2];
    char path[64];
    static unsigned char lots[300000];
    assert_int_equal(pipe2(ends, O_NONBLOCK), 0);
    fcntl(ends[0], F_SETFL, 0);
    struct reading reading = {.fd = ends[0]};
    pthread_t reader;
    pthread_create(&reader, NULL, read_slowly, &reading);
    snprintf(path, sizeof path, "/dev/fd/%d", ends[1]);
    int rc = ah_file_write(path, lots, sizeof lots, &err);
    close(ends[1]);
    pthread_join(reader, NULL);
    CHECK_OK(rc, err);
    assert_int_equal(reading.total, sizeof lots);
}

/* The shell may redirect standard output to a file, even for appending. Then the file's earlier content stays. The test
 * makes its own link that stands for /dev/stdout, so a bug cannot replace the machine's. */
TEST_IN(file, redirected_output_keeps_its_place, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    put("log", "before\n");
    int kept = dup(STDOUT_FILENO), fd = open("log", O_WRONLY | O_APPEND);
    fflush(stdout);
    dup2(fd, STDOUT_FILENO);
    close(fd);
    assert_int_equal(symlink("/proc/self/fd/1", "output"), 0);
    int rc = ah_file_write("output", "one\n", 4, &err);
    (void)!write(STDOUT_FILENO, "two\n", 4);
    int again = ah_file_write("output", "three\n", 6, NULL);
    dup2(kept, STDOUT_FILENO);
    close(kept);
    CHECK_OK(rc, err);
    assert_int_equal(again, AH_OK);
    check_holds("log", "before\none\ntwo\nthree\n");
}

enum { SWAPS = 200, SHORT_BYTES = 30000, LONG_BYTES = 50000 };

static atomic_int swapping;

static void *swap_contents(void *context)
{
    int *failed = context;
    char *text = malloc(LONG_BYTES);
    for (int i = 0; i < SWAPS; i++) {
        size_t size = i % 2 ? SHORT_BYTES : LONG_BYTES;
        memset(text, i % 2 ? 's' : 'l', size);
        *failed |= ah_file_write("shared", text, size, NULL);
    }
    free(text);
    atomic_store(&swapping, 0);
    return NULL;
}

TEST_IN(file, readers_never_see_half, enter_folder, leave_folder)
{
    struct ah_error err = {0};
    struct ah_buffer bytes = {0};
    int failed = 0;
    CHECK_OK(ah_file_write("shared", NULL, 0, &err), err);
    pthread_t writer;
    atomic_store(&swapping, 1);
    pthread_create(&writer, NULL, swap_contents, &failed);
    while (atomic_load(&swapping)) {
        ah_buffer_clear(&bytes);
        CHECK_OK(ah_file_read("shared", LONG_BYTES, &bytes, &err), err);
        char first = bytes.data[0];
        assert_true(bytes.size == (first == 's' ? SHORT_BYTES : first == 'l' ? LONG_BYTES : 0));
        for (size_t i = 0; i < bytes.size; i++)
            assert_int_equal(bytes.data[i], first);
    }
    pthread_join(writer, NULL);
    assert_int_equal(failed, 0);
    ah_buffer_release(&bytes);
}

TEST_IN(file, same_by_every_name, enter_folder, leave_folder)
{
    char here[PATH_MAX], whole[PATH_MAX + 8];
    put("one", "");
    assert_int_equal(symlink("one", "link") | symlink("none", "away") | mkdir("deep", 0777), 0);
    assert_non_null(getcwd(here, sizeof here));
    snprintf(whole, sizeof whole, "%s/one", here);
    assert_true(ah_file_same("one", "./one") && ah_file_same("one", whole) &&
                ah_file_same("link", "deep/../one"));
    assert_int_equal(link("one", "hard"), 0);
    assert_true(ah_file_same("one", "hard") && ah_file_same("hard", "link"));
    assert_true(ah_file_same("none", "away") && ah_file_same("new", "./new")); /* neither exists */
    assert_false(ah_file_same("one", "two") || ah_file_same("one", "deep/one") ||
                 ah_file_same("one", "nowhere/one"));
    assert_false(ah_file_same("/dev/null", "/dev/null") || ah_file_same("/dev/stdout", "/dev/stdout"));
}
