//! The scheduler's order, shown on plain data.

use std::collections::VecDeque;

use super::*;

const BLOCK: u64 = 1 << 20;
const SHORT: u64 = limits::BLOCK_BYTES_SHORT as u64;
const LOW_WAIT_NS: u64 = limits::LOW_WAIT.as_nanos() as u64;

fn order(priority: Priority, deadline_ns: u64, arrival: u64) -> Order {
    Order {
        priority,
        deadline_ns,
        arrival,
        position: None,
        pinned: false,
    }
}

/// Adds a request without a deadline, whose number is its arrival.
fn add(scheduler: &mut Scheduler, request: u32, priority: Priority) {
    scheduler.add(request, order(priority, NO_DEADLINE, request.into()), 0);
}

/// A scheduler with requests of these priorities.
fn with(priorities: &[Priority]) -> Scheduler {
    let mut scheduler = Scheduler::new(BLOCK, LOW_WAIT_NS);
    for (request, priority) in (0..).zip(priorities) {
        add(&mut scheduler, request, *priority);
    }
    scheduler
}

/// The next request at a rate of 2 GB/s.
fn pick(scheduler: &mut Scheduler, now_ns: u64) -> Option<(u32, Priority)> {
    scheduler.pick(now_ns, 2_000_000_000, Priorities::default())
}

fn serve(scheduler: &mut Scheduler) -> Option<u32> {
    let (request, priority) = pick(scheduler, 0)?;
    scheduler.issued(request, priority, 4096, 0);
    scheduler.remove(request);
    scheduler.returned(priority, 4096);
    Some(request)
}

fn serve_all(mut scheduler: Scheduler) -> Vec<u32> {
    std::iter::from_fn(|| serve(&mut scheduler)).collect()
}

#[test]
fn within_a_priority_the_earliest_deadline_goes_first_then_arrival() {
    let mut scheduler = Scheduler::new(BLOCK, LOW_WAIT_NS);
    let deadlines = [NO_DEADLINE, 500, 300, NO_DEADLINE, 300];
    for (request, deadline_ns) in (0..).zip(deadlines) {
        let order = order(Priority::Normal, deadline_ns, request.into());
        scheduler.add(request, order, 0);
    }
    assert_eq!(serve_all(scheduler), [2, 4, 1, 0, 3]);
}

#[test]
fn a_pinned_request_is_the_first_of_its_priority() {
    let mut scheduler = with(&[Priority::Normal, Priority::High]);
    for (request, deadline_ns, pinned) in [(2, 100, false), (3, NO_DEADLINE, true)] {
        let mut order = order(Priority::Normal, deadline_ns, request.into());
        (order.pinned, order.position) = (pinned, Some(0));
        scheduler.add(request, order, 0);
    }
    assert!(scheduler.is_pinned(3) && !scheduler.is_pinned(2));
    scheduler.moved(3, 4096);
    assert_eq!(serve_all(scheduler), [1, 3, 2, 0]);
}

#[test]
fn higher_priorities_go_first_and_none_starves() {
    let mut scheduler = with(&[Priority::Low, Priority::Normal, Priority::High]);
    let mut served = Vec::new();
    for request in 3..67 {
        add(&mut scheduler, request, Priority::Realtime);
        served.extend(serve(&mut scheduler));
    }
    let low = served.iter().position(|&request| request == 0);
    let low = low.expect("low is served");
    assert!(low <= 16, "low waited for {low} blocks");
    assert!(served.contains(&1) && served.contains(&2));
}

#[test]
fn low_gets_a_block_in_sixteen_of_an_endless_flood() {
    let mut scheduler = with(&[Priority::Low; 100]);
    let mut low = 0;
    for flood in 100..1700 {
        add(&mut scheduler, flood, Priority::Realtime);
        let served = serve(&mut scheduler).expect("something waits");
        low += u32::from(served < 100);
    }
    assert_eq!(low, 100);
}

