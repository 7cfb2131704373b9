#include "server/jobs/program.h"

#include <assert.h>
#include <stdlib.h>

bool program_init(struct program *program, uint32_t most)
{
    *program = (struct program){.step = calloc(most ? most : 1, sizeof *program->step)};
    return program->step != NULL;
}

void program_free(struct program *program)
{
    free(program->step);
    program->step = NULL;
}

struct step *program_add(struct program *program, enum step_kind kind, bool waits)
{
    struct step *step = &program->step[program->count++];
    step->kind = kind;
    step->waits = waits;
    return step;
}

void program_repeat(struct program *program, uint32_t from, uint64_t rounds)
{
    program->from = from;
    program->to = program->count;
    program->rounds = rounds;
    if (rounds == 0 && program->next == from)
        program->next = program->to;
}

/* After the step before: round again, or past what is never done. */
static void advance(struct program *program)
{
    program->next++;
    if (program->next == program->to && program->to > program->from &&
        ++program->round < program->rounds)
        program->next = program->from;
    else if (program->next == program->from && program->rounds == 0)
        program->next = program->to;
}

struct step *program_next(struct program *program)
{
    if (program->broken || program->next == program->count)
        return NULL;
    struct step *step = &program->step[program->next];
    if (step->under_way || (step->waits && program->under_way))
        return NULL;
    step->under_way = true;
    program->under_way++;
    advance(program);
    return step;
}

void program_ended(struct program *program, struct step *step)
{
    assert(step->under_way);
    step->under_way = false;
    program->under_way--;
}

bool program_is_done(const struct program *program)
{
    return !program->under_way && (program->broken || program->next == program->count);
}
