#include "tests/unit/unit.h"

int main(void)
{
    return unit_run(NULL, NULL);
}