#[test]
fn a_request_stays_in_front_until_it_is_removed() {
    let mut scheduler = with(&[Priority::Normal; 2]);
    for _ in 0..5 {
        assert_eq!(pick(&mut scheduler, 0), Some((0, Priority::Normal)));
        scheduler.issued(0, Priority::Normal, 1, 0);
    }
    scheduler.remove(0);
    assert_eq!(pick(&mut scheduler, 0), Some((1, Priority::Normal)));
}

#[test]
fn a_changed_request_keeps_its_arrival() {
    let mut scheduler = with(&[Priority::Normal; 3]);
    for (request, priority) in [
        (2, Priority::High),
        (2, Priority::Normal),
        (0, Priority::Normal),
    ] {
        scheduler.remove(request);
        add(&mut scheduler, request, priority);
    }
    assert_eq!(serve_all(scheduler), [0, 1, 2]);
}

/// Issues what may be issued; requests of high priority then leave. Returns bytes by priority.
fn issue_all(scheduler: &mut Scheduler, now_ns: u64) -> [u64; PRIORITIES] {
    let mut issued = [0; PRIORITIES];
    while let Some((request, priority)) = pick(scheduler, now_ns) {
        let block = scheduler.block_bytes(priority, now_ns, 1);
        scheduler.issued(request, priority, block, now_ns);
        issued[priority as usize] += block;
        if priority == Priority::High {
            scheduler.remove(request);
        }
    }
    issued
}

#[test]
fn bulk_in_flight_is_bounded_and_smaller_while_realtime_was_seen() {
    let mut scheduler = with(&[Priority::Low]);
    let fill = |scheduler: &mut Scheduler, now_ns| {
        let [bytes, ..] = issue_all(scheduler, now_ns);
        scheduler.returned(Priority::Low, bytes);
        bytes
    };
    assert_eq!(fill(&mut scheduler, 0), limits::IN_FLIGHT_BYTES_MAX);
    add(&mut scheduler, 1, Priority::Realtime);
    scheduler.remove(1);
    assert_eq!(fill(&mut scheduler, 1), 2 * SHORT);
    let later = 2 * limits::HIGHER_MEMORY_NS;
    assert_eq!(fill(&mut scheduler, later), limits::IN_FLIGHT_BYTES_MAX);
}

#[test]
fn beside_a_higher_priority_a_lower_one_only_fills_what_it_leaves_free() {
    let high = Priority::High;
    let mut scheduler = with(&[Priority::Low, high, high, high]);
    let first = issue_all(&mut scheduler, 0);
    assert_eq!(first, [SHORT, 0, 3 * BLOCK, 0], "one short block at least");
    scheduler.returned(high, BLOCK);
    let second = issue_all(&mut scheduler, 0);
    assert_eq!(second, [0; 4], "two blocks are enough");
    scheduler.returned(high, BLOCK);
    scheduler.returned(high, BLOCK - SHORT);
    // 500 µs at 2 GB/s are 1 MB.
    assert_eq!(issue_all(&mut scheduler, 0), [2 * SHORT, 0, 0, 0]);
    scheduler.returned(high, SHORT);
    let all = issue_all(&mut scheduler, 0)[0];
    assert!(all + 3 * SHORT >= limits::IN_FLIGHT_BYTES_MAX);
    assert_eq!(scheduler.block_bytes(Priority::Low, 0, 1), BLOCK);
}

#[test]
fn what_waits_for_staging_leaves_the_device_to_lower_priorities() {
    let mut scheduler = with(&[Priority::Normal, Priority::High]);
    let skip = Priorities::of(|priority| priority == Priority::High);
    let mut bytes = 0;
    while let Some((request, priority)) = scheduler.pick(0, 2_000_000_000, skip) {
        assert_eq!(priority, Priority::Normal);
        let block = scheduler.block_bytes(priority, 0, 1);
        scheduler.issued(request, priority, block, 0);
        bytes += block;
    }
    assert_eq!(bytes, BLOCK);
}

