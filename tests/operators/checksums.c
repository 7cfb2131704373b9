/* The bits of results do not change: a checksum of each of 2,000 random jobs on the host backend,
 * compared with the record in checksums.txt. Each job and its data have their own seed, so they are
 * the same on every machine.
 *
 *     checksums FILE            compare; exit status 1: a job's bits differ
 *     checksums --write FILE    record them, after an intended change of a result (which CHANGELOG
 * explains)
 */
#include "tests/lib/run_backend.h"
#include "tests/lib/sample.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES = 16 << 20, POINTS = 6000 };

static struct random source;
static struct bed bed;

/* FNV-1a over the values; all NaN are equal. */
static uint64_t hash_array(uint64_t hash, enum dtype dtype, const void *array, uint64_t elements)
{
    for (uint64_t i = 0; i < elements; i++) {
        uint64_t bits = 0;
        if (dtype == DTYPE_F32 && !isnan(((const float *)array)[i]))
            memcpy(&bits, (const float *)array + i, sizeof(float));
        else if (dtype == DTYPE_F64 && !isnan(((const double *)array)[i]))
            memcpy(&bits, (const double *)array + i, sizeof(double));
        else
            bits = 1;
        hash = (hash ^ bits) * UINT64_C(0x100000001b3);
    }
    return hash ^ hash >> 32;
}

static uint32_t checksum(const struct sample *sample)
{
    const struct job *job = &sample->job;
    void *in[AXIS_COUNT], *out[AXIS_COUNT];
    arrays_make(in, job_inputs(job), job_bytes(job), 0);
    arrays_make(out, job_outputs(job), job_bytes(job), 0x5a);
    for (int i = 0; i < job_inputs(job); i++)
        random_field(&source, job, in[i]);
    if (!bed_run(&bed, job, sample->block, &sample->operands, in, out, 0, NULL)) {
        fprintf(stderr, "no memory\n");
        exit(2);
    }
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (int i = 0; i < job_outputs(job); i++)
        hash = hash_array(hash, (enum dtype)job->dtype, out[i], job_points(job));
    const uint64_t probes = job_operand_points(job, OPERAND_PROBES);
    if (probes)
        hash =
            hash_array(hash, (enum dtype)job->dtype, sample->operands.at[OPERAND_PROBES], probes);
    arrays_free(in);
    arrays_free(out);
    return (uint32_t)hash;
}

static const enum family families[] = {FAMILY_PLAIN, FAMILY_PLAIN,  FAMILY_TABLE,  FAMILY_TABLE,
                                       FAMILY_TABLE, FAMILY_PROBES, FAMILY_SCHEME, FAMILY_STENCIL};

int main(int argc, char **argv)
{
    const bool writes = argc == 3 && strcmp(argv[1], "--write") == 0;
    if (argc != 2 + writes) {
        fprintf(stderr, "usage: checksums [--write] FILE\n");
        return 2;
    }
    FILE *file = fopen(argv[1 + writes], writes ? "w" : "r");
    struct failure failure = {0};
    if (!file || !bed_open(&bed, backend_host(), 0, ARENA_BYTES, &failure)) {
        perror(failure.message);
        return 2;
    }
    uint32_t differ = 0;
    for (int number = 0; number < 2000; number++) {
        struct sample sample;
        source.state = (uint64_t)number; /* of its own, so that no job's draws depend on others' */
        sample_make(&source, families[number % 8], POINTS, &sample);
        const uint32_t sum = checksum(&sample);
        uint32_t expected = 0;
        if (writes) {
            fprintf(file, "%08" PRIx32 "\n", sum);
        } else if (fscanf(file, "%8" SCNx32, &expected) != 1 || sum != expected) {
            differ++;
            printf("job %d: %08" PRIx32 ", on record %08" PRIx32 ": ", number, sum, expected);
            sample_print(&sample);
        }
        sample_free(&sample);
    }
    bed_close(&bed);
    printf("%" PRIu32 " of 2000 jobs have other bits\n", differ);
    return fclose(file) != 0 || differ != 0;
}
