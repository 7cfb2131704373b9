/* What systemd and a service say to each other, without its library: readiness, the watchdog and
 * sockets handed over (sd_notify(3), sd_listen_fds(3)). */
#pragma once

#include <stdint.h>

/* Take NOTIFY_SOCKET, WATCHDOG_USEC and LISTEN_FDS out of the environment, so that workers do not
 * inherit them. Once, at start. */
void notify_init(void);

/* Send "READY=1", "STOPPING=1", "WATCHDOG=1", "STATUS=…"; nothing without a listener. */
void notify_send(const char *state);

/* How often the watchdog must be fed, in milliseconds; 0: not at all. */
uint64_t notify_watchdog_ms(void);

/* Sockets handed over: descriptors first … first + count − 1, now close-on-exec. */
int notify_sockets(int *first);
