/* A communicator of NCCL's with two ranks, each a worker of another node, as backends make it. */
#pragma once

enum { COMMUNICATOR_ID_BYTES = 128 };

struct communicator;
