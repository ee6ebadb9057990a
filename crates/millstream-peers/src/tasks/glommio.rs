//! glommio: an executor with its own three rings on the calling thread.
//!
//! Its reads return buffers of its own (registered ones for direct reads) and cannot be given a
//! destination: the copy out of them is part of the measured work, as it is for any program that
//! needs bytes in a given place. Each executor needs 512 KiB of locked memory.

use std::io;
use std::path::Path;
use std::rc::Rc;

use glommio::io::{BufferedFile, DmaFile, ReadResult};
use glommio::{LocalExecutor, LocalExecutorBuilder, Placement};

use super::{Library, Tasks};
use crate::lent::Room;
use crate::plan::Read;
use crate::{Access, Rival};

pub(crate) const RIVAL: Rival = Rival {
    name: "glommio",
    version: env!("VERSION_GLOMMIO"),
    accesses: &[Access::Direct, Access::Buffered],
    copies: true,
    seeks: true,
    threads: false,
    make: |depth| {
        let executor = LocalExecutorBuilder::new(Placement::Unbound)
            .ring_depth(depth.next_power_of_two().max(128))
            .make()
            .map_err(|error| io::Error::other(format!("{error} (likely cause: ulimit -l)")))?;
        Ok(Box::new(Tasks::new(Ring(executor), depth)))
    },
};

struct Ring(LocalExecutor);

enum File {
    Direct(DmaFile),
    Buffered(BufferedFile),
}

impl Library for Ring {
    type File = Rc<File>;
    const DIRECT: bool = true;

    async fn open(path: &Path, access: Access) -> io::Result<Rc<File>> {
        let opened = match access {
            Access::Direct => DmaFile::open(path).await.map(File::Direct),
            Access::Buffered => BufferedFile::open(path).await.map(File::Buffered),
        };
        Ok(Rc::new(opened?))
    }

    fn shared(file: &Rc<File>) -> Option<Rc<File>> {
        Some(Rc::clone(file))
    }

    async fn read(file: &mut Rc<File>, read: Read, mut room: Room) -> io::Result<()> {
        let len = read.len as usize;
        let result: ReadResult = match &**file {
            File::Direct(file) => file.read_at_aligned(read.offset, len).await?,
            File::Buffered(file) => file.read_at(read.offset, len).await?,
        };
        if result.len() != len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        room.bytes().copy_from_slice(&result);
        Ok(())
    }

    async fn close(file: Rc<File>) -> io::Result<()> {
        match Rc::try_unwrap(file) {
            Ok(File::Direct(file)) => Ok(file.close().await?),
            Ok(File::Buffered(file)) => Ok(file.close().await?),
            Err(_) => Ok(()),
        }
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        self.0.run(future)
    }
}
