"""Who has what, who waits for it, and that the dead stand in nobody's way."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from sglgate.launch.grounds import Grounds, read_leases, slot_environment
from sglgate.launch.seats import Queue, Seat, TakenError, take_any


def test_who_waits_can_be_seen_in_order_and_is_served_in_order(tmp_path: Path) -> None:
    seat, queue, served = Seat(tmp_path / "seat"), Queue(tmp_path / "queue"), []
    assert seat.take("first")

    def wait(name: str) -> None:
        own = Seat(tmp_path / "seat")
        take_any([[own]], queue, name, 20, lambda _: None)
        served.append(name)
        own.give_up()

    threads = []
    for number, name in enumerate(["second", "third"], 1):
        threads.append(threading.Thread(target=wait, args=(name,)))
        threads[-1].start()
        while len(queue.waiting()) < number:
            time.sleep(0.01)
    assert [person.purpose for person in queue.waiting()] == ["second", "third"]
    assert "first, for 0 min" in str(seat.holder())
    seat.give_up()
    for thread in threads:
        thread.join()

    assert served == ["second", "third"]
    assert queue.waiting() == []
    assert seat.holder() is None


@pytest.mark.parametrize("what", ["waits", "holds"])
def test_a_killed_process_neither_holds_nor_waits(tmp_path: Path, what: str) -> None:
    code = (
        "import sys, time; from pathlib import Path; from sglgate.launch.seats import Queue, Seat, take_any\n"
        f"f = Path({str(tmp_path)!r})\n"
        "if sys.argv[1] == 'holds': Seat(f / 'seat').take('crashed'); print('there', flush=True); time.sleep(600)\n"
        "Seat(f / 'other').take('x')\n"
        "with Queue(f / 'queue').stand('crashed'): print('there', flush=True); time.sleep(600)\n"
    )
    other = subprocess.Popen([sys.executable, "-c", code, what], stdout=subprocess.PIPE, text=True)
    assert other.stdout is not None
    assert other.stdout.readline() == "there\n"
    seat, queue = Seat(tmp_path / "seat"), Queue(tmp_path / "queue")
    with pytest.raises(TakenError, match="crashed"):
        take_any([[seat]], queue, "second", 0, print)

    other.kill()
    other.wait()
    other.stdout.close()

    assert queue.waiting() == []
    assert take_any([[seat]], queue, "second", 0, print)
    seat.give_up()


def test_looking_at_a_seat_does_not_take_it_from_anybody(tmp_path: Path) -> None:
    seat = Seat(tmp_path / "seat")
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            Seat(tmp_path / "seat").holder()

    looking = threading.Thread(target=look)
    looking.start()
    try:
        for _ in range(50):
            assert seat.take("ours")
            seat.give_up()
    finally:
        stop.set()
        looking.join()


def test_neighbours_are_leased_together_and_two_halves_at_once() -> None:
    one, two, all_of_it = (Grounds(8, tell=lambda _: None) for _ in range(3))

    assert one.need(4, "one") == (0, 1, 2, 3)
    assert two.need(4, "two") == (4, 5, 6, 7)
    holders, waiting = read_leases()
    assert {str(holder).split(", ")[1] for holder in holders.values()} == {"one", "two"}
    assert waiting == []

    got = threading.Event()
    thread = threading.Thread(target=lambda: (all_of_it.need(8, "all"), got.set()))
    thread.start()
    while not read_leases()[1]:
        time.sleep(0.01)
    one.give_up()
    assert not got.wait(0.3), "half of the machine is not the machine"
    two.give_up()
    thread.join()
    assert all_of_it.held == tuple(range(8))
    all_of_it.give_up()


def test_a_small_one_does_not_overtake_one_that_waits_for_all() -> None:
    one, all_of_it, small = (Grounds(2, tell=lambda _: None) for _ in range(3))
    one.need(1, "one")
    order: list[str] = []

    def take(grounds: Grounds, count: int, name: str) -> None:
        grounds.need(count, name)
        order.append(name)
        grounds.give_up()

    threads = []
    for number, (grounds, count, name) in enumerate([(all_of_it, 2, "all"), (small, 1, "small")], 1):
        threads.append(threading.Thread(target=take, args=(grounds, count, name)))
        threads[-1].start()
        while len(read_leases()[1]) < number:
            time.sleep(0.01)
    one.give_up()
    for thread in threads:
        thread.join()

    assert order == ["all", "small"]


def test_two_who_hold_a_part_and_want_all_do_not_block_each_other() -> None:
    done: list[str] = []
    barrier = threading.Barrier(2)

    def work(name: str) -> None:
        grounds = Grounds(2, tell=lambda _: None)
        grounds.need(1, name)
        barrier.wait()
        with grounds.whole(name):
            assert grounds.held == (0, 1)
            assert grounds.need(1, name) == (), "as if it were alone"
            done.append(name)

    threads = [threading.Thread(target=work, args=(name,)) for name in ("a", "b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)

    assert sorted(done) == ["a", "b"]


def test_a_process_with_the_machine_to_itself_leases_nothing(tmp_path: Path) -> None:
    grounds = Grounds()

    with grounds.whole("speed"):
        assert grounds.need(8, "server") == ()
    assert slot_environment((), needs_gpu=True) == {}
    assert slot_environment((4, 5), needs_gpu=True)["CUDA_VISIBLE_DEVICES"] == "4,5"


def test_nobody_is_taken_for_dead_while_many_come_and_go(tmp_path: Path) -> None:
    queue, problems = Queue(tmp_path / "queue"), []

    def come_and_go() -> None:
        try:
            for _ in range(40):
                with queue.stand("somebody"):
                    queue.waiting()
        except OSError as error:
            problems.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert problems == []
    assert queue.waiting() == []
