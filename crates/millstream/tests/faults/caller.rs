//! The calling thread asks for nothing that can block: `open`, `enqueue`, `submit` and their kin
//! make no file-system call, whatever the files are like.

use std::fs;

use millstream::{Event, FileOptions, Priority, Request, StatusArray};
use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip, this_test, without_file_calls};

use crate::rig::{Rig, bytes, each, outcome, pattern};

#[test]
fn the_caller_makes_no_file_system_call() {
    each(this_test!(), |name, options| {
        let folder = tempfile::tempdir().expect("a folder");
        let content = pattern(4096);
        let paths: Vec<_> = (0..2096)
            .map(|index| folder.path().join(index.to_string()))
            .collect();
        for path in &paths {
            fs::write(path, &content).expect("written");
        }
        let rig = Rig::new(name, options);
        let (event, statuses) = (Event::new(), StatusArray::new(1));
        let tickets = or_skip!(without_file_calls(|| {
            let mut tickets = Vec::new();
            for (index, path) in paths.iter().enumerate() {
                let write = index % 64 == 0;
                let with = FileOptions {
                    write,
                    ..FileOptions::default()
                };
                let file = rig.storage.open_with(path, with);
                let whole = Request::read_file(file).priority(Priority::ALL[index % 4]);
                tickets.push(rig.queue.enqueue(whole).expect("taken"));
                tickets.push(
                    rig.queue
                        .try_enqueue(Request::read(file, 0, 4096))
                        .expect("taken"),
                );
                if index % 100 == 0 {
                    rig.queue.submit();
                }
            }
            let missing = rig.storage.open("/no/such/file");
            let ticket = rig
                .queue
                .enqueue(Request::read_file(missing))
                .expect("taken");
            ticket.cancel();
            ticket.reprioritise(Priority::Low, None);
            drop(ticket);
            rig.queue.enqueue_status(&statuses, 0);
            rig.queue.enqueue_event(&event);
            rig.queue.enqueue_close(missing);
            rig.queue.cancel_tagged(!0, 1);
            rig.queue.submit();
            tickets
        }));
        for ticket in tickets {
            assert!(bytes(ticket)[..] == content, "{name}");
        }
        rig.queue.drain();
        assert!(statuses.is_complete(0), "{name}");
        rig.finish();
    });
}

#[test]
fn opening_and_enqueueing_go_on_while_opens_and_reads_hang() {
    each(this_test!(), |name, options| {
        let content = pattern(4096);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Open, Effect::Hang).times(1));
        mount.inject(Rule::on(Call::Read, Effect::Hang).times(4));
        let rig = Rig::new(name, options);
        // Would never come back if any of it waited for the files: they wait for what follows.
        let file = rig.storage.open(mount.path("a"));
        let tickets: Vec<_> = (0..1000)
            .map(|index| {
                let ticket = rig
                    .queue
                    .enqueue(Request::read(file, index, 8))
                    .expect("taken");
                rig.queue.submit();
                ticket
            })
            .collect();
        assert!(tickets.iter().all(|ticket| !ticket.is_ended()), "{name}");
        mount.heal();
        for (index, ticket) in tickets.into_iter().enumerate() {
            let done = outcome(ticket).unwrap_or_else(|e| panic!("{name}: {e}"));
            assert!(
                done.into_buffer()[..] == content[index..index + 8],
                "{name}"
            );
        }
        rig.finish();
    });
}
