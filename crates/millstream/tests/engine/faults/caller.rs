//! The calling thread: `open`, `add`, `submit` and the like make no file-system call and do not
//! block, whatever the files are like.

use std::fs;

use millstream::{Fence, FileOptions, Priority, Read, StatusArray, Ticket};
use millstream_testing::{Call, Effect, FaultFs, Rule, or_skip, this_test, without_file_calls};

use crate::faults::rig::{Rig, each, landed, pattern, result};

/// Opens `paths` and submits two reads of each, with entries and cancellations in between.
fn submit_everything(
    rig: &Rig,
    paths: &[std::path::PathBuf],
    statuses: &StatusArray,
) -> Vec<Ticket<millstream::Buffer>> {
    let mut tickets = Vec::new();
    let mut batch = rig.queue.batch();
    for (index, path) in paths.iter().enumerate() {
        let options = FileOptions {
            write: index % 64 == 0,
            ..FileOptions::default()
        };
        let file = rig.storage.open(path, options);
        let whole = Read::whole(file).priority(Priority::ALL[index % 4]);
        tickets.push(batch.add(whole).expect("accepted"));
        let range = Read::range(file, 0, 4096);
        tickets.push(batch.try_add(range).expect("accepted"));
        if index % 100 == 0 {
            batch.submit();
        }
    }
    let missing = rig.storage.open("/no/such/file", FileOptions::default());
    let ticket = batch.add(Read::whole(missing)).expect("accepted");
    ticket.cancel();
    ticket.reprioritize(Priority::Low, None);
    drop(ticket);
    batch.status(statuses, 0).expect("accepted");
    batch.signal(&Fence::new(0), 1).expect("accepted");
    batch.close(missing).expect("accepted");
    rig.queue.cancel_tagged(!0, 1);
    drop(batch);
    drop(rig.storage.opened(missing).expect("accepted"));
    tickets
}

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
        let statuses = StatusArray::new(1);
        let tickets = or_skip!(without_file_calls(|| {
            submit_everything(&rig, &paths, &statuses)
        }));
        for ticket in tickets {
            assert!(landed(ticket)[..] == content, "{name}");
        }
        assert!(rig.queue.drain(None).expect("drained"), "{name}");
        assert!(statuses.is_complete(0), "{name}");
        rig.finish();
    });
}

#[test]
fn opening_and_submitting_go_on_while_opens_and_reads_hang() {
    each(this_test!(), |name, options| {
        let content = pattern(4096);
        let mount = or_skip!(FaultFs::mount(&[("a", &content)]));
        mount.inject(Rule::on(Call::Open, Effect::Hang).times(1));
        mount.inject(Rule::on(Call::Read, Effect::Hang).times(4));
        let rig = Rig::new(name, options);
        // A call that waited for the file would never return: the file waits for what follows.
        let file = rig.storage.open(mount.path("a"), FileOptions::default());
        let tickets: Vec<_> = (0..1000)
            .map(|index| rig.submit(Read::range(file, index, 8)))
            .collect();
        let pending = |ticket: &Ticket<_>| !ticket.is_complete();
        assert!(tickets.iter().all(pending), "{name}");
        mount.heal();
        for (index, ticket) in tickets.into_iter().enumerate() {
            let bytes = result(ticket).unwrap_or_else(|error| panic!("{name}: {error}"));
            assert!(bytes[..] == content[index..index + 8], "{name}");
        }
        rig.finish();
    });
}
