/* Process 1 of a guest whose CPU has emulated hardware counters. Counts a loop of known length in the same way as lib/linux/src/hardware
   (a group of cycles and instructions, user mode only, read with its two times), prints the figures on the console, and powers off. */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/reboot.h>
#include <sys/syscall.h>
#include <unistd.h>

static int open_event(uint64_t config, int pid, int cpu, int group) {
    struct perf_event_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.size = sizeof attr;
    attr.type = PERF_TYPE_HARDWARE;
    attr.config = config;
    attr.disabled = group < 0;
    attr.exclude_kernel = 1;
    attr.exclude_hv = 1;
    attr.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING;
    return (int)syscall(SYS_perf_event_open, &attr, pid, cpu, group, PERF_FLAG_FD_CLOEXEC);
}

/* Two instructions per iteration. */
static void turns(uint64_t n) {
    __asm__ volatile("1: subs %0, %0, #1\n b.ne 1b\n" : "+r"(n) : : "cc");
}

static void count(const char *whom, int pid, int cpu) {
    int cycles = open_event(PERF_COUNT_HW_CPU_CYCLES, pid, cpu, -1);
    int instructions = cycles < 0 ? -1 : open_event(PERF_COUNT_HW_INSTRUCTIONS, pid, cpu, cycles);
    if (instructions < 0) {
        printf("COUNTED %s refused %s\n", whom, strerror(errno));
        return;
    }
    for (uint64_t n = 1000000; n <= 4000000; n *= 2) {
        uint64_t words[5];
        ioctl(cycles, PERF_EVENT_IOC_RESET, PERF_IOC_FLAG_GROUP);
        ioctl(cycles, PERF_EVENT_IOC_ENABLE, PERF_IOC_FLAG_GROUP);
        turns(n);
        ioctl(cycles, PERF_EVENT_IOC_DISABLE, PERF_IOC_FLAG_GROUP);
        if (read(cycles, words, sizeof words) != sizeof words) {
            printf("COUNTED %s refused a short read\n", whom);
            return;
        }
        printf("COUNTED %s %lu %lu %lu %d\n", whom, (unsigned long)n, (unsigned long)words[3],
               (unsigned long)words[4], words[1] == words[2]);
    }
}

int main(void) {
    setvbuf(stdout, NULL, _IONBF, 0);
    count("thread", 0, -1);
    count("processor", -1, 0);
    printf("COUNTED end\n");
    reboot(RB_POWER_OFF);
    for (;;)
        pause();
}
