/* A queue pair is replaced (worker/fabric/verbs/renew.c) between two workers that both may notice
 * its failure, at any time, and again.
 *
 * What the table of renew.c does is here state by state.  The words travel in order on a connection
 * of their own; packets on the queue pair: sent, arrived in the peer's completion queue, taken by
 * the peer, and perhaps acknowledged to the sender.  A stopped queue pair takes nothing more; what
 * arrived before is still in the completion queue.
 *
 * Proved, for all orders of events:
 *   - nobody who keeps to the table hears a word that is out of order;
 *   - packets arrive once each, in order: the sender begins again exactly behind what arrived, and
 *     never behind what it knows to have arrived;
 *   - it comes to an end: both go on and all packets have been taken, or the link has ended.  A state
 *     in which somebody waits for ever is an invalid end state.
 *
 *   -DNO_EPOCH  BROKEN does not say which queue pair: Spin must find it out of order
 *   -DNO_POLL   the new one is offered before all that arrived is counted: the lost packet
 *   -DNO_KEPT   an offer that comes while ours drains is not kept: RENEWED out of order
 */
#define PACKETS 3 /* that each side sends */

mtype = { LIVE, DRAINING, FRESH, READY };
mtype = { BROKEN, RENEW, RENEWED };

mtype state[2] = LIVE;
byte epoch[2] = 1;
bit offered[2] = 0;
byte resume_at[2] = 0; /* packets that the peer's offer says it has received */
byte breaks = 2;
bit dead = 0;          /* the link has ended */

/* Of the packets that side `s` sends; numbers, as they are in order. */
byte sent[2] = 0;
byte acked[2] = 0;
byte arrived[2] = 0;   /* at 1 - s */
byte taken[2] = 0;     /* by 1 - s */

chan say[2] = [6] of { mtype, byte, byte }; /* from side: word, epoch, packets received */

#define CAN_SEND(me)    (state[me] == LIVE)
#define CAN_RECEIVE(me) (state[me] == LIVE || state[me] == READY)
#define SAME(me)        (epoch[me] == epoch[1 - me])

inline stop(me)
{
    offered[me] = 0;
    state[me] = DRAINING
}

/* The peer has said how much of ours it has. */
inline connect(me)
{
    assert(acked[me] <= resume_at[me] && resume_at[me] <= sent[me]);
    state[me] = READY;
    say[me]!RENEWED, epoch[me], 0
}

inline replace(me)
{
#ifndef NO_POLL
    taken[1 - me] = arrived[1 - me];
#else
    arrived[1 - me] = taken[1 - me];
#endif
    epoch[me]++;
    state[me] = FRESH;
    say[me]!RENEW, epoch[me], taken[1 - me];
    if
    :: offered[me] -> connect(me)
    :: else
    fi
}

/* Its new queue pair begins where the peer's old one ended. */
inline resume(me)
{
    state[me] = LIVE;
    assert(resume_at[me] == arrived[me]);
    sent[me] = resume_at[me];
    acked[me] = resume_at[me]
}

inline on_break(me)
{
    breaks--;
    if
    :: state[me] == LIVE -> stop(me); say[me]!BROKEN, epoch[me], 0
    :: state[me] == DRAINING
    :: state[me] == FRESH || state[me] == READY -> dead = 1
    fi
}

inline on_broken(me)
{
    if
#ifndef NO_EPOCH
    :: state[me] == FRESH && its == epoch[me] - 1 /* both noticed it */
    :: !(state[me] == FRESH && its == epoch[me] - 1) ->
        assert(its == epoch[me]);
#else
    :: true ->
#endif
        if
        :: state[me] == LIVE -> stop(me)
        :: state[me] == DRAINING
        :: state[me] == FRESH -> assert(false)
        :: state[me] == READY -> dead = 1
        fi
    fi
}

inline on_renew(me)
{
    if
    :: state[me] == DRAINING -> assert(its == epoch[me] + 1)
    :: else -> assert(its == epoch[me])
    fi;
    assert(!offered[me]);
#ifdef NO_KEPT
    if
    :: state[me] != DRAINING -> offered[me] = 1
    :: else
    fi;
#else
    offered[me] = 1;
#endif
    resume_at[me] = count;
    if
    :: state[me] == DRAINING
    :: state[me] == FRESH -> connect(me)
    :: state[me] == LIVE || state[me] == READY -> assert(false)
    fi
}

inline on_renewed(me)
{
    assert(its == epoch[me]);
    assert(state[me] == READY);
    resume(me)
}

inline listen(me)
{
    say[1 - me]?word, its, count;
    if
    :: word == BROKEN -> on_broken(me)
    :: word == RENEW -> on_renew(me)
    :: word == RENEWED -> on_renewed(me)
    fi;
    word = 0; /* so that states do not differ by them */
    its = 0;
    count = 0
}

#define ALL_DONE                                                                          \
    (dead || (state[0] == LIVE && state[1] == LIVE && breaks == 0 && empty(say[0]) &&     \
              empty(say[1]) && taken[0] == PACKETS && taken[1] == PACKETS))

proctype side(byte me)
{
    mtype word;
    byte its, count;

    do
    :: atomic { ALL_DONE -> break }
    :: atomic { !dead && breaks > 0 -> breaks-- } /* or it never fails */
    :: atomic { !dead && breaks > 0 -> on_break(me) }
    :: atomic { !dead && nempty(say[1 - me]) -> listen(me) }
    :: atomic { !dead && state[me] == DRAINING -> replace(me) }
    :: atomic { !dead && CAN_SEND(me) && sent[me] < PACKETS -> sent[me]++ }
    /* the device */
    :: atomic { !dead && CAN_SEND(me) && CAN_RECEIVE(1 - me) && SAME(me) && arrived[me] < sent[me] ->
                arrived[me]++ }
    :: atomic { !dead && CAN_SEND(me) && acked[me] < arrived[me] -> acked[me]++ }
    :: atomic { !dead && taken[1 - me] < arrived[1 - me] -> taken[1 - me]++ }
    od
}

init
{
    atomic { run side(0); run side(1) }
}
