/* The end of a turn of the loop. What the turn had to say goes out here: the replies of each
 * connection in one write, the orders of each worker in one packet or few. */
#ifndef SERVER_TURN_H
#define SERVER_TURN_H

struct server;

void turn_open(struct server *server);
void turn_close(struct server *server);

#endif
