/* One row of the table of bench_kernels: a job that is measured, compared with its floor and
 * checked; and what all rows share. */
#pragma once

#include "bench/runner.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    ROWS_MOST = 512,
    COPIES_MOST = 64,
    ONLY_MOST = 16,
    CHECK_STEPS = 37, /* of a diffusion: groups of steps as full as those timed, and others */
    ROOFLINE_BYTES = 512 << 20
};

struct row {
    char name[40], shape[24], boundary[16];
    const char *dtype;
    double us;          /* a pass; diffusion: a step */
    double gbs, gcells; /* of what it must move; points a time */
    double floor_us;    /* the copy */
    double ratio, bar;  /* bar: 0 where none is set */
    double spread;      /* of the samples */
    bool checked;
    double difference; /* from the host backend's result at most; 0: equal to the bit */
    char does[40];     /* a classical kernel's: the name of the product's row that does the same */
    struct timing_kernel kernel;
};

/* The options, the device, and what has been measured. */
extern struct bench {
    const struct runner *runner;
    bool cuda, check, quick, small, floors;
    const char *only[ONLY_MOST];
    int only_count;
    uint64_t started_ns;
    uint64_t key; /* of this run's random data */
    struct row rows[ROWS_MOST];
    int row_count;
    struct {
        uint64_t bytes;
        double us;
    } copies[COPIES_MOST];
    int copy_count;
} bench;

/* The floor of a row. */
enum against {
    AGAINST_COPY,    /* or a time that is known */
    AGAINST_CLASSICS /* the fastest of the classical kernels */
};

/* Measure a job and the classical kernels for it, unless --only excludes them. block: the
 * job's, or NULL. floor_us: 0 to measure it, the copy of as many bytes as the job must move. bar: 0
 * for none. */
void row_add_with_block(const char *name, const struct job *job, const void *block,
                        const char *boundary, double floor_us, enum against against, double bar);
/* … without a block. */
void row_add(const char *name, const struct job *job, const char *boundary, double floor_us,
             enum against against, double bar);

/* Are the bits the host backend's? A classical kernel's may be rounded differently. */
bool row_is_right(const struct row *row);

/* The copy of that many bytes: on a GPU measured once in a run; on a host, whose memory other
 * processes may use, beside every row. */
double row_copy_us(uint64_t bytes);