#[test]
fn a_flood_that_keeps_the_device_full_leaves_a_block_in_sixteen() {
    const IN_FLIGHT_MAX: u64 = 4 << 20;
    let mut scheduler = with(&[Priority::Low]);
    let (mut in_flight, mut bytes) = (VecDeque::new(), 0);
    let (mut low, mut low_most) = (0, 0);
    for flood in 1..1601 {
        add(&mut scheduler, flood, Priority::High);
        let (request, priority) = pick(&mut scheduler, 0).expect("room");
        let block = scheduler.block_bytes(priority, 0, 1);
        scheduler.issued(request, priority, block, 0);
        in_flight.push_back((priority, block));
        bytes += block;
        match priority {
            Priority::Low => low += 1,
            _ => assert!(scheduler.remove(request)),
        }
        while bytes > IN_FLIGHT_MAX {
            let (priority, block) = in_flight.pop_front().expect("something is out");
            scheduler.returned(priority, block);
            bytes -= block;
        }
        low_most = low_most.max(scheduler.in_flight[0]);
    }
    assert_eq!((low, low_most), (100, SHORT));
}

#[test]
fn realtime_is_never_held_by_bulk_in_flight() {
    let mut scheduler = with(&[Priority::Low]);
    scheduler.issued(9, Priority::Low, 1 << 30, 0);
    assert_eq!(pick(&mut scheduler, 0), None);
    add(&mut scheduler, 1, Priority::Realtime);
    assert_eq!(pick(&mut scheduler, 0), Some((1, Priority::Realtime)));
}

#[test]
fn head_travel_on_a_rotating_disk_is_that_of_an_ideal_elevator() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut scheduler = Scheduler::new(BLOCK, LOW_WAIT_NS);
        let positions: Vec<u64> = (0..200).map(|_| random.u64(0..1 << 30)).collect();
        let start = random.u64(0..1 << 30);
        scheduler.head = start;
        for (request, &position) in (0u32..).zip(&positions) {
            let mut at = order(Priority::Normal, NO_DEADLINE, request.into());
            at.position = Some(position);
            scheduler.add(request, at, 0);
        }
        let (mut travel, mut head) = (0, start);
        while let Some((request, priority)) = pick(&mut scheduler, 0) {
            let position = positions[request as usize];
            travel += position.abs_diff(head);
            head = position;
            scheduler.issued(request, priority, 0, 0);
            scheduler.remove(request);
        }
        let low = *positions.iter().min().unwrap();
        let high = *positions.iter().max().unwrap();
        let ideal = (high - low) + start.abs_diff(low).min(start.abs_diff(high));
        assert!(
            travel * 10 <= ideal * 12,
            "seed {seed}: {travel} against {ideal}"
        );
    }
}

#[test]
fn once_low_priority_was_in_the_way_it_keeps_its_queue_short_for_a_while() {
    let mut scheduler = with(&[Priority::Low, Priority::High]);
    assert!(scheduler.remove(1));
    let fill = |scheduler: &mut Scheduler, now_ns| {
        let [bytes, ..] = issue_all(scheduler, now_ns);
        scheduler.returned(Priority::Low, bytes);
        bytes
    };
    let most = limits::IN_FLIGHT_BYTES_MAX;
    assert_eq!(fill(&mut scheduler, 1), most, "nothing was in its way");
    assert_eq!(issue_all(&mut scheduler, 1)[0], most);
    add(&mut scheduler, 2, Priority::High);
    assert!(scheduler.remove(2));
    scheduler.returned(Priority::Low, most);
    // 300 µs at 2 GB/s are 600 KB.
    assert_eq!(issue_all(&mut scheduler, 1), [3 * SHORT, 0, 0, 0]);
    scheduler.returned(Priority::Low, SHORT);
    assert_eq!(issue_all(&mut scheduler, 1)[0], SHORT);
    add(&mut scheduler, 2, Priority::High);
    assert_eq!(issue_all(&mut scheduler, 1), [0, 0, BLOCK, 0], "at once");
    scheduler.returned(Priority::High, BLOCK);
    let later = 2 * limits::HIGHER_MEMORY_NS;
    let rest = issue_all(&mut scheduler, later)[0];
    assert!(rest + 3 * SHORT >= most);
}
