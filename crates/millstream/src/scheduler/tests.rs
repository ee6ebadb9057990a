//! The scheduler's order, shown on plain data.

use std::collections::VecDeque;

use super::*;

fn order(priority: Priority, deadline_ns: u64, arrival: u64) -> Order {
    Order {
        priority,
        deadline_ns,
        arrival,
        position: None,
    }
}

fn serve(scheduler: &mut Scheduler, now_ns: u64) -> Option<u32> {
    let (request, priority) = scheduler.pick(now_ns, 3_000_000_000, Priorities::default())?;
    scheduler.issued(request, priority, 4096, now_ns);
    scheduler.remove(request);
    scheduler.returned(priority, 4096);
    Some(request)
}

#[test]
fn within_a_priority_the_earliest_deadline_goes_first_then_arrival() {
    let mut scheduler = Scheduler::new(1 << 20);
    scheduler.add(0, order(Priority::Normal, NO_DEADLINE, 0), 0);
    scheduler.add(1, order(Priority::Normal, 500, 1), 0);
    scheduler.add(2, order(Priority::Normal, 300, 2), 0);
    scheduler.add(3, order(Priority::Normal, NO_DEADLINE, 3), 0);
    scheduler.add(4, order(Priority::Normal, 300, 4), 0);
    let order: Vec<u32> = std::iter::from_fn(|| serve(&mut scheduler, 0)).collect();
    assert_eq!(order, [2, 4, 1, 0, 3]);
}

#[test]
fn higher_priorities_go_first_and_none_starves() {
    let mut scheduler = Scheduler::new(1 << 20);
    let mut arrival = 0;
    let mut next = |scheduler: &mut Scheduler, request, priority| {
        scheduler.add(request, order(priority, NO_DEADLINE, arrival), 0);
        arrival += 1;
    };
    next(&mut scheduler, 1000, Priority::Low);
    next(&mut scheduler, 1001, Priority::Normal);
    next(&mut scheduler, 1002, Priority::High);
    let mut served = Vec::new();
    for request in 0..64 {
        next(&mut scheduler, request, Priority::Realtime);
        served.extend(serve(&mut scheduler, 0));
    }
    let low = served
        .iter()
        .position(|&request| request == 1000)
        .expect("low is served");
    assert!(low <= 16, "low waited for {low} blocks");
    assert!(served.contains(&1001) && served.contains(&1002));
}

#[test]
fn low_gets_a_block_in_sixteen_of_an_endless_flood() {
    let mut scheduler = Scheduler::new(1 << 20);
    for request in 0..100 {
        scheduler.add(
            request,
            order(Priority::Low, NO_DEADLINE, request.into()),
            0,
        );
    }
    let mut low = 0;
    for round in 0..1600u32 {
        let flood = 100 + round;
        scheduler.add(
            flood,
            order(Priority::Realtime, NO_DEADLINE, flood.into()),
            0,
        );
        let served = serve(&mut scheduler, 0).expect("something waits");
        low += u32::from(served < 100);
    }
    assert_eq!(low, 100);
}

#[test]
fn a_request_stays_in_front_until_it_is_removed() {
    let mut scheduler = Scheduler::new(1 << 20);
    scheduler.add(0, order(Priority::Normal, NO_DEADLINE, 0), 0);
    scheduler.add(1, order(Priority::Normal, NO_DEADLINE, 1), 0);
    for _ in 0..5 {
        let picked = scheduler.pick(0, 0, Priorities::default());
        assert_eq!(picked, Some((0, Priority::Normal)));
        scheduler.issued(0, Priority::Normal, 1, 0);
    }
    scheduler.remove(0);
    assert_eq!(
        scheduler.pick(0, 0, Priorities::default()),
        Some((1, Priority::Normal))
    );
}

#[test]
fn a_changed_request_keeps_its_arrival() {
    let mut scheduler = Scheduler::new(1 << 20);
    for request in 0..3 {
        scheduler.add(
            request,
            order(Priority::Normal, NO_DEADLINE, request.into()),
            0,
        );
    }
    scheduler.remove(2);
    scheduler.add(2, order(Priority::High, NO_DEADLINE, 2), 0);
    scheduler.remove(2);
    scheduler.add(2, order(Priority::Normal, NO_DEADLINE, 2), 0);
    scheduler.remove(0);
    scheduler.add(0, order(Priority::Normal, NO_DEADLINE, 0), 0);
    let order: Vec<u32> = std::iter::from_fn(|| serve(&mut scheduler, 0)).collect();
    assert_eq!(order, [0, 1, 2]);
}

#[test]
fn bulk_in_flight_is_bounded_and_smaller_while_realtime_was_seen() {
    let mut scheduler = Scheduler::new(1 << 20);
    let fill = |scheduler: &mut Scheduler, now_ns| {
        let mut bytes = 0;
        while let Some((request, priority)) =
            scheduler.pick(now_ns, 3_000_000_000, Priorities::default())
        {
            let block = scheduler.block_bytes(priority, now_ns);
            scheduler.issued(request, priority, block, now_ns);
            bytes += block;
        }
        scheduler.returned(Priority::Low, bytes);
        bytes
    };
    scheduler.add(0, order(Priority::Low, NO_DEADLINE, 0), 0);
    assert_eq!(fill(&mut scheduler, 0), limits::IN_FLIGHT_BYTES_MAX);
    scheduler.add(1, order(Priority::Realtime, NO_DEADLINE, 1), 0);
    scheduler.remove(1);
    assert_eq!(
        fill(&mut scheduler, 1),
        512 << 10,
        "two blocks of 256 KiB at 3 GB/s"
    );
    let later = 2 * limits::REALTIME_MEMORY_NS;
    assert_eq!(fill(&mut scheduler, later), limits::IN_FLIGHT_BYTES_MAX);
}

