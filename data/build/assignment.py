"""Who gets what where everybody has wishes and everything may be given out a limited number of times."""

import heapq
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import TypeVar

H = TypeVar("H", bound=Hashable)


def assign(
    quotas: Sequence[int],
    wishes: Sequence[Iterable[H]],
    capacity: Callable[[H], float],
    claim: Callable[[int, H], int],
) -> list[list[H]]:
    """Deferred acceptance (Gale and Shapley 1962) of many askers and many things.

    Each asker goes down its list of wishes until it holds as many things as its quota; a thing in demand stays with
    those whose claims are least. The outcome is the stable assignment that is best for the askers. There is one only,
    so it depends on the lists and claims and not on the order in which anybody is served.

    Args:
        quotas: how many things each asker wants.
        wishes: of each asker, the best first; read no further than needed. A thing occurs once in a list.
        capacity: how many askers a thing may be given to.
        claim: (asker, thing) -> a number, different for any two askers of a thing.

    Returns:
        for each asker what it holds, best first; fewer than its quota where its list came to an end.
    """
    lists = [iter(wish) for wish in wishes]
    asked: list[dict[H, bool]] = [{} for _ in quotas]  # thing -> whether the asker holds it, in order of asking
    missing = list(quotas)
    holders: dict[H, list[tuple[int, int]]] = {}  # heap with the weakest claim on top
    waiting = [i for i in reversed(range(len(missing))) if missing[i] > 0]
    while waiting:
        asker = waiting.pop()
        while missing[asker] > 0 and (thing := next(lists[asker], None)) is not None:
            heap, limit = holders.setdefault(thing, []), capacity(thing)
            entry = -claim(asker, thing), asker
            asked[asker][thing] = False
            if len(heap) < limit:
                heapq.heappush(heap, entry)
            elif heap and entry > heap[0]:
                loser = heapq.heapreplace(heap, entry)[1]
                asked[loser][thing] = False
                missing[loser] += 1
                waiting.append(loser)
            else:
                continue
            asked[asker][thing] = True
            missing[asker] -= 1
    return [[thing for thing, held in things.items() if held] for things in asked]
