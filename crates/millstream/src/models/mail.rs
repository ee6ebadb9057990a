//! Mail and its doorbell, wakers, fences, groups.

use std::sync::Arc;

use millstream_io::Device;
use millstream_io::device::null::NullDevice;

use super::{check, mailbox, spawn};
use crate::caller::fence::Fence;
use crate::caller::group::Group;
use crate::handover::mailbox::{Letter, Shared};
use crate::handover::waiters::{Key, Waiters, ready_if, wake_all};
use crate::sync::{AtomicU64, Ordering};

/// A mailbox, and the device in which its owner sleeps.
fn with_bell() -> (Arc<Shared<()>>, NullDevice) {
    let (shared, device) = (mailbox(), NullDevice::new(1));
    shared.set_bell(device.doorbell());
    (shared, device)
}

fn sleep(shared: &Shared<()>, device: &mut NullDevice) {
    let slept = device.wait(None, &mut || shared.has_mail());
    slept.expect("the device works");
}

#[test]
fn no_letter_is_slept_over() {
    check(3, || {
        let (shared, mut device) = with_bell();
        let senders = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            spawn(move || assert!(shared.send(Letter::Close(None)), "the engine lives"))
        });
        let mut letters = Vec::new();
        let mut received = 0;
        while received < 2 {
            if shared.take_mail_flag() {
                shared.take_letters(&mut letters);
                received += letters.drain(..).count();
            } else {
                sleep(&shared, &mut device);
            }
        }
        senders
            .into_iter()
            .for_each(|sender| sender.join().unwrap());
    });
}

#[test]
fn a_letter_to_an_engine_that_ends_is_received_or_refused() {
    check(3, || {
        let (shared, _device) = with_bell();
        let senders = [(); 2].map(|()| {
            let shared = Arc::clone(&shared);
            spawn(move || u32::from(shared.send(Letter::Close(None))))
        });
        let (mut letters, mut received) = (Vec::new(), 0);
        loop {
            if shared.take_mail_flag() {
                shared.take_letters(&mut letters);
                received += letters.drain(..).count() as u32;
            }
            if shared.end_mail() {
                break;
            }
        }
        let accepted = senders.map(|sender| sender.join().unwrap());
        assert_eq!(received, accepted.iter().sum());
    });
}

#[test]
fn a_change_wakes_who_registered_before_or_is_seen() {
    check(3, || {
        let shared = Arc::new((AtomicU64::new(0), Waiters::default()));
        let waits = |shared: &(AtomicU64, Waiters)| {
            let mut key = Key::default();
            let look = || ready_if(shared.0.load(Ordering::Relaxed) != 0);
            crate::handover::park::block_on(None, |waker| shared.1.poll(&mut key, waker, look));
            shared.1.remove(&mut key);
        };
        let own = Arc::clone(&shared);
        let other = spawn(move || waits(&own));
        let own = Arc::clone(&shared);
        let changer = spawn(move || {
            own.0.store(1, Ordering::Relaxed);
            own.1.wake();
        });
        waits(&shared);
        other.join().unwrap();
        changer.join().unwrap();
        assert_eq!(shared.1.len(), 0, "no registration is left");
    });
}

#[test]
fn a_signal_wakes_a_thread_that_waits_for_its_fence() {
    check(3, || {
        let fence = Fence::new(0);
        let other = fence.clone();
        let signaler = spawn(move || {
            other.signal(1);
            other.signal(2);
        });
        assert!(matches!(fence.wait(2, None), Ok(true)));
        signaler.join().unwrap();
    });
}

/// As the engine gates a request: it watches the fence, looks at it, sleeps.
#[test]
fn a_signal_reaches_an_engine_that_watches_the_fence() {
    check(3, || {
        let (shared, mut device) = with_bell();
        let fence = Fence::new(0);
        let other = fence.clone();
        let signaler = spawn(move || other.signal(1));
        fence.watch(&shared.as_watcher());
        if fence.has_reached(1) {
            shared.look_at_fences();
        }
        while !(shared.take_mail_flag() && shared.take_fences_flag()) {
            sleep(&shared, &mut device);
        }
        assert!(fence.has_reached(1), "what the watcher was notified of");
        signaler.join().unwrap();
    });
}

#[test]
fn the_last_completion_wakes_a_thread_that_waits_for_its_group() {
    check(3, || {
        let group = Group::new();
        let threads = [(); 2].map(|()| {
            group.add();
            let group = group.clone();
            spawn(move || {
                let mut wakers = Vec::new();
                group.completed(None, 5, &mut wakers);
                wake_all(&mut wakers);
            })
        });
        assert!(matches!(group.wait(None), Ok(true)));
        assert_eq!((group.done(), group.bytes()), (2, 10));
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
    });
}
