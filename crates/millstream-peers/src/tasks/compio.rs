//! compio: completion-based files on its own io_uring, with one runtime on the calling thread.

use std::io;
use std::path::Path;
use std::rc::Rc;

use compio::driver::ProactorBuilder;
use compio::fs::{File, OpenOptions};
use compio::io::AsyncReadAtExt;
use compio::runtime::{Runtime, RuntimeBuilder};

use super::{Library, Tasks};
use crate::lent::Room;
use crate::plan::Read;
use crate::{Access, Rival};

pub(crate) const RIVAL: Rival = Rival {
    name: "compio",
    version: env!("VERSION_COMPIO"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: false,
    seeks: true,
    threads: false,
    make: |depth| {
        let mut proactor = ProactorBuilder::new();
        proactor.capacity(depth.next_power_of_two().max(32) as u32);
        let runtime = RuntimeBuilder::new().with_proactor(proactor).build()?;
        Ok(Box::new(Tasks::new(Ring(runtime), depth)))
    },
};

struct Ring(Runtime);

impl Library for Ring {
    type File = Rc<File>;
    const DIRECT: bool = true;

    async fn open(path: &Path, access: Access) -> io::Result<Rc<File>> {
        let mut options = OpenOptions::new();
        options.read(true);
        if access == Access::Direct {
            options.custom_flags(libc::O_DIRECT);
        }
        options.open(path).await.map(Rc::new)
    }

    fn shared(file: &Rc<File>) -> Option<Rc<File>> {
        Some(Rc::clone(file))
    }

    async fn read(file: &mut Rc<File>, read: Read, room: Room) -> io::Result<()> {
        file.read_exact_at(room, read.offset).await.0.map(drop)
    }

    async fn close(file: Rc<File>) -> io::Result<()> {
        match Rc::try_unwrap(file) {
            Ok(file) => file.close().await,
            Err(_) => Ok(()),
        }
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.block_on(future)
    }
}
