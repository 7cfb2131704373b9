/* The device's floors in a build without CUDA: every function reports that. */
#include "bench/floors.h"

double floors_device_copy_us(size_t bytes)
{
    (void)bytes;
    return -1;
}

double floors_pinned_up_us(size_t bytes)
{
    (void)bytes;
    return -1;
}

double floors_pinned_down_us(size_t bytes)
{
    (void)bytes;
    return -1;
}

double floors_pinned_both_us(size_t bytes)
{
    (void)bytes;
    return -1;
}

double floors_launch_us(void)
{
    return -1;
}
