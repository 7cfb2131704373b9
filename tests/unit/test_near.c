#include "base/near.h"
#include "tests/unit/unit.h"

#include <string.h>

static const char *const names[] = {"accuracy", "axis",       "batch",     "boundary",    "cfl",
                                    "dt",       "derivative", "diffusion", "diffusivity", "order",
                                    "spacing",  "stencil",    "stagger",   "steps"};

static void check(const char *word, const char *wanted)
{
    struct near near;
    near_begin(&near, word);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        near_try(&near, names[i]);
    assert_string_equal(near_text(&near).text, wanted);
}

TEST(test_what_is_near)
{
    check("acuracy", "; did you mean accuracy?");   /* missing */
    check("accurracy", "; did you mean accuracy?"); /* too many */
    check("accurscy", "; did you mean accuracy?");  /* wrong */
    check("acucracy", "; did you mean accuracy?");  /* swapped */
    check("Accuracy", "; did you mean accuracy?");
    check("bounadry", "; did you mean boundary?");
    check("deriv", "; did you mean derivative?"); /* its beginning */
    check("diff", "; did you mean diffusion or diffusivity?");
    check("difusio", "; did you mean diffusion?");
    check("diffusivit", "; did you mean diffusivity or diffusion?");
    check("step", "; did you mean steps?");
    check("st", "; did you mean dt?");
    check("ste", "; did you mean stencil or steps?");
    check("df", "; did you mean dt?");
    check("dx", "; did you mean spacing?"); /* another word for it */
    check("Neumann", "; did you mean derivative?");
    check("k", "");
    check("", "");
    check("quaternion", "");
    check("accuracy_of_the_whole_computation_and_more", "");
    assert_string_equal(near_mean("accuracy").text, "; did you mean accuracy?");
}

TEST(test_at_most_so_many)
{
    struct near near;
    near_begin(&near, "abcdef");
    static const char *const many[] = {"abcdxx", "abcdex", "abcdeg", "abcdfe", "abcdefg", "abcdef"};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++)
        near_try(&near, many[i]);
    assert_int_equal(near.count, NEAR_MOST);
    assert_string_equal(near.best[0].name, "abcdef");
    assert_string_equal(near_text(&near).text, "; did you mean abcdef, abcdex or abcdeg?");
    static char longest[NEAR_MOST][32];
    memset(longest, 'n', sizeof longest);
    near_begin(&near, "nnn");
    for (int i = 0; i < NEAR_MOST; i++) {
        longest[i][31] = '\0';
        near_try(&near, longest[i]);
    }
    assert_true(strlen(near_text(&near).text) < sizeof(struct near_text));
}
