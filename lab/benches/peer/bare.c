/* The minimum work of a command: creates a set as a cgroup v2 partition, or as a version 1 cpuset that evicts no thread, with only the
 * writes that the kernel needs.
 *
 *     bare create ROOT NAME CPUS               bare destroy ROOT NAME
 *     bare create-v1 ROOT NAME CPUS NODES      bare destroy-v1 ROOT NAME
 *     bare move-v1 ROOT NAME PID               moves a single-threaded process into it; NAME . is the root
 *
 * Linked statically, so that its start-up cost is about the minimum. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int put(const char *root, const char *name, const char *file, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s/%s", root, name, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return 1;
    ssize_t length = (ssize_t)strlen(text);
    int bad = write(fd, text, (size_t)length) != length;
    close(fd);
    return bad;
}

/* A successful write may leave an invalid partition, so verify its state. */
static int is_root(const char *root, const char *name)
{
    char path[512], text[64] = "";
    snprintf(path, sizeof path, "%s/%s/cpuset.cpus.partition", root, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    return length == 5 && memcmp(text, "root\n", 5) == 0;
}

int main(int argc, char **argv)
{
    char path[512] = "";
    if (argc > 3)
        snprintf(path, sizeof path, "%s/%s", argv[2], argv[3]);
    if (argc == 5 && strcmp(argv[1], "create") == 0) {
        return put(argv[2], ".", "cgroup.subtree_control", "+cpuset") || mkdir(path, 0755)
            || put(argv[2], argv[3], "cpuset.cpus", argv[4])
            || put(argv[2], argv[3], "cpuset.cpus.partition", "root") || !is_root(argv[2], argv[3]);
    }
    if (argc == 4 && strcmp(argv[1], "destroy") == 0) {
        return rmdir(path) != 0 || put(argv[2], ".", "cgroup.subtree_control", "-cpuset");
    }
    if (argc == 6 && strcmp(argv[1], "create-v1") == 0) {
        return mkdir(path, 0755) || put(argv[2], argv[3], "cpuset.mems", argv[5])
            || put(argv[2], argv[3], "cpuset.cpus", argv[4]);
    }
    if (argc == 4 && strcmp(argv[1], "destroy-v1") == 0) {
        return rmdir(path);
    }
    if (argc == 5 && strcmp(argv[1], "move-v1") == 0) {
        return put(argv[2], argv[3], "tasks", argv[4]);
    }
    return 2;
}
