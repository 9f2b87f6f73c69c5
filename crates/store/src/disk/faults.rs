//! A disk that fails when told to: for tests of everything that must survive it.

use std::fmt::Debug;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::backends::FileBackend;
use redb::{BackendError, StorageBackend};

/// What is about to be done with the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiskAct {
    /// Read a part of it.
    Read,
    /// Write a part of it.
    Write,
    /// Make it longer or shorter.
    Resize,
    /// Force it to the disk.
    Sync,
}

/// Decides which acts on the store's file fail.
pub trait DiskFaults: Debug + Send + Sync {
    /// An error instead of the act.
    fn before(&self, act: DiskAct) -> io::Result<()>;
}

/// A file whose acts may be made to fail.
#[derive(Debug)]
pub(crate) struct Faulty {
    pub(crate) file: FileBackend,
    pub(crate) faults: Arc<dyn DiskFaults>,
}

impl StorageBackend for Faulty {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.faults.before(DiskAct::Read)?;
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.faults.before(DiskAct::Resize)?;
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.faults.before(DiskAct::Sync)?;
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.faults.before(DiskAct::Write)?;
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }

    fn try_lock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<bool, BackendError> {
        self.file.try_lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Bound<u64>, end: Bound<u64>) -> Result<(), BackendError> {
        self.file.unlock_range(start, end)
    }
}
