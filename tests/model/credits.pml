/* Credits of the notification queue pair (worker/fabric/verbs/stream.c) between two workers, with
 * the loss of their connection and the next one.
 *
 * Each side may fill W receive buffers of the other.  A packet takes one credit and gives back what
 * its sender owes; the last credit is for packets that give some back.  Packets carry frames of the
 * sender's own and answers to frames of the peer's; who has FULL answers waiting gives no credit
 * back, so that the peer stops asking, but for one with its last packet.  Who owes half of the
 * window and has nothing to say sends a packet for that alone.
 *
 * Proved, for all orders of events:
 *   - a packet finds a receive buffer, and nobody gets more credit than there are buffers;
 *   - no credit is lost: what a side has, what flies, what is owed and what comes back are W;
 *   - all frames and all answers get through: a state in which somebody waits for ever is an
 *     invalid end state;
 *   - after a loss all that holds for the new connection, whatever arrives late of the old one.
 *
 *   -DNO_LAST        the last credit is like the others: Spin must find the deadlock
 *   -DNO_ONE         who is full of answers gives nothing back, ever: the same
 *   -DNO_GENERATION  packets of an old connection count: Spin must find the broken promise
 */
#define W     4
#define HALF  (W / 2)
#define FULL  3
#define ASKS  4 /* packets of its own that each side wants to send, each asks for two answers */

bit up[2] = 1;
byte generation[2] = 1;
byte credits[2] = W;
byte owed[2] = 0;
byte asks[2] = ASKS;
byte answers[2] = 0;
bit ready = 0;        /* the initiator (0) has to say that it is there */
bit heard = 1;        /* the responder (1) has heard it */
byte losses = 1;

/* Of the connection that both sides have; only the assertions look at them. */
byte flying[2] = 0;
byte returning[2] = 0;

chan wire[2] = [2 * W] of { byte, byte, byte }; /* from side: generation, credit, asks */

inline conserved(me)
{
    assert(generation[0] != generation[1] ||
           credits[me] + flying[me] + owed[1 - me] + returning[1 - me] == W)
}

#ifdef NO_LAST
#define MAY_SEND(me) (credits[me] > 0)
#else
#define MAY_SEND(me) (credits[me] > 1 || (credits[me] == 1 && owed[me] > 0))
#endif

#define HAS_WORDS(me) (asks[me] > 0 || answers[me] > 0 || (me == 0 && ready))
#define GIVES(me)     (answers[me] < FULL)
#define WANTS(me)     (HAS_WORDS(me) || (owed[me] >= HALF && GIVES(me)))
#define SPEAKS(me)    (up[me] && (me == 0 || heard))

inline packet_send(me)
{
    credits[me]--;
    if
    :: GIVES(me) -> give = owed[me]
#ifndef NO_ONE
    :: !GIVES(me) && credits[me] == 0 && owed[me] > 0 -> give = 1
    :: !GIVES(me) && !(credits[me] == 0 && owed[me] > 0) -> give = 0
#else
    :: !GIVES(me) -> give = 0
#endif
    fi;
    owed[me] = owed[me] - give;
    asking = 0;
    if
    :: me == 0 && ready -> ready = 0
    :: !(me == 0 && ready) && answers[me] > 0 -> answers[me]--
    :: !(me == 0 && ready) && asks[me] > 0 -> asks[me]--; asking = 2
    :: !HAS_WORDS(me) -> skip
    fi;
    flying[me]++;
    returning[me] = returning[me] + give;
    assert(flying[me] <= W); /* it finds a buffer */
    wire[me]!generation[me], give, asking;
    conserved(me);
    give = 0; /* so that states do not differ by them */
    asking = 0
}

inline packet_take(me)
{
    wire[1 - me]?its, give, asking;
    if
#ifndef NO_GENERATION
    :: its != generation[me] -> skip /* its buffer is posted again, and that is all */
    :: its == generation[me] ->
#else
    :: true ->
#endif
        if
        :: its == generation[1 - me] -> flying[1 - me]--; returning[1 - me] = returning[1 - me] - give
        :: else
        fi;
        credits[me] = credits[me] + give;
        assert(credits[me] <= W); /* no more credit than there are buffers */
        owed[me]++;
        assert(owed[me] <= W);    /* no more packets than it had credit for */
        answers[me] = answers[me] + asking;
        if
        :: me == 1 -> heard = 1
        :: else
        fi;
        conserved(me)
    fi;
    give = 0;
    asking = 0;
    its = 0
}

#define ALL_SAID                                                                           \
    (asks[0] + asks[1] + answers[0] + answers[1] + ready == 0 && losses == 0 && up[0] &&   \
     up[1] && empty(wire[0]) && empty(wire[1]) && !WANTS(0) && !WANTS(1))

proctype side(byte me)
{
    byte give, asking, its;

    do
    :: atomic { up[me] && nempty(wire[1 - me]) -> packet_take(me) }
    :: atomic { SPEAKS(me) && WANTS(me) && MAY_SEND(me) -> packet_send(me) }
    :: atomic { ALL_SAID -> break }
    od
}

inline side_open(me, new)
{
    generation[me] = new;
    credits[me] = W;
    owed[me] = 0;
    answers[me] = 0; /* they were about the old one */
    flying[me] = 0;
    returning[me] = 0;
    up[me] = 1
}

/* The connection may be lost once, at any time, or never.  What was under way arrives late or not at
 * all; the responder has its new queue pairs before the initiator knows, and is silent until it
 * hears from there. */
active proctype network()
{
    byte i;

    if
    :: atomic { losses == 1 -> losses = 0 }
    :: atomic { losses == 1 -> up[0] = 0; up[1] = 0; ready = 0 };
        do
        :: atomic { nempty(wire[0]) -> wire[0]?_, _, _ }
        :: atomic { nempty(wire[1]) -> wire[1]?_, _, _ }
        :: break
        od;
        atomic { side_open(1, 2); heard = 0 };
        atomic { side_open(0, 2); ready = 1; losses = 0 }
    fi
}

init
{
    atomic { run side(0); run side(1) }
}