/// Issues what may be issued; bytes of each priority.
fn issue_all(scheduler: &mut Scheduler) -> [u64; PRIORITIES] {
    let mut issued = [0; PRIORITIES];
    while let Some((request, priority)) = scheduler.pick(0, 2_000_000_000, Priorities::default()) {
        let block = scheduler.block_bytes(priority, 0);
        scheduler.issued(request, priority, block, 0);
        issued[priority as usize] += block;
        if priority == Priority::High {
            scheduler.remove(request);
        }
    }
    issued
}

#[test]
fn beside_a_higher_priority_a_lower_one_only_fills_what_it_leaves_free() {
    const BLOCK: u64 = 1 << 20;
    const SHORT: u64 = limits::BLOCK_BYTES_SHORT as u64;
    let mut scheduler = Scheduler::new(BLOCK);
    scheduler.add(0, order(Priority::Low, NO_DEADLINE, 0), 0);
    for request in 1..4 {
        let arrival = request.into();
        scheduler.add(request, order(Priority::High, NO_DEADLINE, arrival), 0);
    }
    let first = issue_all(&mut scheduler);
    assert_eq!(
        first,
        [SHORT, 0, 3 * BLOCK, 0],
        "one short block in any case"
    );
    scheduler.returned(Priority::High, BLOCK);
    assert_eq!(issue_all(&mut scheduler), [0; 4], "two blocks are enough");
    scheduler.returned(Priority::High, BLOCK);
    scheduler.returned(Priority::High, BLOCK - SHORT);
    // 500 µs at 2 GB/s are 1 MB.
    assert_eq!(issue_all(&mut scheduler), [2 * SHORT, 0, 0, 0]);
    scheduler.returned(Priority::High, SHORT);
    let all = issue_all(&mut scheduler)[0];
    assert!(all + 3 * SHORT >= limits::IN_FLIGHT_BYTES_MAX);
    assert_eq!(scheduler.block_bytes(Priority::Low, 0), BLOCK);
}

#[test]
fn what_waits_for_staging_leaves_the_device_to_lower_priorities() {
    let mut scheduler = Scheduler::new(1 << 20);
    scheduler.add(0, order(Priority::Normal, NO_DEADLINE, 0), 0);
    scheduler.add(1, order(Priority::High, NO_DEADLINE, 1), 0);
    let skip = Priorities::of(|priority| priority == Priority::High);
    let mut bytes = 0;
    while let Some((request, priority)) = scheduler.pick(0, 2_000_000_000, skip) {
        assert_eq!(priority, Priority::Normal);
        let block = scheduler.block_bytes(priority, 0);
        scheduler.issued(request, priority, block, 0);
        bytes += block;
    }
    assert_eq!(bytes, 1 << 20);
}

#[test]
fn a_flood_that_keeps_the_device_full_leaves_a_block_in_sixteen() {
    const IN_FLIGHT_MAX: u64 = 4 << 20;
    let mut scheduler = Scheduler::new(1 << 20);
    scheduler.add(0, order(Priority::Low, NO_DEADLINE, 0), 0);
    let (mut in_flight, mut bytes) = (VecDeque::new(), 0);
    let (mut low, mut low_most) = (0, 0);
    for flood in 1..1601 {
        scheduler.add(flood, order(Priority::High, NO_DEADLINE, flood.into()), 0);
        let (request, priority) = scheduler
            .pick(0, 2_000_000_000, Priorities::default())
            .expect("room");
        let block = scheduler.block_bytes(priority, 0);
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
    assert_eq!(low, 100);
    assert_eq!(low_most, limits::BLOCK_BYTES_SHORT as u64);
}

#[test]
fn realtime_is_never_held_by_bulk_in_flight() {
    let mut scheduler = Scheduler::new(1 << 20);
    scheduler.issued(9, Priority::Low, 1 << 30, 0);
    scheduler.add(0, order(Priority::Low, NO_DEADLINE, 0), 0);
    assert_eq!(scheduler.pick(0, 0, Priorities::default()), None);
    scheduler.add(1, order(Priority::Realtime, NO_DEADLINE, 1), 0);
    assert_eq!(
        scheduler.pick(0, 0, Priorities::default()),
        Some((1, Priority::Realtime))
    );
}

#[test]
fn head_travel_on_a_rotating_disk_is_that_of_an_ideal_elevator() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut scheduler = Scheduler::new(1 << 20);
        let positions: Vec<u64> = (0..200).map(|_| random.u64(0..1 << 30)).collect();
        let start = random.u64(0..1 << 30);
        scheduler.head = start;
        for (request, &position) in (0u32..).zip(&positions) {
            let mut at = order(Priority::Normal, NO_DEADLINE, request.into());
            at.position = Some(position);
            scheduler.add(request, at, 0);
        }
        let (mut travel, mut head) = (0, start);
        while let Some((request, priority)) = scheduler.pick(0, 0, Priorities::default()) {
            let position = positions[request as usize];
            travel += position.abs_diff(head);
            head = position;
            scheduler.issued(request, priority, 0, 0);
            scheduler.remove(request);
        }
        let (low, high) = (
            *positions.iter().min().unwrap(),
            *positions.iter().max().unwrap(),
        );
        let ideal = (high - low) + start.abs_diff(low).min(start.abs_diff(high));
        assert!(
            travel * 10 <= ideal * 12,
            "seed {seed}: {travel} against {ideal}"
        );
    }
}
