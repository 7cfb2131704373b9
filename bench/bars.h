/* Which rows are measured, and the bar of each. */
#pragma once

/* For one H200. */
void bars_cuda(void);
/* In main memory, with one bar; and some that the second and third caches may hold, where copies
 * are faster, too. */
void bars_host(void);
